"""The gradient: nothing from tool output, nothing from excluded rollouts, the same as stock TRL's for the rest."""

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from rft.core.group import advantages_G
from rft.core.token_record import unpack_float16
from rft.core.turns import Trace
from rft.trainer.grpo import PolicyTrainer
from rft.trainer.policy import lora_config
from rft.trainer.samples import TrainingRow, training_rows
from rft.trainer.update_settings import UpdateSettings
from tests.shared.by_hand import group_of, tiny_model
from tests.unit.trainer.updates import (
    LORA,
    LOSSES,
    Capture,
    Gradients,
    Update,
    ignore,
    rows_of,
    trainable,
    wide_adapter,
    worst_difference,
)


def test_the_gradient_is_exactly_zero_on_tokens_the_policy_did_not_sample(
    tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    original = PolicyTrainer._get_per_token_logps_and_entropies  # pyright: ignore[reportPrivateUsage]

    def watched(self: PolicyTrainer, *args: Any, **kwargs: Any) -> Any:
        logprobs, entropies, rest = original(self, *args, **kwargs)
        logprobs = torch.zeros_like(logprobs) + logprobs
        logprobs.retain_grad()
        seen.append((logprobs, self._is_sampled))  # pyright: ignore[reportPrivateUsage]
        return logprobs, entropies, rest

    monkeypatch.setattr(PolicyTrainer, "_get_per_token_logps_and_entropies", watched)
    rows = rows_of(ragged_traces, [0.0, 1.0, 0.25, 1.0, 0.0, 0.5, 0.75, 0.1])
    Update(tokenizer, [rows], tmp_path, tokens=1000)
    [(logprobs, is_sampled)] = seen
    assert logprobs.grad is not None
    assert int(is_sampled.sum()) == sum(row.sampled_tokens for row in rows)
    assert torch.count_nonzero(logprobs.grad[~is_sampled]) == 0
    assert torch.count_nonzero(logprobs.grad[is_sampled]) == is_sampled.sum()


def test_tool_output_reaches_the_gradient_only_as_context(
    tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path
) -> None:
    """Tool tokens behind the last sampled token are nobody's context: changing them changes nothing at all."""
    rewards = [0.0, 1.0, 0.25, 1.0, 0.0, 0.5, 0.75, 0.1]
    rows = rows_of(ragged_traces, rewards)

    def with_tail(token: int) -> list[TrainingRow]:
        return [
            TrainingRow(
                row.prompt_ids,
                (*row.completion_ids_T, token, token),
                (*row.mask_T, False, False),
                (*row.logprobs_T, 0.0, 0.0),
                row.advantage,
            )
            for row in rows
        ]

    one = Update(tokenizer, [with_tail(50)], tmp_path / "1").gradients
    other = Update(tokenizer, [with_tail(300)], tmp_path / "2").gradients
    assert worst_difference(one, other) == 0.0


@pytest.mark.parametrize(("tokens", "beta"), [(1000, 0.0), (30, 0.0), (1000, 0.1)])
def test_each_rows_ratios_are_the_trainers_log_probabilities_less_the_samplers(
    tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path, tokens: int, beta: float
) -> None:
    """However the step is cut, and not those of the base model that the loss may be held against."""
    rewards = [0.0, 1.0, 0.25, 1.0, 0.0, 0.5, 0.75, 0.1]
    rows = rows_of(ragged_traces, rewards)
    update = Update(tokenizer, [rows], tmp_path, tokens=tokens, beta=beta, learning_rate=0.0)
    policy = update.trainer.policy.eval()
    wanted: dict[str, list[float]] = {}
    for row in rows:
        ids = torch.tensor([[*row.prompt_ids, *row.completion_ids_T]])
        with torch.no_grad():
            logprobs = policy(input_ids=ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
        own = logprobs[len(row.prompt_ids) - 1 :].tolist()
        wanted[row.trace_id] = [
            found - sampler
            for found, sampler, is_sampled in zip(own, row.logprobs_T, row.mask_T, strict=True)
            if is_sampled
        ]
    found = {ratios.trace_id: list(unpack_float16(ratios.log_ratios)) for ratios in update.trainer.figures.ratios}
    assert found.keys() == wanted.keys()
    assert all(found[row] == pytest.approx(wanted[row], abs=5e-3) for row in wanted)
    assert {ratios.trace_id: ratios.advantage for ratios in update.trainer.figures.ratios} == {
        row.trace_id: row.advantage for row in rows
    }


@pytest.mark.lengthy
@pytest.mark.parametrize("loss_type", LOSSES)
@pytest.mark.parametrize("tokens", [1000, 30])
def test_an_excluded_rollout_changes_neither_mean_nor_std_nor_gradient(
    tokenizer: PreTrainedTokenizerBase,
    ragged_traces: list[Trace],
    tmp_path: Path,
    loss_type: str,
    tokens: int,
) -> None:
    good, rewards = ragged_traces[:3], [0.0, 1.0, 0.3]
    with_excluded = rows_of([*good, ragged_traces[7]], [*rewards, None])
    assert [row.advantage for row in with_excluded] == advantages_G(rewards)
    without = Update(tokenizer, [rows_of(good, rewards)], tmp_path / "1", loss_type=loss_type)
    excluded = Update(tokenizer, [with_excluded], tmp_path / "2", loss_type=loss_type, tokens=tokens)
    assert worst_difference(without.gradients, excluded.gradients) <= 1e-6
    assert max(float(gradient.abs().max()) for gradient in without.gradients.values()) > 1e-3


@pytest.mark.lengthy
@pytest.mark.parametrize("loss_type", LOSSES)
def test_the_budget_of_tokens_does_not_change_the_gradient(
    tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path, loss_type: str
) -> None:
    rows = rows_of(ragged_traces, [0.0, 1.0, 0.25, 1.0, 0.0, 0.5, 0.75, 0.1])
    whole = Update(tokenizer, [rows], tmp_path / "1", loss_type=loss_type)
    for tokens in (1, 60, 120, 250):
        parts = Update(tokenizer, [rows], tmp_path / str(tokens), loss_type=loss_type, tokens=tokens)
        assert worst_difference(whole.gradients, parts.gradients) <= 1e-6
        for field in ("loss", "entropy", "sampling_logp_difference", "grad_norm"):
            assert getattr(parts.figures[0], field) == pytest.approx(getattr(whole.figures[0], field), abs=1e-5)


@pytest.mark.lengthy
@pytest.mark.parametrize("loss_type", LOSSES)
def test_the_gradient_is_that_of_stock_trl_fed_with_the_same_traces(
    tokenizer: PreTrainedTokenizerBase,
    ragged_traces: list[Trace],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    loss_type: str,
) -> None:
    rewards = [0.0, 1.0, 0.25, 1.0, 0.0, 0.5, 0.75, 0.1]
    stock = _stock_gradients(tokenizer, ragged_traces, rewards, tmp_path / "stock", loss_type, monkeypatch)
    groups = [group_of(ragged_traces[:4], rewards[:4]), group_of(ragged_traces[4:], rewards[4:], row_index=1)]
    ours = Update(tokenizer, [training_rows(groups)], tmp_path / "ours", loss_type=loss_type, tokens=150)
    assert worst_difference(ours.gradients, stock) <= 2e-6


def _stock_gradients(
    tokenizer: PreTrainedTokenizerBase,
    traces: list[Trace],
    rewards: list[float],
    path: Path,
    loss_type: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Gradients:
    """TRL's documented way in: `rollout_func` for two rows with four rollouts each."""
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")

    def rollout_func(prompts: list[str], trainer: object) -> dict[str, list[Any]]:
        assert len(prompts) == len(traces)
        return {
            "prompt_ids": [list(trace.prompt_ids) for trace in traces],
            "completion_ids": [trace.completion_ids_T for trace in traces],
            "logprobs": [trace.logprobs_T for trace in traces],
            "env_mask": [[int(sampled) for sampled in trace.mask_T] for trace in traces],
            "given_reward": list(rewards),
        }

    def reward(prompts: list[str], given_reward: list[float | None], **_: object) -> list[float | None]:
        return given_reward

    model, capture = tiny_model(tokenizer), Capture()
    torch.manual_seed(11)
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=reward,
        args=GRPOConfig(
            output_dir=str(path), max_steps=1, per_device_train_batch_size=8, num_generations=4, loss_type=loss_type,
            learning_rate=1e-2, max_grad_norm=1.0, beta=0.0, bf16=False, use_cpu=True, gradient_checkpointing=False,
            shuffle_dataset=False, report_to=[], save_strategy="no", disable_tqdm=True, max_completion_length=512,
            epsilon_high=2.0,  # With its own of 0.2 cispo would weigh every token with that.
        ),
        train_dataset=Dataset.from_dict({"prompt": ["a", "b"]}),
        processing_class=tokenizer,
        peft_config=lora_config(model, LORA),
        rollout_func=rollout_func,
    )  # fmt: skip
    assert isinstance(trainer.model, torch.nn.Module)
    wide_adapter(trainer.model)
    ours = PolicyTrainer(
        tiny_model(tokenizer),
        tokenizer,
        UpdateSettings(1, 1e-2, LORA, loss_type, 1.0, 11),
        output_dir=path,
        source=lambda step: [],
        on_saved=ignore,
    )
    with torch.no_grad():  # The same random A matrices.
        for name, parameter in trainable(ours.policy).items():
            if "lora_A" in name:
                trainer.model.get_parameter(name).copy_(parameter)
    trainer.add_callback(capture)
    trainer.train()
    return capture.gradients
