"""The gradient: nothing from tool output, nothing from excluded rollouts, the same as stock TRL's for the rest."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerBase, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from rft.core.errors import RunFailed
from rft.core.group import advantages_G
from rft.core.hyperparameters import LoraSpec
from rft.core.step_record import Optimization
from rft.core.token_record import unpack_float16
from rft.core.turns import Trace
from rft.trainer.grpo import PolicyTrainer
from rft.trainer.policy import lora_config
from rft.trainer.samples import TrainingRow, training_rows
from rft.trainer.update_settings import UpdateSettings
from tests.shared.by_hand import group_of, tiny_model

Gradients = dict[str, torch.Tensor]
LOSSES = ["dapo", "bnpo", "grpo", "dr_grpo", "cispo", "sapo"]
LORA = LoraSpec(rank=4, alpha=8)


class _Capture(TrainerCallback):
    """Clones the gradients just before the optimizer uses them."""

    def __init__(self) -> None:
        self.gradients: Gradients = {}

    def on_pre_optimizer_step(self, *args: Any, model: torch.nn.Module, **kwargs: Any) -> None:
        self.gradients = {
            name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None
        }


class Update:
    """One run of a `PolicyTrainer` over given rows per step."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        steps: Sequence[Sequence[TrainingRow]],
        path: Path,
        *,
        loss_type: str = "dapo",
        tokens: int | None = None,
        learning_rate: float = 1e-2,
        resume: Path | None = None,
        total: int | None = None,
        is_weighted: bool = False,
        max_completion_tokens: int = 512,
        **more: Any,
    ) -> None:
        """`more`: further fields of the settings."""
        self.figures: list[Optimization] = []
        self.weights: list[Gradients] = []
        model = tiny_model(tokenizer)
        settings = UpdateSettings(
            steps=total or len(steps),
            learning_rate=learning_rate,
            lora=LORA,
            loss_type=loss_type,
            temperature=1.0,
            seed=11,
            micro_batch_tokens=tokens,
            is_weighted=is_weighted,
            max_completion_tokens=max_completion_tokens,
            **more,
        )
        self.trainer = PolicyTrainer(
            model, tokenizer, settings, output_dir=path, source=lambda step: steps[step - 1], on_saved=self._saved
        )
        capture = _Capture()
        _wide_adapter(self.trainer.policy)
        self.trainer.add_callback(capture)
        with _until_rows_end(len(steps), total):
            self.trainer.train(resume_from_checkpoint=str(resume) if resume else None)
        self.gradients = capture.gradients

    def _saved(self, step: int, path: Path, optimization: Optimization) -> None:
        self.figures.append(optimization)
        self.weights.append(trainable(self.trainer.policy))
        assert (path / "adapter_model.safetensors").exists()


@contextmanager
def _until_rows_end(given: int, total: int | None) -> Generator[None]:
    """A run that is cut short ends when its rows do."""
    if total is None or total == given:
        yield
        return
    with pytest.raises(IndexError):
        yield


def trainable(model: torch.nn.Module) -> Gradients:
    return {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}


def _wide_adapter(model: torch.nn.Module) -> None:
    """B starts at zero, and with it the gradient of A: give both something to show."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)


def _ignore(step: int, path: Path, optimization: Optimization) -> None:
    del step, path, optimization


def worst_difference(left: Gradients, right: Gradients) -> float:
    assert left.keys() == right.keys() != set()
    return max(float((left[name] - right[name]).abs().max()) for name in left)


def rows_of(traces: Sequence[Trace], rewards: Sequence[float | None]) -> list[TrainingRow]:
    return training_rows([group_of(traces, rewards)])


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

    model, capture = tiny_model(tokenizer), _Capture()
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
    _wide_adapter(trainer.model)
    ours = PolicyTrainer(
        tiny_model(tokenizer),
        tokenizer,
        UpdateSettings(1, 1e-2, LORA, loss_type, 1.0, 11),
        output_dir=path,
        source=lambda step: [],
        on_saved=_ignore,
    )
    with torch.no_grad():  # The same random A matrices.
        for name, parameter in trainable(ours.policy).items():
            if "lora_A" in name:
                trainer.model.get_parameter(name).copy_(parameter)
    trainer.add_callback(capture)
    trainer.train()
    return capture.gradients


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
        output_dir=tmp_path / "refused", source=lambda step: rows, on_saved=_ignore, before_update=refuse,
    )  # fmt: skip
    _wide_adapter(trainer.policy)
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
        output_dir=tmp_path, source=source, on_saved=_ignore, check=check,
    )  # fmt: skip
    before = trainable(trainer.policy)
    with pytest.raises(KeyError):
        trainer.train()
    assert all(torch.equal(before[name], weight) for name, weight in trainable(trainer.policy).items())
