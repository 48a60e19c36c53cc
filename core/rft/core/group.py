"""Group: the rollouts of one row in one step, and what their rewards say."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, sqrt

from rft.core.rollout import Rollout

_ROUNDING = 1e-8
"""Rewards that are closer are equal: they differ by rounding, and train nothing."""
_ROUNDING_OF_LARGE = 1e-12
"""The same as a share of the reward: above 1e4 it is the larger one, as neighbouring floats lie further apart there."""
STD_EPSILON = 1e-4
"""Added to the group's standard deviation before dividing (as TRL does)."""


@dataclass(frozen=True, slots=True)
class Group:
    """All rollouts of one row in one step, failed ones included."""

    row_index: int
    rollouts: tuple[Rollout, ...]

    @property
    def rewards_G(self) -> list[float | None]:
        """One per rollout; None where it failed."""
        return [rollout.reward for rollout in self.rollouts]

    @property
    def advantages_G(self) -> list[float | None]:
        """See `advantages_G`."""
        return advantages_G(self.rewards_G)


def are_equal(rewards: Sequence[float]) -> bool:
    """Whether all of them, one at least, are the same but for rounding."""
    lowest, highest = min(rewards), max(rewards)
    return is_rounding(highest - lowest, of=max(-lowest, highest))


def is_rounding(difference: float, *, of: float) -> bool:
    """Whether rewards may differ by so much and be the same; `of`: the largest of them, without its sign."""
    return difference < max(_ROUNDING, _ROUNDING_OF_LARGE * of)


def is_higher(reward: float, than: float) -> bool:
    """Whether it is, by more than rounding."""
    return reward > than and not are_equal((reward, than))


def without_rounding(rewards: Sequence[float]) -> list[float]:
    """Each reward, or in its place the lowest one that it is equal to, so that they can be compared exactly."""
    levels: dict[float, float] = {}
    level = None
    for reward in sorted(rewards):
        if level is None or not are_equal((level, reward)):
            level = reward
        levels[reward] = level
    return [levels[reward] for reward in rewards]


def advantages_G(rewards_G: Sequence[float | None], *, is_scaled: bool = True) -> list[float | None]:
    """GRPO advantages of one group; None where the rollout carries no gradient.

    Failed rollouts (None) are in neither mean nor standard deviation. A group with fewer than two
    graded rollouts, or whose rewards are all equal, has no signal: every entry is None.
    `is_scaled`: rewards minus their mean are divided by their standard deviation.
    Sources: DeepSeekMath (arXiv 2402.03300), section 4.1, with Bessel's correction; not scaled: Dr. GRPO (2503.20783).
    """
    graded = [reward for reward in rewards_G if reward is not None]
    if len(graded) < 2 or are_equal(graded):
        return [None] * len(rewards_G)
    mean = fsum(graded) / len(graded)
    if not is_scaled:
        return [None if reward is None else reward - mean for reward in rewards_G]
    std = sqrt(fsum((reward - mean) ** 2 for reward in graded) / (len(graded) - 1))
    return [None if reward is None else (reward - mean) / (std + STD_EPSILON) for reward in rewards_G]
