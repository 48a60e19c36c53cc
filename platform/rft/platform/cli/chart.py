"""The reward curve in characters: training as a braille line, validations as dots on it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import isfinite
from typing import NamedTuple, TypeAlias

from plotille import Canvas
from rich.console import Group, RenderableType
from rich.text import Text

from rft.platform.cli.answers import Answer
from rft.platform.cli.formats import number, share
from rft.platform.cli.job_resources import reward_of
from rft.platform.cli.pages import facts

DOT = "●"
_EMPTY_CELL = "\u2800"
_LEAST_WIDTH, _LEAST_HEIGHT = 16, 4
_LINES, _WIDEST = 16, 120
"""Of a page, whose height nobody knows, and sometimes not its width."""


class Point(NamedTuple):
    """Rewards at one step; None where there is none."""

    step: int
    train: float | None
    valid: float | None
    interval: tuple[float, float] | None = None
    """95 % interval of `valid`."""


class _Range(NamedTuple):
    """Values from `low` to `high`, over so many places."""

    low: float
    high: float
    places: int

    def place(self, value: float) -> int:
        """Nearest place, from 0."""
        # Halves: the whole span of two huge numbers would not be a number any more. That of two tiny ones is none.
        half_span = self.high / 2 - self.low / 2
        if half_span == 0.0:
            return (self.places - 1) // 2
        # Cut first: a mean of huge numbers may be beyond all numbers.
        along = min(1.0, max(0.0, (value / 2 - self.low / 2) / half_span))
        return round(along * (self.places - 1))

    def value(self, place: int) -> float:
        """What stands at a place."""
        along = place / max(1, self.places - 1)
        return self.low * (1 - along) + self.high * along


def draw(points: Sequence[Point], width: int, height: int) -> str:
    """`height` lines of up to `width` characters, axes included; empty where there is nothing to draw, or no room."""
    train = [(point.step, point.train) for point in points if point.train is not None and isfinite(point.train)]
    valid = [(point.step, point.valid) for point in points if point.valid is not None and isfinite(point.valid)]
    if not (train or valid) or width < _LEAST_WIDTH or height < _LEAST_HEIGHT:
        return ""
    rows = height - 2
    (first, last), (low, high) = ((min(these), max(these)) for these in zip(*train, *valid, strict=True))
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
    left, right = f"step {first}", "" if last == first else str(last)
    steps = left + right.rjust(columns - len(left)) if len(left) + len(right) < columns else (right or left)[-columns:]
    return "\n".join([*lines, f"{indent} └{'─' * columns}", f"{indent}  {steps}".rstrip()])


def _placed(series: Iterable[tuple[int, float]], across: _Range, up: _Range) -> list[tuple[int, int]]:
    """One spot per place across: the mean of what falls there."""
    found: dict[int, list[float]] = defaultdict(list)
    for step, value in series:
        found[across.place(step)].append(value)
    return [(x, up.place(sum(value / len(here) for value in here))) for x, here in sorted(found.items())]


def _labels(low: float, high: float, rows: int) -> list[str]:
    """A number at every other line, from the top, all of one length; where all are equal, one."""
    heights = _Range(low, high, rows)
    named = {heights.place(low)} if low == high else {0, *range(rows - 1, 0, -2)}
    values = [heights.value(row) if row in named else None for row in reversed(range(rows))]
    texts = ["" if value is None else f"{value:.2f}" if abs(value) < 1000 else f"{value:.2e}" for value in values]
    return [text.rjust(max(map(len, texts))) for text in texts]


def reward_curve(points: Sequence[Point], width: int, lines: int) -> RenderableType:
    """The curve and its legend."""
    curve = draw(points, width, lines)
    if not curve:
        has_rewards = any(point.train is not None or point.valid is not None for point in points)
        return Text("too narrow for the reward curve" if has_rewards else "no rewards yet", style="dim")
    chart = Text(curve, style="cyan", no_wrap=True)
    chart.highlight_words([DOT], "bold magenta")
    return Group(
        chart, Text.assemble(("⣀⠤⠒⠉", "cyan"), " training  ", (DOT, "bold magenta"), " validation", style="dim")
    )


def to_point(step: Answer) -> Point:
    """Of a step with its whole record."""
    return _point(step, reward_of(step, "train"), reward_of(step, "valid"), interval="reward_estimate.")


def _drawn_point(step: Answer) -> Point:
    """Of a step as the curves have it."""
    train, valid = (step.get(f"record.{split}.reward_mean", float) for split in ("train", "valid"))
    return _point(step, train, valid, interval="reward_")


def _point(step: Answer, train: float | None, valid: float | None, *, interval: str) -> Point:
    low, high = (step.get(f"record.valid.{interval}{end}", float) for end in ("low", "high"))
    return Point(step.need("step", int), train, valid, None if low is None or high is None else (low, high))


def curves_page(curves: Answer, width: int, best_step: int | None = None) -> RenderableType:
    """A job's reward curve, as wide as the page, and its sums. `best_step`: what the job has chosen, at its end."""
    points = [_drawn_point(point) for point in curves.parts("data")]
    steps, rollouts = curves.need("steps", int), curves.need("rollouts", int)
    left_out = curves.need("excluded", int) / rollouts if rollouts else None
    sums = {
        "steps": f"{steps:,}" + (f", drawn: {len(points)}" if len(points) < steps else ""),
        "training reward": _range([(point.step, point.train, None) for point in points if point.train is not None]),
        "validation reward": _range(
            [(point.step, point.valid, point.interval) for point in points if point.valid is not None], best_step
        ),
        "rollouts": f"{rollouts:,}, left out: {share(left_out)}",
    }
    named = facts((name, value) for name, value in sums.items() if value is not None)
    return Group(reward_curve(points, min(width, _WIDEST), _LINES), Text(), named)


_Place: TypeAlias = tuple[int, float, tuple[float, float] | None]


def _range(series: Sequence[_Place], best_step: int | None = None) -> str | None:
    """From where to where, and the best on the way, with their intervals; None where there is nothing."""
    if not series:
        return None
    best = [max(series, key=lambda at: at[1])] if best_step is None else [at for at in series if at[0] == best_step]
    told = f"{_reward(series[0])} -> {_reward(series[-1])}"
    return told + "".join(f", best {_reward(at)} at step {at[0]}" for at in best)


def _reward(at: _Place) -> str:
    _, value, interval = at
    return number(value) + ("" if interval is None else f" [{number(interval[0])}, {number(interval[1])}]")
