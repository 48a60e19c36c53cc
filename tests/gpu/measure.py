"""`tests/gpu/run.sh`: what a random model costs this machine's GPU, in the update and in the engine.

Writes a page in Markdown, anew after each part. The update runs in a process of its own for each arithmetic of the
base model, over rows of mixed lengths, several times: the first compiles and finds its budget. The engine is a vLLM
server of our own that shares the device. What was not run stands on the page, too.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from rft.engines.import_env import prepare_imports

if __name__ == "__main__":
    prepare_imports()  # As every process that trains; those that are started here take it over.

import torch

from rft.core.graders import EndpointGrader
from rft.core.hyperparameters import Hyperparameters, LoraSpec, resolve
from rft.core.spec import Engine, RunSecrets, RunSpec, VllmSpec
from rft.engines.base_model import load_base_model
from rft.engines.tokenizer import load_tokenizer
from rft.engines.vllm.engine import VllmEngine
from rft.engines.vllm.open_engine import open_vllm_engine
from rft.rollouts.sampler import Sample, SampleRequest
from rft.starter.tokenizer import build_tokenizer
from rft.trainer.engine_probe import LARGEST_MEAN_GAP, mean_gap
from rft.trainer.grpo import PolicyTrainer
from rft.trainer.heap import return_large_blocks
from rft.trainer.ranks.flat import trained
from rft.trainer.update_settings import UpdateSettings
from tests.bench.train import Shape, TimedTrainer, mixed_lengths, rows_of

ROOT = Path(__file__).parents[2]
QWEN_600M = Shape(hidden=1024, intermediate=3072, layers=28)
TINY = Shape(vocabulary=2048, hidden=256, intermediate=128, layers=2)
"""vLLM's CPU build has no attention for heads of fewer than 32 numbers."""
NOT_RUN = (
    "Several GPUs (`RFT_DEVICES`): the ranks' own tests are on CPUs.",
    "A whole job with tools and grader: `RFT_VLLM_PYTHON=... make demo ENGINE=vllm` does that.",
    "Models beyond 0.6 billion parameters, mixtures of experts, hybrid layers.",
)
DTYPES = ("bfloat16", "float32")
UPDATES, WARM_UPS = 4, 1


@dataclass(frozen=True, slots=True)
class Load:
    """How much is computed."""

    shape: Shape
    rows: int
    row_tokens: int
    rollouts: int
    sampled_tokens: int


WHOLE = Load(QWEN_600M, rows=64, row_tokens=2048, rollouts=128, sampled_tokens=256)
SMALL = Load(TINY, rows=8, row_tokens=64, rollouts=8, sampled_tokens=16)


@dataclass(frozen=True, slots=True)
class UpdateFigures:
    """One update."""

    dtype: str
    tokens_per_s: float
    peak_mib: float
    """Of the device's memory that torch took; on a CPU, nothing is told."""
    micro_batch_tokens: int
    device: str


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """Rollouts at once on one server."""

    tokens_per_s: float
    gap_of_base: float
    gap_of_adapter: float
    """Mean difference of log-probabilities to a forward pass in the update's arithmetic."""


def main() -> int:
    """Run it; 1 where the engine samples from other weights than are trained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a few rows of a tiny model: to see that it works")
    parser.add_argument("--without-engine", action="store_true", help="the update alone, where there is no vLLM")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "performance.md")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("torch finds no GPU here; --device cpu --tiny shows that this works", file=sys.stderr)
        return 2
    load = SMALL if options.tiny else WHOLE
    updates, engine = list[UpdateFigures](), None
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        base = folder / "base"
        load.shape.model().save_pretrained(base)
        build_tokenizer().save_pretrained(base)
        for dtype in DTYPES:
            updates.append(_apart(partial(update_figures, base, load, dtype, options.device)))
            options.out.write_text(page(load, updates, None))
        if not options.without_engine:
            engine = engine_figures(base, load, folder / "run", is_half=options.device == "cuda")
            options.out.write_text(page(load, updates, engine))
    print(options.out.read_text())
    return 0 if engine is None or max(engine.gap_of_base, engine.gap_of_adapter) <= LARGEST_MEAN_GAP else 1


def _apart(measured: Callable[[], UpdateFigures]) -> UpdateFigures:
    """In a process of its own, whose memory is the device's again afterwards."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(measured).result()


def update_figures(base: Path, load: Load, dtype: str, device: str) -> UpdateFigures:
    """The median of equal updates in this process, after one that warms it up."""
    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return_large_blocks()
    lengths = mixed_lengths(load.rows, load.row_tokens)
    rows = rows_of(lengths, load.shape.vocabulary)
    with TemporaryDirectory() as folder:
        trainer = TimedTrainer(
            load_base_model(str(base), getattr(torch, dtype)), load_tokenizer(str(base)), _settings(dtype, UPDATES),
            output_dir=Path(folder), source=lambda step: rows, on_saved=lambda step, path, figures: None,
        )  # fmt: skip
        trainer.train()
        wall_s = median(step_s for step_s, _ in trainer.took[WARM_UPS:])
        is_on_gpu = trainer.accelerator.device.type == "cuda"
        return UpdateFigures(
            dtype=dtype,
            tokens_per_s=sum(lengths) / wall_s,
            peak_mib=torch.cuda.max_memory_allocated() / 2**20 if is_on_gpu else 0.0,
            micro_batch_tokens=trainer._budget or 0,  # pyright: ignore[reportPrivateUsage]
            device=torch.cuda.get_device_name() if is_on_gpu else f"CPU, {torch.get_num_threads()} threads",
        )


def _settings(dtype: str, steps: int) -> UpdateSettings:
    return UpdateSettings(steps, 1e-4, LoraSpec(), "dapo", 1.0, 1, is_weighted=True, base_dtype=getattr(torch, dtype))


def engine_figures(base: Path, load: Load, folder: Path, *, is_half: bool) -> EngineFigures:
    """What a server of our own samples from the base model and from an adapter, beside a forward pass of each."""
    folder.mkdir()
    dtype = "bfloat16" if is_half else "float32"
    policy = PolicyTrainer(
        load_base_model(str(base), getattr(torch, dtype)), load_tokenizer(str(base)), _settings(dtype, 1),
        output_dir=folder / "checkpoints", source=lambda step: (), on_saved=lambda step, path, figures: None,
    )  # fmt: skip
    before = policy.save_baseline()
    spec = RunSpec(
        job_id="gpu", seed=1, base_model=str(base), model_name="random",
        hyperparameters=resolve(Hyperparameters(), train_rows=1), tools=(),
        grader=EndpointGrader(name="none", url="http://127.0.0.1:9/"), engine=Engine.VLLM,
        vllm=VllmSpec(python=os.environ["RFT_VLLM_PYTHON"], gpu_memory_share=0.4),
    )  # fmt: skip
    engine = open_vllm_engine(spec, RunSecrets(), folder)
    return asyncio.run(_sampled(engine, policy, before, load))


async def _sampled(engine: VllmEngine, policy: PolicyTrainer, before: Path, load: Load) -> EngineFigures:
    prompt = rows_of([64], load.shape.vocabulary)[0]
    prompt_ids = (*prompt.prompt_ids, *prompt.completion_ids_T)

    async def rollouts(count: int) -> list[Sample]:
        asked = [
            SampleRequest(f"r{n}", (*prompt_ids, n % load.shape.vocabulary), load.sampled_tokens, (), seed=n)
            for n in range(count)
        ]
        return await asyncio.gather(*map(engine.sample, asked))

    def gap(sample: Sample, number: int) -> float:
        return mean_gap(policy.policy, (*prompt_ids, number), sample)

    try:
        await engine.publish(0, before)
        (first,) = await rollouts(1)
        began_s = time.perf_counter()
        samples = await rollouts(load.rollouts)
        took_s = time.perf_counter() - began_s
        generator = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for weight in trained(policy.policy):
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.02)
        after = policy.checkpoint_of(1)
        policy.save_model(str(after))
        base_gap = gap_before(policy, first, prompt_ids)
        await engine.publish(1, after)
        (adapted,) = await rollouts(1)
    finally:
        await engine.close()
    tokens = sum(len(sample.token_ids) for sample in samples)
    return EngineFigures(tokens / took_s, base_gap, gap(adapted, 0))


def gap_before(policy: PolicyTrainer, sample: Sample, prompt_ids: Sequence[int]) -> float:
    """Of the base model, without its adapter."""
    with policy.accelerator.unwrap_model(policy.policy).disable_adapter():
        return mean_gap(policy.policy, (*prompt_ids, 0), sample)


def page(load: Load, updates: Sequence[UpdateFigures], engine: EngineFigures | None) -> str:
    """What is written. `updates`: one at least."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    shape = load.shape
    lines = [
        "# Performance",
        "",
        f"Written by `tests/gpu/run.sh` on {datetime.now(UTC):%Y-%m-%d} at commit {commit.strip() or 'unknown'}, on"
        f" {updates[0].device}, with torch {torch.__version__}. The model is random: vocabulary"
        f" {shape.vocabulary:,}, hidden size {shape.hidden}, {shape.layers} layers.",
        "",
        f"**Update** of {load.rows} rows of mixed lengths up to {load.row_tokens:,} tokens, adapter of rank 16, the"
        f" median of {UPDATES - WARM_UPS} after {WARM_UPS} that warms up:",
        "",
        "| base model in | tokens/s | peak of torch's memory | tokens of a micro-batch |",
        "|---|---|---|---|",
        *(
            f"| {update.dtype} | {update.tokens_per_s:,.0f} | {_mib(update)} | {update.micro_batch_tokens:,} |"
            for update in updates
        ),
        "",
        *_ratio(updates),
        *_sampling(load, engine),
        "**Not run:**",
        "",
        *(f"- The update in {dtype}." for dtype in DTYPES[len(updates) :]),
        *(["- The engine: a vLLM server beside the update."] if engine is None else []),
        *(f"- {what}" for what in NOT_RUN),
        "",
    ]
    return "\n".join(lines)


def _ratio(updates: Sequence[UpdateFigures]) -> list[str]:
    if len(updates) < len(DTYPES):
        return []
    half, single = updates
    return [f"In bfloat16 an update is {half.tokens_per_s / single.tokens_per_s:.2f} times as fast.", ""]


def _sampling(load: Load, engine: EngineFigures | None) -> list[str]:
    if engine is None:
        return []
    return [
        f"**Engine**: {load.rollouts} rollouts of {load.sampled_tokens} tokens at once on one vLLM server:"
        f" {engine.tokens_per_s:,.0f} tokens/s. Its log-probabilities differ from those of the update by"
        f" {engine.gap_of_base:.2g} in the mean for the base model, by {engine.gap_of_adapter:.2g} for an adapter.",
        "",
    ]


def _mib(update: UpdateFigures) -> str:
    return f"{update.peak_mib:,.0f} MiB" if update.peak_mib else "not told on a CPU"


if __name__ == "__main__":
    sys.exit(main())
