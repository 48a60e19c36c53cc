"""A job's reward curve on a page, and what it sums up to."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from rft.platform.cli.answers import Answer
from rft.platform.cli.chart import DOT, Point, draw
from rft.platform.cli.formats import number, share
from rft.platform.cli.pages import facts

_LINES = 16
_WIDEST = 120
"""Where nobody says how wide the page is."""


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


@dataclass(frozen=True, slots=True)
class CurvesPage:
    """A job's reward curve, as wide as the page, and its sums."""

    curves: Answer

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Curve, then sums."""
        points = [
            Point(
                point.need("step", int),
                point.get("record.train.reward_mean", float),
                point.get("record.valid.reward_mean", float),
            )
            for point in self.curves.parts("data")
        ]
        yield reward_curve(points, min(options.max_width, _WIDEST), _LINES)
        yield Text()
        yield facts((name, value) for name, value in _sums(self.curves, points) if value is not None)


def _sums(curves: Answer, points: Sequence[Point]) -> list[tuple[str, str | None]]:
    steps, rollouts = curves.need("steps", int), curves.need("rollouts", int)
    left_out = curves.need("excluded", int) / rollouts if rollouts else None
    return [
        ("steps", f"{steps:,}" + (f", drawn: {len(points)}" if len(points) < steps else "")),
        ("training reward", _range([(point.step, point.train) for point in points if point.train is not None])),
        ("validation reward", _range([(point.step, point.valid) for point in points if point.valid is not None])),
        ("rollouts", f"{rollouts:,}, left out: {share(left_out)}"),
    ]


def _range(series: Sequence[tuple[int, float]]) -> str | None:
    """From where to where, and the best on the way; None where there is nothing."""
    if not series:
        return None
    best = max(series, key=lambda at: at[1])
    return f"{number(series[0][1])} -> {number(series[-1][1])}, best {number(best[1])} at step {best[0]}"
