"""Checkpoint: weights saved at a step."""

from rft.core.base import Record
from rft.core.group import without_rounding


class Checkpoint(Record):
    """A usable adapter in PEFT format on disk."""

    step: int
    path: str
    """Directory of the adapter, relative to the run directory."""
    train_reward: float | None
    """Mean reward of the training rollouts that this policy sampled, those of a later step; None while there are none,
    and of the untrained policy."""
    valid_reward: float | None
    """None when the step was not evaluated."""
    graded_share: float = 1.0
    """Share of the validation rollouts that were graded."""

    @property
    def is_evidence(self) -> bool:
        """Whether its evaluation counts: enough of it was graded."""
        return self.graded_share >= MIN_GRADED_SHARE


MIN_GRADED_SHARE = 0.5
"""An evaluation that lost more rollouts than this leaves is no evidence against one that did not."""


def best(checkpoints: "list[Checkpoint]", keep: int = 3) -> "list[Checkpoint]":
    """The `keep` best, best first: by validation reward, else by training reward; later wins ties."""
    evaluated = [checkpoint for checkpoint in checkpoints if checkpoint.valid_reward is not None]
    pool = evaluated or checkpoints
    graded = [reward for checkpoint in pool if (reward := _reward(checkpoint)) is not None]
    level = dict(zip(graded, without_rounding(graded), strict=True))

    def rank(checkpoint: Checkpoint) -> tuple[bool, float, int]:
        reward = _reward(checkpoint)
        return checkpoint.is_evidence, float("-inf") if reward is None else level[reward], checkpoint.step

    return sorted(pool, key=rank, reverse=True)[:keep]


def _reward(checkpoint: Checkpoint) -> float | None:
    return checkpoint.valid_reward if checkpoint.valid_reward is not None else checkpoint.train_reward
