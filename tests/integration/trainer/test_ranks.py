"""Two ranks over gloo make the gradient, the figures and the checkpoints of one process."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.tensor import DTensor
from transformers import MixtralConfig, MixtralForCausalLM, PreTrainedTokenizerBase, TrainerCallback

from rft.core.errors import RunFailed, RunPaused
from rft.core.hyperparameters import LoraSpec
from rft.core.step_record import Optimization
from rft.engines.base_model import load_base_model
from rft.rollouts.sampler import FinishReason, Sample
from rft.trainer.engine_probe import mean_gap
from rft.trainer.grpo import PolicyTrainer
from rft.trainer.losses import ClipRange
from rft.trainer.ranks.flat import flat_gradient, flat_weights, trained
from rft.trainer.ranks.messages import SetUp
from rft.trainer.ranks.other_ranks import OtherRanks
from rft.trainer.samples import RowRatios, TrainingRow
from rft.trainer.update_settings import UpdateSettings

TOLERANCE = 1e-6
"""Length of the difference of two gradients over the length of one: all numbers of the adapter, in single precision."""

WEIGHTS_TOLERANCE = 1e-5
"""The same for weights after some steps: Adam moves a weight by its gradient's sign, however small the gradient is."""

HALF_TOLERANCE = 0.05
"""The same where the base model is in half precision, and rows are padded to other lengths."""


class _Over(Exception):
    """The rows of a run that is cut short are used up."""


class _Capture(TrainerCallback):
    """The gradient just before it is clipped is gone by then; this is the one that the optimizer uses."""

    gradient: torch.Tensor

    def on_pre_optimizer_step(self, *args: Any, model: torch.nn.Module, **kwargs: Any) -> None:
        self.gradient = flat_gradient(model)


class Update:
    """A run of a `PolicyTrainer` over given rows per step, alone or with the other rank."""

    def __init__(
        self,
        base_model: Path,
        tokenizer: PreTrainedTokenizerBase,
        steps: Sequence[Sequence[TrainingRow]],
        folder: Path,
        *,
        ranks: OtherRanks | None,
        total: int | None = None,
        resume: int | None = None,
        **more: Any,
    ) -> None:
        """`total`: steps of the run; with more than there are rows for, it is cut short. `more`: of the settings."""
        given: dict[str, Any] = {"micro_batch_tokens": 64, "loss_type": "dapo", "is_weighted": True, **more}
        settings = UpdateSettings(
            steps=total or len(steps), learning_rate=1e-2, lora=LoraSpec(rank=4, alpha=8), temperature=1.0, seed=11,
            **given,
        )  # fmt: skip
        self.figures: list[Optimization] = []
        self.ratios: list[RowRatios] = []
        self._steps = iter(steps)
        if ranks is not None:
            ranks.set_up(SetUp(str(base_model), settings, torch_threads=1))
        load = partial(load_base_model, str(base_model), settings.base_dtype)
        self.trainer = PolicyTrainer(
            load() if ranks is None else ranks.base_model(load), tokenizer, settings, output_dir=folder,
            source=self._rows, on_saved=self._saved, ranks=ranks,
            most=(lambda passes: passes) if ranks is None else ranks.most,
        )  # fmt: skip
        if ranks is not None:
            ranks.wait_until_ready(self.trainer.policy)
        _widen(self.trainer.policy)
        capture = _Capture()
        self.trainer.add_callback(capture)
        with suppress(_Over):
            self.trainer.train(resume_from_checkpoint=str(self.trainer.checkpoint_of(resume)) if resume else None)
        self.gradient, self.weights = capture.gradient, flat_weights(self.trainer.policy)

    def _rows(self, step: int) -> Sequence[TrainingRow]:
        del step
        try:
            return next(self._steps)
        except StopIteration:
            raise _Over from None

    def _saved(self, step: int, path: Path, optimization: Optimization) -> None:
        self.figures.append(optimization)
        self.ratios = list(self.trainer.figures.ratios)


def _widen(model: torch.nn.Module) -> None:
    """An adapter's B starts at zero, and with it the gradient of A: give both something to show."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in trained(model):
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)


def distance(left: torch.Tensor, right: torch.Tensor) -> float:
    assert float(right.norm()) > 0
    return float((left.double() - right.double()).norm() / right.double().norm())


def rows_of(seed: int, count: int = 9) -> list[TrainingRow]:
    """Of different lengths, with tool outputs between what was sampled."""
    generator = torch.Generator().manual_seed(seed)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(torch.randint(20, 600, (length,), generator=generator).tolist())

    rows: list[TrainingRow] = []
    for index in range(count):
        sampled, tool, answer = 4 + 3 * index, 2 + index, 3 + index % 4
        mask = (True,) * sampled + (False,) * tool + (True,) * answer
        rows.append(
            TrainingRow(
                prompt_ids=ids(5 + index % 3),
                completion_ids_T=ids(len(mask)),
                mask_T=mask,
                logprobs_T=tuple(-6.0 - 0.01 * place if is_sampled else 0.0 for place, is_sampled in enumerate(mask)),
                advantage=1.5 - 0.4 * index,
                trace_id=f"trace_{index}",
                staleness=index % 3,
            )
        )
    return rows


@pytest.fixture
def both(base_model: Path, tokenizer: PreTrainedTokenizerBase, ranks: OtherRanks, tmp_path: Path) -> Any:
    """The same update by two ranks and by one process."""

    def run(
        steps: Sequence[Sequence[TrainingRow]], *, model: Path = base_model, is_sharded: bool = False, **more: Any
    ) -> tuple[Update, Update]:
        two = Update(model, tokenizer, steps, tmp_path / "two", ranks=ranks, is_sharded=is_sharded, **more)
        return two, Update(model, tokenizer, steps, tmp_path / "one", ranks=None, **more)

    return run


@pytest.mark.parametrize("tokens", [1, 64, 200, None])
def test_the_gradient_is_that_of_one_process_in_every_layout(both: Any, tokens: int | None) -> None:
    two, one = both([rows_of(1)], micro_batch_tokens=tokens)
    assert distance(two.gradient, one.gradient) < TOLERANCE
    assert two.gradient.shape == one.gradient.shape


def test_ranks_load_the_base_model_in_the_arithmetic_of_the_first(both: Any) -> None:
    two, one = both([rows_of(1)], base_dtype=torch.bfloat16)
    assert distance(two.gradient, one.gradient) < HALF_TOLERANCE
    _, single = both([rows_of(1)])
    assert TOLERANCE < distance(one.gradient, single.gradient) < HALF_TOLERANCE


@pytest.mark.parametrize("tokens", [1, 64, 200, None])
def test_the_gradient_is_that_of_one_process_where_none_has_the_base_model_whole(both: Any, tokens: int | None) -> None:
    two, one = both([rows_of(1)], micro_batch_tokens=tokens, is_sharded=True)
    assert distance(two.gradient, one.gradient) < TOLERANCE
    kept = sum(part.to_local().numel() for part in two.trainer.policy.parameters() if isinstance(part, DTensor))
    whole = sum(parameter.numel() for name, parameter in one.trainer.policy.named_parameters()
                if ".layers." in name and "lora_" not in name)  # fmt: skip
    assert kept == pytest.approx(whole / 2, rel=0.01)


def test_parts_of_the_base_model_change_no_figure_weight_or_checkpoint(both: Any) -> None:
    steps = [rows_of(4, count=1), [], rows_of(5), rows_of(3)]
    two, one = both(steps, is_sharded=True, beta=0.1, clip=ClipRange(0.1, 0.1))
    assert distance(two.weights, one.weights) < WEIGHTS_TOLERANCE
    for ours, alone in zip(two.figures, one.figures, strict=True):
        for name, figure in alone.model_dump().items():
            assert getattr(ours, name) == (figure if figure is None else pytest.approx(figure, rel=1e-4, abs=1e-7)), (
                name
            )
    ours, theirs = (load_file(update.trainer.checkpoint_of(4) / "adapter_model.safetensors") for update in (two, one))
    assert {name: tensor.shape for name, tensor in ours.items()} == {n: tensor.shape for n, tensor in theirs.items()}


@pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo", "gspo", "cispo", "bnpo", "sapo"])
def test_every_loss_has_the_denominators_of_the_whole_step(both: Any, loss_type: str) -> None:
    two, one = both([rows_of(2)], loss_type=loss_type)
    assert distance(two.gradient, one.gradient) < TOLERANCE


def test_figures_and_ratios_are_those_of_all_ranks_together(both: Any) -> None:
    two, one = both([rows_of(3)], beta=0.1, clip=ClipRange(0.1, 0.1))
    assert distance(two.gradient, one.gradient) < TOLERANCE
    (ours,), (alone,) = two.figures, one.figures
    assert ours.clipped_share
    assert ours.kl
    for name in Optimization.model_fields:
        assert getattr(ours, name) == pytest.approx(getattr(alone, name), rel=1e-5), name
    assert {row.trace_id for row in two.ratios} == {f"trace_{index}" for index in range(9)}
    assert sorted(map(_told, two.ratios)) == sorted(map(_told, one.ratios))


def _told(row: RowRatios) -> tuple[object, ...]:
    return tuple(getattr(row, field.name) for field in fields(row))


def test_a_step_with_fewer_rows_than_ranks_and_one_without_rows(both: Any) -> None:
    two, one = both([rows_of(4, count=1), [], rows_of(5)])
    assert distance(two.weights, one.weights) < WEIGHTS_TOLERANCE
    assert [figures.trained_rollouts for figures in two.figures] == [1, 0, 9]


def test_the_balance_between_experts_is_kept_by_all_ranks(
    both: Any, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    config = MixtralConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        num_local_experts=4, num_experts_per_tok=2, vocab_size=len(tokenizer), max_position_embeddings=256,
        output_router_logits=True, router_aux_loss_coef=0.5, tie_word_embeddings=False,
    )  # fmt: skip
    MixtralForCausalLM(config).save_pretrained(tmp_path / "experts")
    tokenizer.save_pretrained(tmp_path / "experts")
    # It is taken by micro-batch: one row in each is what both have alike.
    for is_sharded in (False, True):
        two, one = both([rows_of(6)], model=tmp_path / "experts", micro_batch_tokens=1, is_sharded=is_sharded)
        assert distance(two.gradient, one.gradient) < TOLERANCE


def test_memory_that_runs_out_on_one_rank_halves_its_own_budget(both: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([MemoryError("the test's")])
    inputs = PolicyTrainer._inputs  # pyright: ignore[reportPrivateUsage]

    def once_too_many(self: PolicyTrainer, rows: Sequence[TrainingRow]) -> Any:
        for failure in failures:
            raise failure
        return inputs(self, rows)

    monkeypatch.setattr(PolicyTrainer, "_inputs", once_too_many)
    two, one = both([rows_of(7)], micro_batch_tokens=200)
    assert two.trainer._budget == 100  # pyright: ignore[reportPrivateUsage]
    assert one.trainer._budget == 200  # pyright: ignore[reportPrivateUsage]
    assert distance(two.gradient, one.gradient) < TOLERANCE


def test_a_checkpoint_of_two_ranks_goes_on_in_one_process_and_back(
    base_model: Path, tokenizer: PreTrainedTokenizerBase, ranks: OtherRanks, tmp_path: Path
) -> None:
    steps = [rows_of(seed) for seed in (8, 9, 10)]
    alone = Update(base_model, tokenizer, steps, tmp_path / "alone", ranks=None)
    folder = tmp_path / "changing"
    first = Update(base_model, tokenizer, steps[:1], folder, ranks=ranks, total=3)
    second = Update(base_model, tokenizer, steps[1:2], folder, ranks=None, total=3, resume=1)
    third = Update(base_model, tokenizer, steps[2:], folder, ranks=ranks, total=3, resume=2, is_sharded=True)
    again = Update(base_model, tokenizer, steps[2:], folder, ranks=None, total=3, resume=2)
    assert distance(third.weights, alone.weights) < WEIGHTS_TOLERANCE
    assert distance(third.weights, again.weights) < WEIGHTS_TOLERANCE
    assert distance(second.weights, first.weights) > 1e-3, "each step changes them"
    for step in (1, 2, 3):
        ours, theirs = (root / f"checkpoint-{step}" for root in (folder, tmp_path / "alone"))
        assert {path.name for path in ours.iterdir()} == {path.name for path in theirs.iterdir()}
        assert torch.load(ours / "scheduler.pt") == torch.load(theirs / "scheduler.pt")
        states = [torch.load(path / "optimizer.pt")["state"] for path in (ours, theirs)]
        assert states[0].keys() == states[1].keys() != set()
        for key in states[0]:
            assert states[0][key]["step"] == states[1][key]["step"] == step
            assert distance(states[0][key]["exp_avg"], states[1][key]["exp_avg"]) < 1e-4


def test_what_a_rank_cannot_do_ends_the_run_in_words(
    base_model: Path, tokenizer: PreTrainedTokenizerBase, ranks: OtherRanks, tmp_path: Path
) -> None:
    update = Update(base_model, tokenizer, [rows_of(11)], tmp_path / "fine", ranks=ranks)
    settings = UpdateSettings(
        steps=1, learning_rate=1e-2, lora=LoraSpec(rank=2, alpha=4), loss_type="dapo", temperature=1.0, seed=1
    )
    ranks.set_up(SetUp(str(tmp_path / "nowhere"), settings, torch_threads=1))
    with pytest.raises(RunFailed, match=r"Rank 1 of 2: .*nowhere") as failed:
        ranks.wait_until_ready(update.trainer.policy)
    assert (failed.value.code, failed.value.param) == ("unusable_model", "model")
    ranks.set_up(SetUp(str(base_model), settings, torch_threads=1, needs_gpu=True))
    with pytest.raises(RunPaused, match="torch finds no GPU on its host for rank 1 of 2") as paused:
        ranks.wait_until_ready(update.trainer.policy)
    assert paused.value.code == "devices_unfit"
    ranks.set_up(SetUp(str(base_model), settings, torch_threads=1))
    with pytest.raises(RunPaused, match="rank 1 loaded another model"):
        ranks.wait_until_ready(update.trainer.policy)


def test_rank_0_makes_a_pass_of_its_own_with_all_parts_of_the_base_model(
    base_model: Path, tokenizer: PreTrainedTokenizerBase, ranks: OtherRanks, tmp_path: Path
) -> None:
    update = Update(base_model, tokenizer, [rows_of(12)], tmp_path / "parts", ranks=ranks, is_sharded=True)
    whole = Update(base_model, tokenizer, [rows_of(12)], tmp_path / "whole", ranks=None)
    sample = Sample((30, 31, 32), (0.0, 0.0, 0.0), FinishReason.LENGTH)
    with ranks.passing():
        gap = mean_gap(update.trainer.policy, (20, 21), sample)
    assert gap == pytest.approx(mean_gap(whole.trainer.policy, (20, 21), sample), rel=1e-4)


def test_memory_that_runs_out_in_a_pass_of_all_is_told_with_what_to_set(
    both: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_many(self: PolicyTrainer, rows: Sequence[TrainingRow]) -> Any:
        raise MemoryError("the test's")

    monkeypatch.setattr(PolicyTrainer, "_inputs", too_many)
    with pytest.raises(RunPaused, match="set RFT_MICRO_BATCH_TOKENS to 100 or less") as paused:
        both([rows_of(7)], micro_batch_tokens=200, is_sharded=True)
    assert paused.value.code == "sharded_out_of_memory"
