"""Min-max downsampling of a job's curves: few enough steps to draw at once, and no extreme among those left out."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

FEWEST = 50
"""Points; with fewer there is no room for the extremes of all curves."""
CURVES = 6
_KEPT_WANTED = 8

Candidate = tuple[int, Sequence[float | None]]
"""A step and its value of each curve; None where nothing was measured."""


def downsample(
    candidates: Sequence[Candidate],
    validated: Sequence[int],
    wanted: Sequence[int],
    *,
    first: int,
    last: int,
    points: int,
) -> list[int]:
    """Up to `points` of the steps from `first` to `last`, in order; all of them where they are no more.

    Kept are both ends, the latest validation and the latest few that are `wanted`; then, for about half of the points,
    the lowest and highest of every curve among the candidates of each of some equal parts. The rest is spread evenly,
    a validated step standing for its neighbours.
    """
    if last - first < points:
        return list(range(first, last + 1))
    kept = {first, last, *validated[-1:], *wanted[-_KEPT_WANTED:]}
    parts = max(1, (points // 2 - len(kept)) // (2 * CURVES))
    by_part: defaultdict[int, list[Candidate]] = defaultdict(list)
    for step, values in candidates:
        by_part[(step - first) * parts // (last - first + 1)].append((step, values))
    for part in by_part.values():
        kept.update(_extremes(part))
    kept.update(_spread(validated, first=first, last=last, points=points - len(kept)))
    return sorted(kept)


def _extremes(part: Sequence[Candidate]) -> Iterator[int]:
    """Where each curve is lowest and highest. The later step wins ties."""
    for curve in range(len(part[0][1])):
        measured = [(value, step) for step, values in part if (value := values[curve]) is not None]
        if measured:
            yield max(measured)[1]
            yield max((-value, step) for value, step in measured)[1]


def _spread(validated: Sequence[int], *, first: int, last: int, points: int) -> Iterator[int]:
    """The last step of each of so many equal parts, or the last that was validated there."""
    length, before = last - first + 1, 0
    for part in range(1, points + 1):
        end = first + part * length // points - 1
        behind = bisect_right(validated, end, before)
        yield end if behind == before else validated[behind - 1]
        before = behind
