"""What a watcher sees: a live screen on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from rft.platform.cli.step_pages import reward_curve
from rft.platform.cli.views import Event
from rft.platform.cli.watching import Watched
from rft.platform.cli.words import clock, one_line

_COLOURS = {"warn": "yellow", "error": "red"}
_LATEST = 6
_CHART_LINES = 16
_OTHER_LINES = 6
"""Frame, status and the line that explains the curve."""


class Screen:
    """The watched job, drawn anew for every refresh in the size the terminal has then."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Chart, status, latest events."""
        with self._watched.lock:
            points, job = self._watched.points, self._watched.job
            status = self._watched.status_line(time.time())
            events = list(self._watched.events)[-_LATEST:]
        lines = max(4, min(_CHART_LINES, console.size.height - _OTHER_LINES - len(events)))
        curve = reward_curve(points, options.max_width - 4, lines)
        title = "" if job is None else f"{job.id}  {one_line(job.model, limit=60)}"
        yield Panel(curve, title=Text(title), title_align="left", border_style="dim")
        yield Text(one_line(status, limit=2000), style="bold")
        for event in events:
            yield to_text(event, no_wrap=True)


def to_text(event: Event, *, no_wrap: bool = False) -> Text:
    """One event on one line."""
    line = Text(f"{clock(event.created_at)}  ", style="dim", no_wrap=no_wrap, overflow="ellipsis")
    return line.append(one_line(event.message, limit=2000), style=_COLOURS.get(event.level, "default"))


def watch_on_terminal(followed: Iterable[Event | None], watched: Watched, console: Console) -> None:
    """Draw until the job is over; the last picture stays."""
    with Live(Screen(watched), console=console, refresh_per_second=4):
        for _ in followed:
            pass  # Hearing is all there is to do: the picture is drawn from a thread of its own.


def watch_in_lines(followed: Iterable[Event | None], watched: Watched, console: Console) -> None:
    """One line per event, and the state whenever it changes."""
    told: str | None = None

    def say(at: float, text: str) -> None:
        console.print(Text(f"{clock(at)}  {one_line(text, limit=2000)}"))

    for event in followed:
        if event is not None:
            say(event.created_at, f"{event.level:<5} {event.message}")
        state = watched.trouble or (watched.job.state if watched.job is not None else None)
        if state is not None and state != told:
            say(time.time(), f"state {state}")
            told = state
    console.print(Text(one_line(watched.status_line(time.time()), limit=2000)))
