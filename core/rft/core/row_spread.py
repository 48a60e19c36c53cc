"""How far the rewards of each row spread, and what that says of the size of groups. Pure.

A group teaches only where its rewards differ: a row whose samples all earn the same gives no gradient.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import comb, fsum, sqrt

from rft.core.base import Record
from rft.core.estimates import is_on_the_scale
from rft.core.group import without_rounding
from rft.core.hyperparameters import group_size

MULTIPLIERS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Candidates for `compute_multiplier`."""
ENOUGH = 0.5
"""Share of groups with signal that is worth a job."""
PLENTY = 0.9
"""Share at which smaller groups do."""
_SMALLER = 0.5
_USUAL = 1.0
_HIGH, _LOW = 0.9, 0.1
"""A mean beyond it: most rows are solved, or out of reach, on a scale of 0 to 1."""


class RowSpread(Record):
    """The rewards of one row."""

    row_index: int
    samples: int
    """With a reward."""
    mean: float
    best: float
    spread: float | None
    """Standard deviation with Bessel's correction; None of one sample."""


class GroupSignal(Record):
    """What groups of one size would be worth on these rows."""

    compute_multiplier: float
    group_size: int
    share: float
    """Expected share of groups whose rewards differ."""
    is_lower_bound: bool
    """Rows were sampled less often than that: the share is that of the largest group that they tell of."""


class Variance(Record):
    """What there is to learn from on these rows."""

    rows: int
    """With a reward."""
    samples: int
    mean: float | None
    """Each row counting the same."""
    rows_sampled_twice: int
    """With two rewards or more: only these can show signal."""
    rows_with_signal: int
    """Whose rewards differ."""
    share_with_signal: float | None
    """Of the rows with two rewards or more."""
    by_group_size: tuple[GroupSignal, ...]
    advised_multiplier: float | None
    """A `compute_multiplier` for a job on such rows; None where these samples do not tell, or none would do."""
    advice: str
    """The same in words."""


def row_spreads(rewards_by_row: Mapping[int, Sequence[float]]) -> list[RowSpread]:
    """Each row that has a reward, lowest mean first."""
    found = [_spread(row_index, rewards) for row_index, rewards in rewards_by_row.items() if rewards]
    return sorted(found, key=lambda row: (row.mean, row.best, row.row_index))


def evenly(rows: Sequence[RowSpread], limit: int) -> list[RowSpread]:
    """Up to `limit` of them, the first and the last included, the others as far apart as each other."""
    if len(rows) <= limit:
        return list(rows)
    if limit == 1:
        return [rows[0]]
    return [rows[round(at * (len(rows) - 1) / (limit - 1))] for at in range(limit)]


def widest(rows: Sequence[RowSpread], limit: int) -> list[RowSpread]:
    """Up to `limit` of them: those whose rewards spread furthest first, single samples last."""
    return sorted(rows, key=lambda row: -1.0 if row.spread is None else row.spread, reverse=True)[:limit]


def variance_of(rewards_by_row: Mapping[int, Sequence[float]]) -> Variance:
    """The rows together, and the multiplier that they speak for."""
    graded = [rewards for rewards in rewards_by_row.values() if rewards]
    repeated = [rewards for rewards in graded if len(rewards) > 1]
    differing = sum(len(_counts(rewards)) > 1 for rewards in repeated)
    mean = fsum(fsum(rewards) / len(rewards) for rewards in graded) / len(graded) if graded else None
    by_size = tuple(_group_signal(repeated, multiplier) for multiplier in MULTIPLIERS) if repeated else ()
    advised, advice = _advice(by_size, mean, is_share=is_on_the_scale(graded))
    return Variance(
        rows=len(graded),
        samples=sum(map(len, graded)),
        mean=mean,
        rows_sampled_twice=len(repeated),
        rows_with_signal=differing,
        share_with_signal=differing / len(repeated) if repeated else None,
        by_group_size=by_size,
        advised_multiplier=advised,
        advice=advice,
    )


def chance_of_signal(rewards: Sequence[float], size: int) -> float:
    """Chance that so many of these samples, drawn without replacement, do not all have the same reward.

    The unbiased estimate for a group of that size, as `pass_at_k` is for one success. Raises ValueError unless there
    are so many samples.
    """
    if not 1 <= size <= len(rewards):
        raise ValueError(f"{len(rewards)} samples do not tell of a group of {size}")
    alike = sum(comb(times, size) for times in _counts(rewards).values())
    return 1.0 - alike / comb(len(rewards), size)


def _spread(row_index: int, rewards: Sequence[float]) -> RowSpread:
    mean = fsum(rewards) / len(rewards)
    squares = fsum((reward - mean) ** 2 for reward in rewards)
    spread = sqrt(squares / (len(rewards) - 1)) if len(rewards) > 1 else None
    return RowSpread(row_index=row_index, samples=len(rewards), mean=mean, best=max(rewards), spread=spread)


def _counts(rewards: Sequence[float]) -> Counter[float]:
    """How often each reward came; closer ones than training tells apart are the same."""
    return Counter(without_rounding(rewards))


def _group_signal(rows: Sequence[Sequence[float]], multiplier: float) -> GroupSignal:
    size = group_size(multiplier)
    told = [chance_of_signal(rewards, min(size, len(rewards))) for rewards in rows]
    return GroupSignal(
        compute_multiplier=multiplier,
        group_size=size,
        share=fsum(told) / len(told),
        is_lower_bound=any(len(rewards) < size for rewards in rows),
    )


def _advice(by_size: Sequence[GroupSignal], mean: float | None, *, is_share: bool) -> tuple[float | None, str]:
    """`is_share`: the mean is one of rewards between 0 and 1, and says how much is solved."""
    if mean is None:
        return None, "Nothing is graded yet."
    if not by_size:
        return None, "Every row has one sample: two or more per row show which rows there is something to learn from."
    share = {each.compute_multiplier: each for each in by_size}
    if share[_SMALLER].share >= PLENTY:
        return _SMALLER, f"Groups of {share[_SMALLER].group_size} have signal on {_percent(share[_SMALLER])} of rows."
    enough = next((each for each in by_size if each.compute_multiplier >= _USUAL and each.share >= ENOUGH), None)
    if enough is not None:
        return enough.compute_multiplier, f"Groups of {enough.group_size} have signal on {_percent(enough)} of rows."
    usual, largest = share[_USUAL], by_size[-1]
    if usual.is_lower_bound:
        return None, (
            f"Few rows show signal so far, and they have fewer samples than a group of {usual.group_size}:"
            " measure with more samples per row."
        )
    if is_share and mean >= _HIGH:
        return None, "Nearly every row is solved already: harder rows would teach more than larger groups."
    if is_share and mean <= _LOW:
        return None, "Nearly no row is ever solved: easier rows, or a grader with partial credit, would give signal."
    return None, (
        f"Groups of {largest.group_size} have signal on {_percent(largest)} of rows: most rows always earn the same."
        " A finer grader, or rows of middling difficulty, would give more."
    )


def _percent(signal: GroupSignal) -> str:
    return f"{'at least ' if signal.is_lower_bound else ''}{signal.share:.0%}"
