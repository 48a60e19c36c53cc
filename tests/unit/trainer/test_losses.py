"""Each loss that can be ordered against its formula, written down by hand."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rft.core.group import advantages_G
from rft.core.spec import IMPORTANCE_CAP
from rft.core.turns import Trace
from rft.trainer.losses import UNCLIPPED, ClipRange, kl_divergences
from rft.trainer.samples import TrainingRow, training_rows
from tests.shared.by_hand import group_of
from tests.unit.trainer.updates import Gradients, Update, worst_difference

REWARDS = [0.0, 1.0, 0.25, 1.0, 0.0, 0.5, 0.75, 0.1]
COMPLETION_TOKENS = 96
CUTS = [
    (1000, False),
    (80, True),
    pytest.param(1000, True, marks=pytest.mark.thorough),
    pytest.param(80, False, marks=pytest.mark.thorough),
]
"""In how many parts a step is computed, each with tokens weighted and not."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The sampled tokens of one rollout."""

    new_T: Tensor
    """Log-probabilities in training, with gradient."""
    weights_T: Tensor
    """Trainer over sampler, token by token; ones where nothing is weighted."""
    advantage: float
    clip: ClipRange = UNCLIPPED

    @property
    def ratio_T(self) -> Tensor:
        """The policy over itself: 1, and all of the gradient."""
        return (self.new_T - self.new_T.detach()).exp()

    @property
    def capped_T(self) -> Tensor:
        return torch.tensor([self.cut(float(weight)) for weight in self.weights_T])

    def cut(self, weight: float) -> float:
        """What one ratio weighs."""
        if self.advantage > 0 and self.clip.high is not None and weight > 1 + self.clip.high:
            return 0.0
        if self.advantage < 0 and self.clip.low is not None and weight < 1 - self.clip.low:
            return 0.0
        return min(weight, IMPORTANCE_CAP)


def dapo(rows: Sequence[Scored]) -> Tensor:
    """The mean over all tokens of the step."""
    tokens = sum(len(row.new_T) for row in rows)
    return _sum(-(row.capped_T * row.ratio_T * row.advantage).sum() / tokens for row in rows)


def grpo(rows: Sequence[Scored]) -> Tensor:
    """The mean over rollouts of each one's mean over its tokens."""
    return _sum(-(row.capped_T * row.ratio_T * row.advantage).mean() / len(rows) for row in rows)


def dr_grpo(rows: Sequence[Scored]) -> Tensor:
    """Nothing that depends on a rollout's length or on its group's deviation."""
    return _sum(-(row.capped_T * row.ratio_T * row.advantage).sum() / COMPLETION_TOKENS / len(rows) for row in rows)


def gspo(rows: Sequence[Scored]) -> Tensor:
    """One ratio for each rollout, the geometric mean of its tokens'."""
    terms: list[Tensor] = []
    for row in rows:
        weight = row.cut(float(row.weights_T.log().mean().exp()))
        ratio = (row.new_T - row.new_T.detach()).mean().exp()
        terms.append(-weight * ratio * row.advantage / len(rows))
    return _sum(terms)


def cispo(rows: Sequence[Scored]) -> Tensor:
    """The weight is no part of the gradient; the log-probability is."""
    tokens = sum(len(row.new_T) for row in rows)
    caps = [row.clip.high or IMPORTANCE_CAP for row in rows]
    weights = [row.weights_T.clamp(max=cap) for row, cap in zip(rows, caps, strict=True)]
    return _sum(-(one * row.advantage * row.new_T).sum() / tokens for one, row in zip(weights, rows, strict=True))


def _sum(terms: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(terms)).sum()


FORMULAS: dict[str, Callable[[Sequence[Scored]], Tensor]] = {
    "dapo": dapo, "bnpo": dapo, "grpo": grpo, "dr_grpo": dr_grpo, "gspo": gspo, "cispo": cispo,
}  # fmt: skip


def rows_of(traces: Sequence[Trace], loss_type: str) -> list[TrainingRow]:
    groups = [group_of(traces[:4], REWARDS[:4]), group_of(traces[4:], REWARDS[4:], row_index=1)]
    rows = training_rows(groups, is_scaled=loss_type != "dr_grpo")
    # Half of the rollouts are likelier to the trainer than to the sampler, and some tokens of all of them.
    chance, means = torch.Generator().manual_seed(3), (-9.5, -6.0)
    return [
        replace(row, logprobs_T=tuple((means[i % 2] + 2 * torch.randn(len(row.mask_T), generator=chance)).tolist()))
        for i, row in enumerate(rows)
    ]


def by_hand(
    model: torch.nn.Module,
    rows: Sequence[TrainingRow],
    loss_type: str,
    *,
    is_weighted: bool,
    clip: ClipRange = UNCLIPPED,
    penalty: Callable[[Sequence[Scored]], Tensor] = lambda rows: torch.zeros(()),
) -> Gradients:
    """The gradient of the formula and of what is added to it, cut to the length that the optimizer takes."""
    model.zero_grad()
    scored = [replace(_scored(model, row, is_weighted=is_weighted), clip=clip) for row in rows]
    (FORMULAS[loss_type](scored) + penalty(scored)).backward()
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
    return {name: p.grad.clone() for name, p in trained.items() if p.grad is not None}


def _scored(model: torch.nn.Module, row: TrainingRow, *, is_weighted: bool) -> Scored:
    mask_T = torch.tensor(row.mask_T)
    logits = model(input_ids=torch.tensor([[*row.prompt_ids, *row.completion_ids_T]])).logits
    logprobs_T_V = torch.log_softmax(logits[0, len(row.prompt_ids) - 1 : -1], -1)
    new_T = logprobs_T_V.gather(1, torch.tensor(row.completion_ids_T)[:, None])[:, 0][mask_T]
    weights_T = (new_T.detach() - torch.tensor(row.logprobs_T)[mask_T]).exp()
    return Scored(new_T, weights_T if is_weighted else torch.ones_like(weights_T), row.advantage)


@pytest.mark.parametrize(("tokens", "is_weighted"), CUTS)
@pytest.mark.parametrize("loss_type", FORMULAS)
def test_the_gradient_is_that_of_the_formula(
    tokenizer: PreTrainedTokenizerBase,
    ragged_traces: list[Trace],
    tmp_path: Path,
    loss_type: str,
    tokens: int,
    is_weighted: bool,
) -> None:
    rows = rows_of(ragged_traces, loss_type)
    update = Update(
        tokenizer, [rows], tmp_path,
        loss_type=loss_type, tokens=tokens, learning_rate=0.0, is_weighted=is_weighted,
        max_completion_tokens=COMPLETION_TOKENS,
    )  # fmt: skip
    expected = by_hand(update.trainer.policy, rows, loss_type, is_weighted=is_weighted)
    assert worst_difference(update.gradients, expected) <= 1e-6
    assert max(float(gradient.abs().max()) for gradient in expected.values()) > 1e-3


@pytest.mark.lengthy
@pytest.mark.parametrize("clip", [ClipRange(0.5, 0.9), ClipRange(None, 0.2), ClipRange(0.3, None)], ids=str)
@pytest.mark.parametrize("loss_type", FORMULAS)
def test_tokens_beyond_the_clip_range_weigh_nothing(
    tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path, loss_type: str, clip: ClipRange
) -> None:
    if loss_type == "cispo":
        clip = replace(clip, high=5.0)
    rows = rows_of(ragged_traces, loss_type)
    update = Update(
        tokenizer, [rows], tmp_path,
        loss_type=loss_type, tokens=80, learning_rate=0.0, is_weighted=True,
        max_completion_tokens=COMPLETION_TOKENS, clip=clip,
    )  # fmt: skip
    expected = by_hand(update.trainer.policy, rows, loss_type, is_weighted=True, clip=clip)
    assert worst_difference(update.gradients, expected) <= 1e-6
    share = update.figures[0].clipped_share
    assert share is not None
    assert share == 0 if loss_type == "cispo" else 0.05 < share < 0.95


@pytest.mark.lengthy
@pytest.mark.parametrize("loss_type", FORMULAS)
def test_a_token_weighs_in_the_kl_divergence_what_it_is_likelier_than_it_was_to_the_sampler(
    tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path, loss_type: str
) -> None:
    """Of a sampler to which all was twenty times likelier: a twentieth, in loss, gradient and figure."""

    def update(log_ratio: float, **more: Any) -> Update:
        sampled = []
        for row in rows:
            new = iter((_scored(policy, row, is_weighted=False).new_T.detach() - log_ratio).tolist())
            logprobs = tuple(next(new) if is_sampled else 0.0 for is_sampled in row.mask_T)
            sampled.append(replace(row, advantage=0.0, logprobs_T=logprobs))
        path = tmp_path / f"{log_ratio}{len(more)}"
        return Update(
            tokenizer, [sampled], path, loss_type=loss_type, learning_rate=0.0, beta=0.1, is_weighted=True, **more
        )

    rows = rows_of(ragged_traces, loss_type)
    policy = Update(tokenizer, [rows], tmp_path / "policy", learning_rate=0.0).trainer.policy
    now, late, far, clipped = update(0.0), update(-3.0), update(3.0), update(-3.0, clip=ClipRange(0.1, 0.1))
    for other, weight in ((late, exp(-3.0)), (far, IMPORTANCE_CAP), (clipped, exp(-3.0))):
        for name, gradient in now.gradients.items():
            torch.testing.assert_close(other.gradients[name], weight * gradient, rtol=1e-3, atol=1e-7)
        for figure in ("kl", "loss"):
            expected = weight * getattr(now.figures[0], figure)
            assert getattr(other.figures[0], figure) == pytest.approx(expected, rel=1e-3)
    assert max(float(gradient.abs().max()) for gradient in now.gradients.values()) > 1e-4


@pytest.mark.lengthy
@pytest.mark.parametrize(("tokens", "is_weighted"), CUTS)
@pytest.mark.parametrize("loss_type", FORMULAS)
def test_the_kl_divergence_from_the_base_model_is_added_to_each_token(
    tokenizer: PreTrainedTokenizerBase,
    ragged_traces: list[Trace],
    tmp_path: Path,
    loss_type: str,
    tokens: int,
    is_weighted: bool,
) -> None:
    rows, beta = rows_of(ragged_traces, loss_type), 0.7
    update = Update(
        tokenizer, [rows], tmp_path,
        loss_type=loss_type, tokens=tokens, learning_rate=0.0, is_weighted=is_weighted,
        max_completion_tokens=COMPLETION_TOKENS, beta=beta,
    )  # fmt: skip
    policy = update.trainer.policy
    with torch.no_grad(), policy.disable_adapter():  # pyright: ignore[reportCallIssue]
        base = [_scored(policy, row, is_weighted=False).new_T for row in rows]

    def divergences(rows: Sequence[Scored]) -> list[Tensor]:
        """Of each token: the estimator that is never below 0, times the ratio, which makes its gradient unbiased.

        Times its own weight, too, however far its advantage pulls and whatever the loss weighs as one.
        """
        estimates = [
            row.weights_T.clamp(max=IMPORTANCE_CAP) * ((old - row.new_T).exp() - (old - row.new_T) - 1)
            for old, row in zip(base, rows, strict=True)
        ]
        return [one if loss_type == "gspo" else one * row.ratio_T for one, row in zip(estimates, rows, strict=True)]

    def penalty(rows: Sequence[Scored]) -> Tensor:
        """As the loss takes its own terms together."""
        found, step_tokens = divergences(rows), sum(len(row.new_T) for row in rows)
        if loss_type in ("grpo", "gspo"):
            return beta * _sum(one.mean() / len(rows) for one in found)
        return (
            beta
            * _sum(one.sum() for one in found)
            / (COMPLETION_TOKENS * len(rows) if loss_type == "dr_grpo" else step_tokens)
        )

    expected = by_hand(policy, rows, loss_type, is_weighted=is_weighted, penalty=penalty)
    assert worst_difference(update.gradients, expected) <= 1e-6
    without = by_hand(policy, rows, loss_type, is_weighted=is_weighted)
    assert worst_difference(without, expected) > 1e-4, "it weighs enough to be seen"
    scored = [_scored(policy, row, is_weighted=is_weighted) for row in rows]
    assert update.figures[0].kl == pytest.approx(float(torch.cat(divergences(scored)).mean().detach()), abs=1e-5)


@pytest.mark.parametrize("sampler", [(0.5, 0.3, 0.2), (0.25, 0.45, 0.3)], ids=["the policy itself", "an older one"])
def test_whoever_sampled_value_and_gradient_are_in_the_mean_those_of_the_divergence(
    sampler: tuple[float, ...],
) -> None:
    """Exactly, over all three tokens that there are, none of whose weights is beyond the cap."""
    logits = torch.tensor([0.5, 0.3, 0.2]).log().requires_grad_()
    base, chances = torch.tensor([0.2, 0.2, 0.6]).log(), torch.tensor(sampler)
    policy = torch.log_softmax(logits, -1)
    divergence = (policy.exp() * (policy - base)).sum()
    found = (chances * kl_divergences("dapo", policy, base, policy.detach().exp() / chances)).sum()
    torch.testing.assert_close(found, divergence)
    gradients = [torch.autograd.grad(one, logits, retain_graph=True)[0] for one in (found, divergence)]
    torch.testing.assert_close(*gradients)


def test_weights_and_their_means_lie_on_both_sides_of_the_cap(
    tokenizer: PreTrainedTokenizerBase, ragged_traces: list[Trace], tmp_path: Path
) -> None:
    """Or the test above would hold for losses that do not weigh, or cut nothing."""
    rows = rows_of(ragged_traces, "dapo")
    update = Update(tokenizer, [rows], tmp_path, learning_rate=0.0, is_weighted=True)
    scored = [_scored(update.trainer.policy, row, is_weighted=True) for row in rows]
    is_beyond = torch.cat([row.weights_T for row in scored]) > IMPORTANCE_CAP
    assert 0.1 < is_beyond.float().mean() < 0.9
    assert update.figures[0].truncated_share == pytest.approx(float(is_beyond.float().mean()))
    assert {bool(row.weights_T.log().mean().exp() > IMPORTANCE_CAP) for row in scored} == {True, False}


def test_advantages_of_dr_grpo_are_rewards_minus_their_mean() -> None:
    assert advantages_G([1.0, 0.0, None, 0.5], is_scaled=False) == [0.5, -0.5, None, 0.0]
    assert advantages_G([1.0, 1.0], is_scaled=False) == [None, None]
