"""Steps of a job and its curves, for people."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from rft.platform.cli.chart import DOT, Point, draw
from rft.platform.cli.pages import Fitted, add, facts, figure, table
from rft.platform.cli.rollout_views import CurvePoint, Curves, Step
from rft.platform.cli.words import NOTHING, duration, number, share

_LINES = 16
_WIDEST = 120
"""Where nobody says how wide the page is."""


def step_table(steps: Sequence[Step]) -> Fitted:
    """One step a line; the figures of its rollouts are those of training."""
    columns = ("step", "train reward", "validation reward", "rollouts", "left out", "tool calls", "tokens", "took")
    grid = table(*map(figure, columns))
    for step in steps:
        train, valid, timing = step.record.train, step.record.valid, step.record.timing
        add(
            grid,
            str(step.step),
            number(train and train.reward_mean),
            number(valid and valid.reward_mean),
            NOTHING if train is None else str(train.rollouts),
            Text(share(train and train.excluded_share), style="red" if train and train.excluded else ""),
            number(train and train.tool_calls_mean, 1),
            number(train and train.completion_tokens_mean, 0),
            NOTHING if timing is None else duration(timing.full_step_s),
        )
    return Fitted(grid, spare=("tokens", "rollouts", "took", "tool calls", "left out"))


def reward_curve(points: Sequence[Point], width: int, lines: int) -> RenderableType:
    """The curve and what its signs mean."""
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

    curves: Curves

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Curve, then sums."""
        points = [to_point(point) for point in self.curves.data]
        yield reward_curve(points, min(options.max_width, _WIDEST), _LINES)
        yield Text()
        yield facts(_sums(self.curves, points))


def to_point(point: CurvePoint) -> Point:
    """Its rewards."""
    train, valid = point.record.train, point.record.valid
    return Point(point.step, train and train.reward_mean, valid and valid.reward_mean)


def _sums(curves: Curves, points: Sequence[Point]) -> list[tuple[str, str | None]]:
    train = [(point.step, point.train) for point in points if point.train is not None]
    valid = [(point.step, point.valid) for point in points if point.valid is not None]
    left_out = curves.excluded / curves.rollouts if curves.rollouts else None
    return [
        ("steps", f"{curves.steps:,}" + (f", drawn: {len(points)}" if len(points) < curves.steps else "")),
        ("training reward", _course(train)),
        ("validation reward", _course(valid)),
        ("rollouts", f"{curves.rollouts:,}, left out: {share(left_out)}"),
    ]


def _course(series: Sequence[tuple[int, float]]) -> str | None:
    """From where to where, and the best on the way; None where there is nothing."""
    if not series:
        return None
    best = max(series, key=lambda at: at[1])
    return f"{number(series[0][1])} -> {number(series[-1][1])}, best {number(best[1])} at step {best[0]}"
