"""What a sample of rewards tells of a policy: means with intervals, differences of two policies, the best of k. Pure.

Rewards come by row, because rollouts of one row are alike and rows are what a policy will be asked anew. Every interval
is one for new rows like those measured; for the very same rows with fresh seeds it is wider than it had to be.
"""

from collections.abc import Sequence
from math import comb, fsum, pi, sqrt, tan
from statistics import NormalDist

from rft.core.base import Record
from rft.core.group import are_equal, is_rounding

RewardsByRow = Sequence[Sequence[float]]
"""The graded rewards of each row; rows may have any number of them, also none."""

CONFIDENCE = 0.95
_BESIDE_THE_SCALE = 1e-9
"""How far rounding carries a reward beyond 0 or 1; `are_equal` knows it on any scale."""


class RewardEstimate(Record):
    """The mean reward of a policy over rows like those it was measured on."""

    mean: float
    """Each row counts the same, however many of its rollouts were graded."""
    low: float
    high: float
    """Where the true mean lies with the confidence that was asked for."""
    rows: int
    """Rows with a graded rollout."""


class RewardDifference(Record):
    """How much better one policy is than another on rows like those that both were measured on."""

    difference: float
    """Mean over rows of the second policy's mean reward less the first's."""
    low: float
    high: float
    rows: int
    """Rows that have a graded rollout of both."""
    better: int
    """Rows where the second policy's mean reward is the higher one."""
    worse: int
    same: int

    @property
    def is_improvement(self) -> bool:
        """Whether the interval leaves no room for "equal or worse"."""
        return self.low > 0


def estimate_reward(rewards_by_row: RewardsByRow, *, confidence: float = CONFIDENCE) -> RewardEstimate | None:
    """Mean and interval from the graded rewards of each row; None without any, or without an interval.

    Wilson's interval at the effective number of observations, as surveys with clusters use it (Korn and Graubard 1998;
    Dean and Pagano 2015), with Student's quantile. Rollouts of one row are alike, so the spread between rows says what
    they are worth together: never less than one observation per row, because no reward between 0 and 1 spreads more
    than a 0/1 reward of the same mean, and never more than one per rollout. Unlike Student's interval it stays within 0
    and 1, and does not claim certainty when all rows earned 1. Rewards of another scale have Student's interval of the
    rows' means, and none where these are all equal.
    """
    graded = [rewards for rewards in rewards_by_row if rewards]
    if not graded:
        return None
    row_means = [_mean(rewards) for rewards in graded]
    rows = len(row_means)
    if not is_on_the_scale(graded):
        interval = _student_interval(row_means, confidence, largest=_largest(graded))
        return interval and RewardEstimate(mean=_mean(row_means), low=interval[0], high=interval[1], rows=rows)
    row_means = [min(1.0, max(0.0, mean)) for mean in row_means]
    mean = min(1.0, _mean(row_means))
    observations = _effective_observations(row_means, at_most=sum(map(len, graded)))
    t = _student_quantile(confidence, degrees_of_freedom=max(1, rows - 1))
    centre = (mean + t * t / (2 * observations)) / (1 + t * t / observations)
    reach = t * sqrt(mean * (1 - mean) / observations + (t / (2 * observations)) ** 2) / (1 + t * t / observations)
    return RewardEstimate(
        mean=mean, low=max(0.0, min(mean, centre - reach)), high=min(1.0, max(mean, centre + reach)), rows=rows
    )


def estimate_difference(
    first_by_row: RewardsByRow, second_by_row: RewardsByRow, *, confidence: float = CONFIDENCE
) -> RewardDifference | None:
    """The second policy against the first, row by row; None without a row of both.

    The interval of Bonett and Price (2012) for paired proportions, which adds one row that got better by 1 and one that
    got worse by 1, so that equal policies on few rows do not look proven equal; for rewards between 0 and 1 the same
    formula with the differences' mean square. Rewards of another scale have Student's interval of the differences, and
    none where these are all equal. Raises ValueError when the two do not have equally many rows.
    """
    pairs = [(first, second) for first, second in zip(first_by_row, second_by_row, strict=True) if first and second]
    differences = [_difference(_mean(first), _mean(second)) for first, second in pairs]
    if all(map(is_on_the_scale, pairs)):
        interval = _bonett_price_interval(differences, confidence)
    else:
        interval = _student_interval(differences, confidence, largest=max(map(_largest, pairs)))
    if interval is None:
        return None
    better, worse = (sum(sign * one > 0 for one in differences) for sign in (1, -1))
    return RewardDifference(
        difference=_mean(differences),
        low=interval[0],
        high=interval[1],
        rows=len(differences),
        better=better,
        worse=worse,
        same=len(differences) - better - worse,
    )


def is_on_the_scale(rewards_by_row: RewardsByRow) -> bool:
    """Whether all rewards lie between 0 and 1; a sum of weighted parts may miss either end by rounding."""
    return all(
        -_BESIDE_THE_SCALE <= reward <= 1.0 + _BESIDE_THE_SCALE for rewards in rewards_by_row for reward in rewards
    )


def pass_at_k(passed: int, samples: int, k: int) -> float:
    """Chance that at least one of k rollouts of a row passes, from `passed` of `samples` (Chen et al. 2021, eq. 1).

    Unbiased. Raises ValueError unless 0 <= passed <= samples and 1 <= k <= samples.
    """
    if not (0 <= passed <= samples and 1 <= k <= samples):
        raise ValueError(f"{passed} of {samples} rollouts do not tell of {k}")
    return 1.0 - comb(samples - passed, k) / comb(samples, k)


def best_of_k(rewards: Sequence[float], k: int) -> float:
    """Expected highest reward among k rollouts of a row, from n of them.

    The mean of the maximum over all subsets of k, an unbiased U-statistic: the i-th smallest reward is the largest of
    C(i - 1, k - 1) subsets. For 0/1 rewards it is `pass_at_k`. Raises ValueError unless 1 <= k <= n.
    """
    if not 1 <= k <= len(rewards):
        raise ValueError(f"{len(rewards)} rollouts do not tell of the best of {k}")
    subsets = comb(len(rewards), k)
    return fsum(comb(index, k - 1) / subsets * reward for index, reward in enumerate(sorted(rewards)))


def variance_within_rows(rewards_by_row: RewardsByRow) -> float | None:
    """Mean over rows of the unbiased variance of a row's rewards; None without a row of two.

    What there is to learn from: a row whose rollouts all earn the same carries no gradient.
    """
    variances = [
        fsum((reward - _mean(rewards)) ** 2 for reward in rewards) / (len(rewards) - 1)
        for rewards in rewards_by_row
        if len(rewards) > 1
    ]
    return _mean(variances) if variances else None


def _largest(rewards_by_row: RewardsByRow) -> float:
    """Without its sign."""
    return max(abs(reward) for rewards in rewards_by_row for reward in rewards)


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


def _difference(first: float, second: float) -> float:
    """0 where rounding is all that they differ by."""
    return 0.0 if are_equal((first, second)) else second - first


def _effective_observations(row_means: Sequence[float], *, at_most: int) -> float:
    """How many independent 0/1 rewards would tell as much.

    The spread is that of the rows and of one more, half of it 0 and half of it 1: few rows of which all but one earned
    1 look more alike than such rows are, and the interval would miss the truth more often than it says.
    """
    rows = len(row_means)
    mean = (fsum(row_means) + 0.5) / (rows + 1)
    spread = (fsum((row_mean - mean) ** 2 for row_mean in row_means) + (mean**2 + (1 - mean) ** 2) / 2) / (rows + 1)
    return min(max(rows * mean * (1 - mean) / spread, rows), at_most)


def _bonett_price_interval(differences: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """Of differences between -1 and 1; None without any."""
    if not differences:
        return None
    rows, difference = len(differences), _mean(differences)
    centre = fsum(differences) / (rows + 2)
    variance = (fsum(one**2 for one in differences) + 2) / (rows + 2) - centre**2
    reach = NormalDist().inv_cdf(0.5 + confidence / 2) * sqrt(variance / (rows + 2))
    return max(-1.0, min(difference, centre - reach)), min(1.0, max(difference, centre + reach))


def _student_interval(values: Sequence[float], confidence: float, *, largest: float) -> tuple[float, float] | None:
    """Of the mean; None where nothing tells how far values spread. `largest`: what rounding is held against."""
    if len(values) < 2 or is_rounding(max(values) - min(values), of=largest):
        return None
    mean, rows = _mean(values), len(values)
    variance = fsum((value - mean) ** 2 for value in values) / (rows - 1)
    reach = _student_quantile(confidence, degrees_of_freedom=rows - 1) * sqrt(variance / rows)
    return mean - reach, mean + reach


def _student_quantile(confidence: float, *, degrees_of_freedom: int) -> float:
    """Of Student's t, two-sided: exact for one and two degrees of freedom, where its expansion is far off; from three
    on the first terms of that (Abramowitz and Stegun 26.7.5)."""
    if degrees_of_freedom == 1:
        return tan(pi * confidence / 2)
    if degrees_of_freedom == 2:
        return confidence * sqrt(2 / (1 - confidence**2))
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    fourth = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + fsum(term / degrees_of_freedom**power for power, term in enumerate((first, second, third, fourth), 1))
