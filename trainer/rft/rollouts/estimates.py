"""The confidence interval of a mean reward. Pure."""

from collections.abc import Sequence
from math import fsum, sqrt
from statistics import NormalDist

from rft.core.base import Record


class RewardEstimate(Record):
    """The mean reward of a policy over rows like those it was measured on."""

    mean: float
    """Each row counts the same, however many of its rollouts were graded."""
    low: float
    high: float
    """Where the true mean lies with the confidence that was asked for."""
    rows: int
    """Rows with a graded rollout."""


def estimate_reward(rewards_by_row: Sequence[Sequence[float]], *, confidence: float = 0.95) -> RewardEstimate | None:
    """Mean and interval from the graded rewards of each row; None without any, or where one lies outside 0 to 1.

    Wilson's interval at the effective number of observations, as surveys with clusters use it (Korn and Graubard 1998;
    Dean and Pagano 2015). Rollouts of one row are alike, so the spread between rows says what they are worth together:
    never less than one observation per row, because no reward between 0 and 1 spreads more than a 0/1 reward of the
    same mean, and never more than one per rollout. Unlike Student's t it stays within 0 and 1, and does not claim
    certainty when all rows earned 1.
    """
    graded = [rewards for rewards in rewards_by_row if rewards]
    if not graded or any(not 0.0 <= reward <= 1.0 for rewards in graded for reward in rewards):
        return None
    row_means = [fsum(rewards) / len(rewards) for rewards in graded]
    rows = len(row_means)
    mean = min(1.0, fsum(row_means) / rows)
    observations = _effective_observations(row_means, mean, at_most=sum(map(len, graded)))
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    centre = (mean + z * z / (2 * observations)) / (1 + z * z / observations)
    reach = z * sqrt(mean * (1 - mean) / observations + (z / (2 * observations)) ** 2) / (1 + z * z / observations)
    return RewardEstimate(
        mean=mean, low=max(0.0, min(mean, centre - reach)), high=min(1.0, max(mean, centre + reach)), rows=rows
    )


def _effective_observations(row_means: Sequence[float], mean: float, *, at_most: int) -> float:
    """How many independent 0/1 rewards would tell as much."""
    rows = len(row_means)
    spread = fsum((row_mean - mean) ** 2 for row_mean in row_means) / rows
    if spread < 1e-9:  # All rows alike: nothing tells how much alike rollouts of a row are.
        return rows
    return min(max(rows * mean * (1 - mean) / spread, rows), at_most)
