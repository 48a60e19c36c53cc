"""Group: the rollouts of one row in one step, and what their rewards say."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, sqrt

from rft.core.rollout import Rollout

REWARD_DIGITS = 8
"""Rewards that are equal to so many decimal digits are equal: they differ by rounding, and train nothing."""
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


def advantages_G(rewards_G: Sequence[float | None], *, is_scaled: bool = True) -> list[float | None]:
    """GRPO advantages of one group; None where the rollout carries no gradient.

    Failed rollouts (None) are in neither mean nor standard deviation. A group with fewer than two
    graded rollouts, or whose rewards are all equal, has no signal: every entry is None.
    `is_scaled`: rewards minus their mean are divided by their standard deviation.
    Sources: DeepSeekMath (arXiv 2402.03300), section 4.1, with Bessel's correction; not scaled: Dr. GRPO (2503.20783).
    """
    graded = [reward for reward in rewards_G if reward is not None]
    if len(graded) < 2 or max(graded) - min(graded) < 10**-REWARD_DIGITS:
        return [None] * len(rewards_G)
    mean = fsum(graded) / len(graded)
    if not is_scaled:
        return [None if reward is None else reward - mean for reward in rewards_G]
    std = sqrt(fsum((reward - mean) ** 2 for reward in graded) / (len(graded) - 1))
    return [None if reward is None else (reward - mean) / (std + STD_EPSILON) for reward in rewards_G]
