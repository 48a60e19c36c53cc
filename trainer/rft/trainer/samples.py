"""From graded groups to training rows. Pure; token ids are taken from the trace as they are."""

from collections.abc import Sequence
from dataclasses import dataclass

from rft.core.group import Group, advantages_G
from rft.core.rollout import Rollout


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One rollout that carries gradient. All `_T` have the same length T."""

    prompt_ids: tuple[int, ...]
    completion_ids_T: tuple[int, ...]
    """Everything after the prompt, tool outputs included."""
    mask_T: tuple[bool, ...]
    """True where the policy sampled the token: only there is gradient."""
    logprobs_T: tuple[float, ...]
    """Under the policy that sampled; 0.0 where the mask is False."""
    advantage: float
    trace_id: str = ""
    """Of the rollout; empty where none stands behind the row."""
    staleness: float = 0
    """Steps by which the policy that sampled is behind the one that is updated: the mean over its sampled tokens."""
    oldest: int = 0
    """The largest of them."""

    def __post_init__(self) -> None:
        if not len(self.completion_ids_T) == len(self.mask_T) == len(self.logprobs_T):
            raise ValueError("completion ids, mask and logprobs of a training row differ in length")
        if not self.prompt_ids or not any(self.mask_T):
            raise ValueError("a training row needs a prompt and at least one sampled token")

    @property
    def tokens(self) -> int:
        """Prompt and completion together."""
        return len(self.prompt_ids) + len(self.completion_ids_T)

    @property
    def sampled_tokens(self) -> int:
        """Tokens that carry gradient."""
        return sum(self.mask_T)


@dataclass(frozen=True, slots=True)
class RowRatios:
    """How much likelier the trainer found the sampled tokens of one row than the sampler did."""

    trace_id: str
    advantage: float
    log_ratios: bytes
    """By sampled token, in float16: the trainer's log-probability minus the sampler's."""


def training_rows(groups: Sequence[Group], *, is_scaled: bool = True) -> list[TrainingRow]:
    """One row per rollout with an advantage: failed ones and groups without signal leave no trace in the batch.

    `is_scaled`: advantages are divided by their group's standard deviation.
    """
    return [
        _row(rollout, advantage)
        for group in groups
        for rollout, advantage in zip(group.rollouts, advantages_G(group.rewards_G, is_scaled=is_scaled), strict=True)
        if advantage is not None and rollout.trace.sampled_tokens > 0
    ]


def _row(rollout: Rollout, advantage: float) -> TrainingRow:
    trace = rollout.trace
    return TrainingRow(
        prompt_ids=trace.prompt_ids,
        completion_ids_T=tuple(trace.completion_ids_T),
        mask_T=tuple(trace.mask_T),
        logprobs_T=tuple(trace.logprobs_T),
        advantage=advantage,
        trace_id=rollout.trace_id,
        staleness=rollout.key.step - 1 - _mean_version(rollout),
        oldest=rollout.key.step - 1 - min(rollout.turn_versions, default=rollout.policy_version),
    )


def _mean_version(rollout: Rollout) -> float:
    """Over the sampled tokens; a turn that was cut off is of no version."""
    by_turn = list(zip(rollout.turn_versions, rollout.turns, strict=True))
    tokens = sum(turn.completion_tokens for _, turn in by_turn)
    if not tokens:
        return rollout.policy_version
    return sum(version * turn.completion_tokens for version, turn in by_turn) / tokens
