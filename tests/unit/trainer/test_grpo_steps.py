"""Whole steps: schedules, adapters, figures and weights, and runs that are resumed, kept back or stopped."""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from rft.core.errors import RunFailed
from rft.core.hyperparameters import LoraSpec
from rft.core.step_record import Optimization
from rft.core.turns import Trace
from rft.trainer.grpo import PolicyTrainer
from rft.trainer.policy import lora_config
from rft.trainer.samples import TrainingRow
from rft.trainer.update_settings import UpdateSettings
from tests.shared.by_hand import tiny_model
from tests.unit.trainer.updates import LORA, LOSSES, Update, ignore, rows_of, trainable, wide_adapter, worst_difference


def test_a_step_without_rows_leaves_the_weights_bit_identical_even_after_momentum_built_up(
    tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path
) -> None:
    rows = rows_of(ragged_traces, [0.0, 1.0, 0.25, 1.0, 0.0, 0.5, 0.75, 0.1])
    update = Update(tokenizer, [rows, [], rows], tmp_path, tokens=150)
    first, second, third = update.weights
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(second[name], third[name]) for name in first)
    silent = update.figures[1]
    assert (silent.loss, silent.grad_norm, silent.entropy, silent.trained_rollouts) == (None, None, None, 0)
    assert [f.learning_rate for f in update.figures] == pytest.approx([1e-2, 1e-2 * 2 / 3, 1e-2 / 3])


@pytest.mark.parametrize(
    ("schedule", "warmup_steps", "rates"),
    [
        ("linear", 0, [1.0, 0.75, 0.5, 0.25]),
        ("linear", 2, [0.0, 0.5, 1.0, 0.5]),
        ("cosine", 0, [1.0, 0.853553, 0.5, 0.146447]),
        ("constant", 0, [1.0, 1.0, 1.0, 1.0]),
        ("constant", 2, [0.0, 0.5, 1.0, 1.0]),
    ],
)
def test_the_learning_rate_follows_its_schedule(
    tokenizer: PreTrainedTokenizerBase,
    ragged_traces: list[Trace],
    tmp_path: Path,
    schedule: str,
    warmup_steps: int,
    rates: list[float],
) -> None:
    rows = rows_of(ragged_traces[:2], [0.0, 1.0])
    update = Update(
        tokenizer, [rows] * 4, tmp_path, tokens=150, learning_rate=1.0, schedule=schedule, warmup_steps=warmup_steps
    )
    assert [figures.learning_rate for figures in update.figures] == pytest.approx(rates, abs=1e-5)


def test_an_adapter_is_on_the_layers_that_were_ordered(tokenizer: PreTrainedTokenizerBase) -> None:
    model = tiny_model(tokenizer)
    named = lora_config(model, replace_lora(target_modules=("q_proj", "v_proj")))
    assert named.target_modules == {"q_proj", "v_proj"}
    assert lora_config(model, replace_lora(target_modules="all-linear")).target_modules == "all-linear"
    with pytest.raises(RunFailed, match=r"no layers lm_head, w9 .* It has: down_proj, gate_proj") as failed:
        lora_config(model, replace_lora(target_modules=("q_proj", "lm_head", "w9")))
    assert failed.value.param == "method.reinforcement.lora.target_modules"


def replace_lora(**changes: Any) -> LoraSpec:
    return LORA.model_copy(update=changes)


def test_the_figures_are_those_of_a_plain_forward_pass(
    tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path
) -> None:
    rows = rows_of(ragged_traces[:4], [0.0, 1.0, 0.25, 0.6])
    update = Update(tokenizer, [rows], tmp_path, tokens=150, learning_rate=0.0)
    model = update.trainer.policy.eval()
    entropies: list[torch.Tensor] = []
    gaps: list[torch.Tensor] = []
    for row in rows:
        ids = torch.tensor([[*row.prompt_ids, *row.completion_ids_T]])
        with torch.no_grad():
            logprobs_T_V = torch.log_softmax(model(input_ids=ids).logits[0, len(row.prompt_ids) - 1 : -1], -1)
        mask_T = torch.tensor(row.mask_T)
        entropies.append(-(logprobs_T_V.exp() * logprobs_T_V).sum(-1)[mask_T])
        chosen_T = logprobs_T_V.gather(1, torch.tensor(row.completion_ids_T)[:, None])[:, 0]
        gaps.append((chosen_T + 1.0).abs()[mask_T])
    [figures] = update.figures
    assert figures.entropy == pytest.approx(float(torch.cat(entropies).mean()), abs=1e-4)
    assert figures.sampling_logp_difference == pytest.approx(float(torch.cat(gaps).mean()), abs=1e-4)
    assert figures.trained_tokens == sum(row.sampled_tokens for row in rows)
    assert figures.trained_rollouts == 4


@pytest.mark.lengthy
@pytest.mark.parametrize("loss_type", LOSSES)
def test_tokens_weigh_by_how_much_likelier_they_are_to_the_trainer_up_to_the_cap(
    tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path, loss_type: str
) -> None:
    rows = rows_of(ragged_traces[:4], [0.0, 1.0, 0.25, 0.6])
    plain = Update(tokenizer, [rows], tmp_path / "plain", loss_type=loss_type, tokens=80, learning_rate=0.0)
    exact = [_sampled_by(plain.trainer.policy.eval(), row) for row in rows]
    assert plain.figures[0].truncated_share == pytest.approx(_share_above_cap(rows, exact))
    for difference, weight, share in ((0.0, 1.0, 0.0), (log(0.5), 0.5, 0.0), (log(3.0), 2.0, 1.0)):
        shifted = [_shifted(row, -difference) for row in exact]
        weighted = Update(
            tokenizer, [shifted], tmp_path / str(weight),
            loss_type=loss_type, tokens=80, learning_rate=0.0, is_weighted=True,
        )  # fmt: skip
        [figures] = weighted.figures
        assert figures.truncated_share == share
        assert figures.sampling_logp_difference == pytest.approx(abs(difference), abs=1e-5)
        assert figures.grad_norm == pytest.approx(weight * (plain.figures[0].grad_norm or 0.0), rel=1e-4)


def test_where_nothing_is_weighted_the_sampler_has_no_say_in_the_gradient(
    tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path
) -> None:
    rows = rows_of(ragged_traces[:4], [0.0, 1.0, 0.25, 0.6])
    one = Update(tokenizer, [rows], tmp_path / "1").gradients
    other = Update(tokenizer, [[_shifted(row, -2.0) for row in rows]], tmp_path / "2").gradients
    assert worst_difference(one, other) == 0.0


def _sampled_by(model: torch.nn.Module, row: TrainingRow) -> TrainingRow:
    """The same row with the model's own log-probabilities."""
    ids = torch.tensor([[*row.prompt_ids, *row.completion_ids_T]])
    with torch.no_grad():
        logprobs_T_V = torch.log_softmax(model(input_ids=ids).logits[0, len(row.prompt_ids) - 1 : -1], -1)
    chosen_T = logprobs_T_V.gather(1, torch.tensor(row.completion_ids_T)[:, None])[:, 0]
    return replace(row, logprobs_T=tuple((chosen_T * torch.tensor(row.mask_T)).tolist()))


def _shifted(row: TrainingRow, by: float) -> TrainingRow:
    return replace(row, logprobs_T=tuple(one + by * is_sampled for one, is_sampled in _sampled(row)))


def _share_above_cap(sampler: Sequence[TrainingRow], trainer: Sequence[TrainingRow]) -> float:
    pairs = [
        (ours, theirs)
        for one, other in zip(trainer, sampler, strict=True)
        for (ours, is_sampled), (theirs, _) in zip(_sampled(one), _sampled(other), strict=True)
        if is_sampled
    ]
    return sum(exp(ours - theirs) > 2.0 for ours, theirs in pairs) / len(pairs)


def _sampled(row: TrainingRow) -> list[tuple[float, bool]]:
    return list(zip(row.logprobs_T, row.mask_T, strict=True))


@pytest.mark.lengthy
def test_a_run_resumed_from_any_step_ends_with_the_same_bytes(
    tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path
) -> None:
    rewards = [[0.0, 1.0, 0.25, 1.0, 0.0, 0.5, 0.75, 0.1], [1.0, 0.0, 0.5, 0.2, 0.3, 0.9, 0.0, 0.4]]
    steps = [rows_of(ragged_traces, rewards[step % 2]) for step in range(4)]
    straight = Update(tokenizer, steps, tmp_path / "straight")
    for stop in (1, 3):
        path = tmp_path / f"stop{stop}"
        Update(tokenizer, steps[:stop], path, total=4)
        resumed = Update(tokenizer, steps, path, resume=path / f"checkpoint-{stop}")
        assert len(resumed.figures) == 4 - stop
        for name, weight in straight.weights[-1].items():
            assert torch.equal(weight, resumed.weights[-1][name])
    assert _bytes(tmp_path / "straight") == _bytes(tmp_path / "stop1") == _bytes(tmp_path / "stop3")


def _bytes(path: Path) -> bytes:
    return (path / "checkpoint-4" / "adapter_model.safetensors").read_bytes()


def test_what_raises_before_the_update_knows_its_figures_and_keeps_the_weights(
    tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path
) -> None:
    rows = rows_of(ragged_traces, [0.0, 1.0, 0.25, 1.0, 0.0, 0.5, 0.75, 0.1])
    done = Update(tokenizer, [rows], tmp_path / "done", tokens=60)
    told: list[tuple[int, Optimization]] = []

    def refuse(step: int, optimization: Optimization) -> None:
        told.append((step, optimization))
        raise KeyError("refused")

    trainer = PolicyTrainer(
        tiny_model(tokenizer), tokenizer, UpdateSettings(1, 1e-2, LORA, "dapo", 1.0, 11, 60),
        output_dir=tmp_path / "refused", source=lambda step: rows, on_saved=ignore, before_update=refuse,
    )  # fmt: skip
    wide_adapter(trainer.policy)
    before = trainable(trainer.policy)
    with pytest.raises(KeyError):
        trainer.train()
    assert all(torch.equal(before[name], weight) for name, weight in trainable(trainer.policy).items())
    [(step, figures)] = told
    assert step == 1
    whole = done.figures[0].model_copy(update={"grad_norm": None, "learning_rate": None})
    assert figures == whole


def test_a_check_that_raises_stops_between_micro_batches(
    tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path
) -> None:
    calls: list[int] = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("stop")

    def source(step: int) -> list[TrainingRow]:
        return rows_of(ragged_traces, [0, 1, 0, 1, 0, 1, 0, 1])

    settings = UpdateSettings(1, 1e-2, LORA, "dapo", 1.0, 11, 60)
    trainer = PolicyTrainer(
        tiny_model(tokenizer), tokenizer, settings,
        output_dir=tmp_path, source=source, on_saved=ignore, check=check,
    )  # fmt: skip
    before = trainable(trainer.policy)
    with pytest.raises(KeyError):
        trainer.train()
    assert all(torch.equal(before[name], weight) for name, weight in trainable(trainer.policy).items())
