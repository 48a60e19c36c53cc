"""`make bench-train`: memory and speed of an update, the engine closed -> var/bench/train.json.

Writes `{"cases": {name: {figures..., "bar": ..., "passed": bool}}}` and what it was measured on. A random model of 100
million parameters with Qwen's vocabulary is updated on the CPU, each case in a process of its own. Memory is the peak
while updating minus what was resident once model and rows were loaded. The control of the speed is how updates were
cut before: two rows to a micro-batch, whatever their length, and TRL's tiles of 4,096 tokens; old and new take turns
with the same rows, and are compared by processor time, which a busy machine bends less than the clock.
"""

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from rft.core.base import JsonObject
from rft.core.hyperparameters import LoraSpec
from rft.core.step_record import Optimization
from rft.starter.tokenizer import build_tokenizer
from rft.trainer import grpo
from rft.trainer.grpo import PolicyTrainer
from rft.trainer.heap import return_large_blocks
from rft.trainer.samples import TrainingRow
from rft.trainer.update_settings import UpdateSettings

ROOT = Path(__file__).parents[2]
GIB = 2**30
MEMORY_BAR = GIB
GROWTH_BAR = 0.05
SPEED_BAR = 1.5
_PROMPT_SHARE, _SAMPLED_SHARE = 0.25, 0.5
_ROWS_BEFORE = 2
"""Rows of a micro-batch on average, as models of this size had it before."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The model; 100 million parameters unless said otherwise, most of them the vocabulary's."""

    vocabulary: int = 151_936
    hidden: int = 512
    intermediate: int = 1536
    layers: int = 8

    def model(self) -> Qwen3ForCausalLM:
        """Random weights, tied embeddings."""
        torch.manual_seed(0)
        config = Qwen3Config(
            vocab_size=self.vocabulary, hidden_size=self.hidden, intermediate_size=self.intermediate,
            num_hidden_layers=self.layers, num_attention_heads=8, num_key_value_heads=4, head_dim=self.hidden // 8,
            max_position_embeddings=16_384, tie_word_embeddings=True,
        )  # fmt: skip
        return Qwen3ForCausalLM(config)


@dataclass(frozen=True, slots=True)
class Size:
    """What is measured."""

    rows: int = 128
    more_rows: int = 512
    tokens: int = 2048
    mixed_rows: int = 64
    repeats: int = 3
    shape: Shape = Shape()


@dataclass(frozen=True, slots=True)
class Measured:
    """One update."""

    tokens: int
    wall_s: float
    cpu_s: float
    peak_bytes: int
    """Above what was resident before it."""
    micro_batch_tokens: int
    """The budget it found."""

    def figures(self) -> JsonObject:
        """For the report."""
        return {
            "tokens": self.tokens,
            "peak_mib": round(self.peak_bytes / 2**20),
            "micro_batch_tokens": self.micro_batch_tokens,
            "tokens_per_s": round(self.tokens / self.wall_s, 1),
            "tokens_per_cpu_s": round(self.tokens / self.cpu_s, 1),
        }


class TimedTrainer(PolicyTrainer):
    """Keeps what each of its steps took: seconds by the clock and of the processor."""

    took: Sequence[tuple[float, float]] = ()

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        loss = super().training_step(model, inputs, num_items_in_batch)
        self.took = *self.took, (time.perf_counter() - wall_s, time.process_time() - cpu_s)
        return loss


def rows_of(lengths: Sequence[int], vocabulary: int) -> list[TrainingRow]:
    """A prompt, then sampled tokens and tool outputs in turns."""
    draw = random.Random(7)
    rows: list[TrainingRow] = []
    for length in lengths:
        ids = [draw.randrange(vocabulary) for _ in range(length)]
        prompt = max(1, int(length * _PROMPT_SHARE))
        sampled_until = prompt + max(1, int(length * _SAMPLED_SHARE))
        mask = tuple(prompt <= place < sampled_until for place in range(prompt, length))
        logprobs = tuple(-1.0 if is_sampled else 0.0 for is_sampled in mask)
        rows.append(TrainingRow(tuple(ids[:prompt]), tuple(ids[prompt:]), mask, logprobs, draw.choice([-1.0, 1.0])))
    return rows


def mixed_lengths(rows: int, longest: int) -> list[int]:
    """From a thirty-second of the longest on, most of them short, as rollouts with tools are."""
    draw = random.Random(3)
    return [longest, *(int(longest * 2 ** draw.uniform(-5, 0)) for _ in range(rows - 1))]


def update(shape: Shape, lengths: Sequence[int], *, threads: int, is_control: bool = False) -> Measured:
    """One measured update in this process, after one that warms it up."""
    torch.set_num_threads(threads)
    if not is_control:
        return_large_blocks()
    rows = rows_of(lengths, shape.vocabulary)
    given = iter([rows[-1:], rows])
    settings = UpdateSettings(2, 1e-4, LoraSpec(), "dapo", 1.0, 1)
    with TemporaryDirectory() as folder, _as_before() if is_control else nullcontext():
        trainer = TimedTrainer(
            shape.model(), build_tokenizer(), settings,
            output_dir=Path(folder), source=lambda step: next(given), on_saved=_ignore,
        )  # fmt: skip
        before = resident_bytes("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # From now on VmHWM is the peak.
        trainer.train()
        wall_s, cpu_s = trainer.took[-1]
        budget = trainer._budget or 0  # pyright: ignore[reportPrivateUsage]
        return Measured(sum(lengths), wall_s, cpu_s, resident_bytes("VmHWM") - before, budget)


def _as_before() -> AbstractContextManager[object]:
    """Updates as they were cut before there was a budget of tokens."""
    return mock.patch.dict(
        vars(grpo),
        micro_batches=_batches_by_rows,
        small_chunks_without_triton=_with_trls_tiles,
        set_checkpointing=_without_checkpointing,
        return_freed_pages=_keep_freed_pages,
    )


def _with_trls_tiles(device: torch.device) -> AbstractContextManager[None]:
    del device
    return nullcontext()


def _without_checkpointing(model: PreTrainedModel, *, share: float) -> int:
    del model, share
    return 0


def _keep_freed_pages() -> None:
    pass


def _ignore(step: int, path: Path, optimization: Optimization) -> None:
    del step, path, optimization


def _batches_by_rows(rows: Sequence[TrainingRow], tokens: int, *, pass_tokens: int) -> list[list[TrainingRow]]:
    """So many batches that one has two rows on average, the costliest as cheap as it may be."""
    by_length = sorted(rows, key=lambda row: row.tokens, reverse=True)
    count = max(1, -(-len(rows) // _ROWS_BEFORE))
    low, high = by_length[0].tokens, by_length[0].tokens * len(rows)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(_within(by_length, middle)) <= count else (middle + 1, high)
    return _within(by_length, low)


def _within(by_length: Sequence[TrainingRow], cost: int) -> list[list[TrainingRow]]:
    batches: list[list[TrainingRow]] = []
    for row in by_length:
        if batches and (len(batches[-1]) + 1) * batches[-1][0].tokens <= cost:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def resident_bytes(field: str) -> int:
    """Bytes, from the kernel's own count."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) * 1024


def memory(size: Size, threads: int) -> JsonObject:
    """The peak with as many rows as a step has, and with four times as many."""
    few, many = (
        _apart(size.shape, [size.tokens] * rows, threads=threads, is_control=False)
        for rows in (size.rows, size.more_rows)
    )
    growth = many.peak_bytes / few.peak_bytes - 1
    return {
        "rows": size.rows,
        "more_rows": size.more_rows,
        "few": few.figures(),
        "many": many.figures(),
        "growth": round(growth, 4),
        "bar": {"peak_mib": MEMORY_BAR // 2**20, "growth": GROWTH_BAR},
        "passed": few.peak_bytes <= MEMORY_BAR and growth <= GROWTH_BAR,
    }


def speed(size: Size, threads: int) -> JsonObject:
    """Old and new in turns over the same rows of mixed lengths; the best of each counts."""
    lengths = mixed_lengths(size.mixed_rows, size.tokens)
    new: list[Measured] = []
    old: list[Measured] = []
    for _ in range(size.repeats):
        new.append(_apart(size.shape, lengths, threads=threads, is_control=False))
        old.append(_apart(size.shape, lengths, threads=threads, is_control=True))
    best_new, best_old = (min(found, key=lambda one: one.cpu_s) for found in (new, old))
    ratio = best_old.cpu_s / best_new.cpu_s
    return {
        "rows": size.mixed_rows,
        "new": best_new.figures(),
        "control": best_old.figures(),
        "ratio": round(ratio, 3),
        "ratio_by_the_clock": round(min(one.wall_s for one in old) / min(one.wall_s for one in new), 3),
        "bar": SPEED_BAR,
        "passed": ratio >= SPEED_BAR,
    }


def _apart(shape: Shape, lengths: Sequence[int], *, threads: int, is_control: bool) -> Measured:
    """In a process of its own: nothing that another case left behind counts."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        measured = process.submit(update, shape, lengths, threads=threads, is_control=is_control).result()
    case = f"{len(lengths)} rows{', as before' * is_control}"
    print(f"{case}: {json.dumps(measured.figures())}", file=sys.stderr, flush=True)
    return measured


CASES: Mapping[str, Callable[[Size, int], JsonObject]] = {"memory": memory, "mixed_lengths": speed}


def run(size: Size, threads: int, names: Sequence[str] = tuple(CASES)) -> JsonObject:
    """These cases, and on what they were measured."""
    load_before = os.getloadavg()[0]
    cases: JsonObject = {name: CASES[name](size, threads) for name in names}
    parameters = sum(parameter.numel() for parameter in size.shape.model().parameters())
    machine: JsonObject = {
        "cores": os.cpu_count(),
        "threads": threads,
        "load_before": round(load_before, 2),
        "load_after": round(os.getloadavg()[0], 2),
        "parameters": parameters,
        "row_tokens": size.tokens,
    }
    return {"cases": cases, "machine": machine}


def missed(report: JsonObject) -> list[str]:
    """Cases that did not reach their bar."""
    cases = report["cases"]
    assert isinstance(cases, dict)
    return [name for name, case in cases.items() if isinstance(case, dict) and not case["passed"]]


def main() -> int:
    """Run all cases; 1 when one misses its bar."""
    whole = Size()
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("rows", "more_rows", "tokens", "mixed_rows", "repeats"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(whole, name))
    parser.add_argument("--only", choices=CASES, help="one of the cases; all by default")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=ROOT / "var" / "bench" / "train.json")
    wanted = vars(parser.parse_args())
    out, threads, only = wanted.pop("out"), wanted.pop("threads"), wanted.pop("only")
    report = run(replace(whole, **wanted), threads, [only] if only else tuple(CASES))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    return 1 if missed(report) else 0


if __name__ == "__main__":
    sys.exit(main())
