"""Which steps of a long course are shown: few enough to draw at once, and no peak among those left out."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

FEWEST = 50
"""Points; with fewer the peaks of even one stretch find no place."""
_PEAKS = 10
"""Of a stretch: as many as the lowest and the highest of its curves together, at most."""

_WANTED = 8

Values = Sequence[float | None]
Steps = Sequence[int | None]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some steps in a row: where its curves are lowest and highest, always the same curves in the same order.

    None where nothing was measured. The last curves may have no lowest: they count what is bad, and none is no peak.
    """

    lowest: Values
    lowest_at: Steps
    highest: Values
    highest_at: Steps


def thinned(
    stretches: Sequence[Stretch],
    validated: Sequence[int],
    wanted: Sequence[int],
    *,
    first: int,
    last: int,
    points: int,
) -> list[int]:
    """Up to `points` of the steps from `first` to `last`, in order; all of them where they are no more.

    Kept are both ends, the latest validation and the latest few that are `wanted`; then the lowest and highest of every
    curve in each of some equal parts of the course. What is left of the points is spread evenly, a validated step
    standing for its neighbours.
    """
    if last - first < points:
        return list(range(first, last + 1))
    kept = {first, last, *validated[-1:], *wanted[-_WANTED:]}
    parts = max(1, min(len(stretches), (points // 2 - len(kept)) // _PEAKS))
    for part in _parts(stretches, parts):
        kept.update(_peaks(part))
    kept.update(_spread(validated, first=first, last=last, points=points - len(kept)))
    return sorted(kept)


def _parts(stretches: Sequence[Stretch], parts: int) -> Iterator[Sequence[Stretch]]:
    for part in range(parts):
        yield stretches[part * len(stretches) // parts : (part + 1) * len(stretches) // parts]


def _peaks(part: Sequence[Stretch]) -> Iterator[int]:
    """Where the curves are lowest and highest; the later step wins ties. A flat curve has no peak."""
    highest = zip(*(zip(one.highest, one.highest_at, strict=True) for one in part), strict=True)
    lowest = zip(*(zip(one.lowest, one.lowest_at, strict=True) for one in part), strict=True)
    for highs, lows in zip_longest(highest, lowest):
        measured = [(value, at) for value, at in highs if value is not None]
        if not measured:
            continue
        high, high_at = max(measured)
        if lows is None:
            if high > 0:
                yield high_at
            continue
        opposite, low_at = max((-value, at) for value, at in lows if value is not None)
        if -opposite < high:
            yield low_at
            yield high_at


def _spread(validated: Sequence[int], *, first: int, last: int, points: int) -> Iterator[int]:
    """The last step of each of so many equal parts, or the last that was validated there."""
    length, before = last - first + 1, 0
    for part in range(1, points + 1):
        end = first + part * length // points - 1
        behind = bisect_right(validated, end, before)
        yield end if behind == before else validated[behind - 1]
        before = behind
