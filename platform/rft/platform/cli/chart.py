"""The reward curve in characters: training as a braille line, validations as dots on it. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from plotille import Canvas

DOT = "●"
_EMPTY_CELL = "\u2800"
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
    both = [*train, *valid]
    if not both or width < _LEAST_WIDTH or height < _LEAST_HEIGHT:
        return ""
    rows = height - 2
    (first, last), (low, high) = ((min(these), max(these)) for these in zip(*both, strict=True))
    labels = _labels(low, high, rows)
    columns = width - len(labels[0]) - 2
    if columns < 2:
        return ""
    # A cell holds 2 x 4 dots; the canvas is told of dots.
    canvas = Canvas(columns, rows, xmax=columns * 2, ymax=rows * 4)
    dots = _placed(train, _Range(first, last, columns * 2), _Range(low, high, rows * 4))
    for (x0, y0), (x1, y1) in pairwise([*dots[:1], *dots]):
        canvas.line(x0, y0, x1, y1)
    for column, row in _placed(valid, _Range(first, last, columns), _Range(low, high, rows)):
        canvas.point(column * 2, row * 4, marker=DOT)
    cells = canvas.plot(linesep="\n").replace(_EMPTY_CELL, " ").split("\n")
    lines = [f"{label} ┤{row}".rstrip() for label, row in zip(labels, cells, strict=True)]
    indent = " " * len(labels[0])
    return "\n".join([*lines, f"{indent} └{'─' * columns}", f"{indent}  {_feet(first, last, columns)}".rstrip()])


def _placed(series: Iterable[tuple[int, float]], across: _Range, up: _Range) -> list[tuple[int, int]]:
    """One spot per place across: the mean of what falls there."""
    found: dict[int, list[float]] = defaultdict(list)
    for step, value in series:
        found[across.place(step)].append(value)
    return [(x, up.place(sum(value / len(here) for value in here))) for x, here in sorted(found.items())]


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
