"""The reward curve in characters: training as a braille line, validations as dots on it. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

DOT = "●"
_BRAILLE = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bit of a braille cell by row (of 4) and column (of 2)."""
_LEAST_WIDTH, _LEAST_HEIGHT = 16, 4


@dataclass(frozen=True, slots=True)
class Point:
    """Rewards at one step; None where there is none."""

    step: int
    train: float | None
    valid: float | None


@dataclass(frozen=True, slots=True)
class _Range:
    """Values from `low` to `high`, laid over `count` places."""

    low: float
    high: float
    count: int

    def place(self, value: float) -> int:
        """Nearest place, from 0."""
        # Halves: the whole span of two huge numbers would not be a number any more. That of two tiny ones is none.
        half_span = self.high / 2 - self.low / 2
        if half_span == 0.0:
            return (self.count - 1) // 2
        # Cut first: a mean of huge numbers may be beyond all numbers.
        along = min(1.0, max(0.0, (value / 2 - self.low / 2) / half_span))
        return round(along * (self.count - 1))

    def value(self, place: int) -> float:
        """What stands at a place."""
        along = place / max(1, self.count - 1)
        return self.low * (1 - along) + self.high * along


def draw(points: Sequence[Point], width: int, height: int) -> str:
    """`height` lines of up to `width` characters, axes included; empty where there is nothing to draw, or no room."""
    train = [(point.step, point.train) for point in points if point.train is not None and isfinite(point.train)]
    valid = [(point.step, point.valid) for point in points if point.valid is not None and isfinite(point.valid)]
    values = [value for _, value in (*train, *valid)]
    if not values or width < _LEAST_WIDTH or height < _LEAST_HEIGHT:
        return ""
    rows = height - 2
    labels = _labels(min(values), max(values), rows)
    columns = width - len(labels[0]) - 2
    if columns < 2:
        return ""
    steps = [step for step, _ in (*train, *valid)]
    cells = _line(train, steps, values, columns, rows)
    across, down = _Range(min(steps), max(steps), columns), _Range(min(values), max(values), rows)
    for column, value in _averaged(valid, across):
        cells[rows - 1 - down.place(value)][column] = DOT
    lines = [f"{label} ┤{''.join(row)}".rstrip() for label, row in zip(labels, cells, strict=True)]
    indent = " " * len(labels[0])
    return "\n".join(
        [*lines, f"{indent} └{'─' * columns}", f"{indent}  {_feet(min(steps), max(steps), columns)}".rstrip()]
    )


def _line(
    train: Sequence[tuple[int, float]], steps: Sequence[int], values: Sequence[float], columns: int, rows: int
) -> list[list[str]]:
    """Cells of the plot with the training line in them."""
    across, down = _Range(min(steps), max(steps), columns * 2), _Range(min(values), max(values), rows * 4)
    bits: dict[tuple[int, int], int] = defaultdict(int)
    spots = [(x, down.place(value)) for x, value in _averaged(train, across)]
    for x, y in _joined(spots):
        from_top = rows * 4 - 1 - y
        bits[from_top // 4, x // 2] |= _BITS[from_top % 4][x % 2]
    return [
        [chr(_BRAILLE + bits[row, column]) if (row, column) in bits else " " for column in range(columns)]
        for row in range(rows)
    ]


def _averaged(series: Iterable[tuple[int, float]], across: _Range) -> list[tuple[int, float]]:
    """One value per place: the mean of what falls there."""
    found: dict[int, list[float]] = defaultdict(list)
    for step, value in series:
        found[across.place(step)].append(value)
    return [(place, sum(value / len(here) for value in here)) for place, here in sorted(found.items())]


def _joined(spots: Sequence[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """The spots and straight lines between neighbours."""
    yield from spots[:1]
    for (x0, y0), (x1, y1) in pairwise(spots):
        length = max(x1 - x0, abs(y1 - y0))
        for part in range(1, length + 1):
            yield x0 + round((x1 - x0) * part / length), y0 + round((y1 - y0) * part / length)


def _labels(low: float, high: float, rows: int) -> list[str]:
    """A number at every other line, all of one length."""
    down = _Range(low, high, rows)
    named = [_short(down.value(rows - 1 - row)) if row % 2 == 0 or row == rows - 1 else "" for row in range(rows)]
    if low == high:
        named = ["" if row != rows - 1 - down.place(low) else _short(low) for row in range(rows)]
    longest = max(map(len, named))
    return [name.rjust(longest) for name in named]


def _short(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:.2e}"


def _feet(first: int, last: int, columns: int) -> str:
    """The first and the last step below the axis."""
    left, right = f"step {first}", "" if last == first else str(last)
    if len(left) + len(right) + 1 > columns:
        return (right or left)[-columns:]
    return left + right.rjust(columns - len(left))
