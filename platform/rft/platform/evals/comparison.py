"""What the output items of two runs tell of two models on the same items. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from rft.core.base import Record
from rft.core.estimates import RewardDifference, estimate_difference
from rft.core.group import is_higher
from rft.platform.evals.figures import Measured, Value, mean_of, passing, score_at, values_of

Change: TypeAlias = Literal["better", "worse", "same"]


class CriterionComparison(Record):
    """One criterion's scores, row by row."""

    testing_criteria: str
    score: RewardDifference | None
    """This run's less the other's; None where nothing tells an interval, too."""
    rows: int
    """With a score in both."""
    score_difference: float | None
    """Mean over them, also where nothing tells an interval; None without any."""


class Comparison(Record):
    """Two runs on the items that both have a verdict of."""

    rows: int
    """Compared."""
    passed: RewardDifference | None
    """This run's share of passing samples less the other's, with its paired interval at 95%."""
    criteria: tuple[CriterionComparison, ...]
    only_here: tuple[int, ...]
    """Items that the other run does not have, by `datasource_item_id`."""
    only_there: tuple[int, ...]
    without_verdict: tuple[int, ...]
    """Items of both, by this run's `datasource_item_id`, where one of them has no sample with a verdict."""


class ComparedRow(Record):
    """One item of two runs; each number is the mean over its samples that have it."""

    row_index: int
    """`datasource_item_id` in this run."""
    other_row_index: int
    """In the other one."""
    value: float
    """What is compared: the share of this run's samples that pass, or a criterion's score."""
    other_value: float
    passed: float | None
    """Share of this run's samples that pass; None where none has a verdict."""
    other_passed: float | None
    scores: tuple[float | None, ...]
    """By criterion, in their order; None where no sample has one."""
    other_scores: tuple[float | None, ...]
    change: Change
    """Of `value`."""


def compare(here: Sequence[Measured], there: Sequence[Measured], criteria: Sequence[str]) -> Comparison:
    """The items of one run against the same items of another; equal items of a run are told apart by their order."""
    ours, theirs = _by_item(here), _by_item(there)
    both = [(ours[key], theirs[key]) for key in ours if key in theirs]
    passed = [(values_of(mine, passing), values_of(other, passing)) for mine, other in both]
    return Comparison(
        rows=sum(bool(mine and other) for mine, other in passed),
        passed=_difference(passed),
        criteria=tuple(_of_criterion(both, place, name) for place, name in enumerate(criteria)),
        only_here=tuple(sorted(rows[0].row_index for key, rows in ours.items() if key not in theirs)),
        only_there=tuple(sorted(rows[0].row_index for key, rows in theirs.items() if key not in ours)),
        without_verdict=tuple(
            sorted(
                mine[0].row_index
                for (mine, _), (has_mine, has_other) in zip(both, passed, strict=True)
                if not (has_mine and has_other)
            )
        ),
    )


def compared_rows(
    here: Sequence[Measured], there: Sequence[Measured], *, criteria: int, by: int | None
) -> list[ComparedRow]:
    """The items that both have the value of, the largest change first.

    `criteria`: how many there are; `by`: the place of the one whose score is compared, None for passing.
    """
    value = passing if by is None else score_at(by)
    ours, theirs = _by_item(here), _by_item(there)
    found = [_compared(ours[key], theirs[key], value, criteria) for key in ours if key in theirs]
    rows = [row for row in found if row is not None]
    return sorted(rows, key=lambda row: (-abs(row.value - row.other_value), row.row_index))


def _of_criterion(
    both: Sequence[tuple[Sequence[Measured], Sequence[Measured]]], place: int, name: str
) -> CriterionComparison:
    scores = [(values_of(mine, score_at(place)), values_of(other, score_at(place))) for mine, other in both]
    differences = [mean_of(mine) - mean_of(other) for mine, other in scores if mine and other]
    return CriterionComparison(
        testing_criteria=name,
        score=_difference(scores),
        rows=len(differences),
        score_difference=mean_of(differences) if differences else None,
    )


def _compared(mine: Sequence[Measured], other: Sequence[Measured], value: Value, criteria: int) -> ComparedRow | None:
    ours, theirs = _mean(mine, value), _mean(other, value)
    if ours is None or theirs is None:
        return None
    return ComparedRow(
        row_index=mine[0].row_index,
        other_row_index=other[0].row_index,
        value=ours,
        other_value=theirs,
        passed=_mean(mine, passing),
        other_passed=_mean(other, passing),
        scores=tuple(_mean(mine, score_at(place)) for place in range(criteria)),
        other_scores=tuple(_mean(other, score_at(place)) for place in range(criteria)),
        change="better" if is_higher(ours, than=theirs) else "worse" if is_higher(theirs, than=ours) else "same",
    )


def _mean(items: Iterable[Measured], value: Value) -> float | None:
    values = values_of(items, value)
    return mean_of(values) if values else None


def _by_item(items: Iterable[Measured]) -> dict[tuple[str, int], list[Measured]]:
    """The samples of each item, by its content and by how often the run had it before."""
    rows: dict[int, list[Measured]] = {}
    for item in items:
        rows.setdefault(item.row_index, []).append(item)
    earlier: Counter[str] = Counter()
    found: dict[tuple[str, int], list[Measured]] = {}
    for _, samples in sorted(rows.items()):
        digest = samples[0].item_digest
        found[digest, earlier[digest]] = samples
        earlier[digest] += 1
    return found


def _difference(pairs: Sequence[tuple[list[float], list[float]]]) -> RewardDifference | None:
    return estimate_difference([other for _, other in pairs], [mine for mine, _ in pairs])
