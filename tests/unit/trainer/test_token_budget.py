"""How large micro-batches may be, and what happens when memory runs out after all."""

from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from rft.core.errors import RunFailed
from rft.core.hyperparameters import LoraSpec
from rft.core.turns import Trace
from rft.trainer.grpo import PolicyTrainer
from rft.trainer.samples import TrainingRow, training_rows
from rft.trainer.token_budget import free_bytes, halved, is_out_of_memory, kept_bytes, tokens_within
from rft.trainer.update_settings import UpdateSettings
from tests.shared.by_hand import group_of, tiny_model

CPU = torch.device("cpu")
MEMORY_ERRORS: list[Callable[[], Exception]] = [
    lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
    lambda: RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"),
    lambda: RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
    lambda: RuntimeError("Triton Error [CUDA]: out of memory"),
    lambda: RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    MemoryError,
]


def _row(tokens: int) -> TrainingRow:
    return TrainingRow((1,), (2,) * (tokens - 1), (True,) * (tokens - 1), (-1.0,) * (tokens - 1), 1.0)


def test_the_budget_is_a_power_of_two_and_on_a_cpu_does_not_grow_with_its_memory() -> None:
    assert tokens_within(100 * 2**30, 100_000, CPU) == tokens_within(2 * 2**30, 100_000, CPU) == 4096
    assert tokens_within(2**29, 100_000, CPU) == 2048
    assert tokens_within(100 * 2**30, 100_000, torch.device("cuda")) == 2**18
    assert tokens_within(0, 100_000, CPU) == 64


def test_half_the_budget_is_tried_until_no_layer_of_a_single_row_is_kept() -> None:
    assert halved(4096, [_row(100)] * 40, is_least=False) == 2048
    assert halved(4096, [_row(100)] * 12, is_least=False) == 1024
    assert halved(4096, [_row(100)], is_least=False) == 64
    assert halved(100, [_row(100)], is_least=False) == 50
    assert halved(50, [_row(100)], is_least=False) == 25
    with pytest.raises(RunFailed, match="a single rollout of 100 tokens") as failed:
        halved(50, [_row(100)], is_least=True)
    assert failed.value.code == "out_of_memory"


@pytest.mark.parametrize("error", MEMORY_ERRORS)
def test_errors_of_all_devices_are_known(error: Callable[[], Exception]) -> None:
    assert is_out_of_memory(error())
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_free_memory_is_within_the_machine() -> None:
    assert 0 < free_bytes(CPU) < 2**45


def test_kept_bytes_count_each_piece_once_and_no_weights() -> None:
    layer = nn.Linear(16, 16, bias=False)
    given = torch.ones(4, 16)
    with kept_bytes(layer) as kept:
        found = torch.tanh(layer(given))  # Keeps the input for the weight, the output for the tanh.
        assert kept() == 2 * 4 * 16 * 4
    found.sum().backward()


@pytest.fixture
def rows(ragged_traces: list[Trace]) -> list[TrainingRow]:
    return training_rows([group_of(ragged_traces, [0.0, 1.0, 0.25, 1.0, 0.0, 0.5, 0.75, 0.1])])


def _trained(
    tokenizer: PreTrainedTokenizerBase,
    rows: list[TrainingRow],
    path: Path,
    *,
    tokens: int,
    beta: float = 0.0,
    fails: Callable[[int, int], Exception | None] = lambda number, size: None,
) -> tuple[list[torch.Tensor], list[tuple[int, bool]], int]:
    """The weights after a step, the shape of each pass with whether it was checkpointed, how often rows were asked for.

    `fails`: what the pass of this number over so many tokens raises.
    """
    settings = UpdateSettings(1, 1e-2, LoraSpec(rank=4, alpha=8), "dapo", 1.0, 11, tokens, beta=beta)
    asked: list[int] = []

    def source(step: int) -> list[TrainingRow]:
        asked.append(step)
        return rows

    model = tiny_model(tokenizer)
    trainer = PolicyTrainer(
        model, tokenizer, settings, output_dir=path, source=source, on_saved=lambda step, saved, optimization: None
    )
    passes: list[tuple[int, bool]] = []

    def before(module: nn.Module, args: object, kwargs: dict[str, torch.Tensor]) -> None:
        size = kwargs["input_ids"].numel()
        passes.append((size, model.is_gradient_checkpointing))
        if (error := fails(len(passes), size)) is not None:
            raise error

    model.model.register_forward_pre_hook(before, with_kwargs=True)
    trainer.train()
    return [p.detach().clone() for p in trainer.policy.parameters() if p.requires_grad], passes, len(asked)


@pytest.mark.lengthy
@pytest.mark.parametrize("error", MEMORY_ERRORS)
def test_a_step_that_runs_out_of_memory_is_done_again_with_half_the_budget(
    tokenizer: PreTrainedTokenizerBase, rows: list[TrainingRow], tmp_path: Path, error: Callable[[], Exception]
) -> None:
    """In its second micro-batch, so that the first one's gradient must not count twice."""
    plain, passes, _ = _trained(tokenizer, rows, tmp_path / "1", tokens=60)
    again, tried, asked = _trained(
        tokenizer, rows, tmp_path / "2", tokens=120, fails=lambda number, size: error() if number == 2 else None
    )
    assert asked == 1
    assert max(size for size, _ in tried[:2]) > 60
    assert tried[2:] == passes
    assert all(torch.equal(one, other) for one, other in zip(plain, again, strict=True))


def test_such_a_step_is_done_again_beside_the_reference_policy_too(
    tokenizer: PreTrainedTokenizerBase, rows: list[TrainingRow], tmp_path: Path
) -> None:
    """In the policy's own pass of the first micro-batch: the reference's came before it."""
    plain, passes, _ = _trained(tokenizer, rows, tmp_path / "1", tokens=120, beta=0.1)
    again, tried, _ = _trained(
        tokenizer, rows, tmp_path / "2", tokens=240, beta=0.1,
        fails=lambda number, size: MemoryError() if number == 2 else None,
    )  # fmt: skip
    assert tried[2:] == passes
    assert all(torch.equal(one, other) for one, other in zip(plain, again, strict=True))


def test_rows_beyond_the_budget_are_checkpointed_and_come_to_the_same_weights(
    tokenizer: PreTrainedTokenizerBase, rows: list[TrainingRow], tmp_path: Path
) -> None:
    lengths = sorted((row.tokens for row in rows), reverse=True)
    limit = lengths[3]
    single = [_trained(tokenizer, rows, tmp_path / str(tokens), tokens=tokens) for tokens in (limit, 1)]
    (some, passes, _), (every, all_passes, _) = single
    assert [is_on for _, is_on in passes] == [size > limit for size, _ in passes]
    assert all_passes == [(length, True) for length in lengths]
    assert max(float((one - other).abs().max()) for one, other in zip(some, every, strict=True)) <= 1e-6


def test_memory_that_no_budget_fits_fails_the_run_in_words(
    tokenizer: PreTrainedTokenizerBase, rows: list[TrainingRow], tmp_path: Path
) -> None:
    longest = max(row.tokens for row in rows)
    with pytest.raises(RunFailed, match=f"single rollout of {longest} tokens"):
        _trained(
            tokenizer, rows, tmp_path, tokens=500,
            fails=lambda number, size: torch.OutOfMemoryError() if size >= longest else None,
        )  # fmt: skip


def test_other_errors_are_no_lack_of_memory(
    tokenizer: PreTrainedTokenizerBase, rows: list[TrainingRow], tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match="shapes"):
        _trained(tokenizer, rows, tmp_path, tokens=60, fails=lambda number, size: RuntimeError("bad shapes"))


@pytest.mark.parametrize(("allowed", "expected"), [(1.0, 50), (0.3, 20), (0.05, 0)])
def test_free_memory_of_a_gpu_is_what_this_process_may_take(
    allowed: float, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 100 GiB, 40 are free, 20 are kept by torch, 10 of those are in use."""
    told = {
        "mem_get_info": (40 * 2**30, 100 * 2**30),
        "memory_reserved": 20 * 2**30,
        "memory_allocated": 10 * 2**30,
        "get_per_process_memory_fraction": allowed,
    }
    for name, value in told.items():
        monkeypatch.setattr(torch.cuda, name, mock.Mock(return_value=value))
    assert free_bytes(torch.device("cuda")) == expected * 2**30
