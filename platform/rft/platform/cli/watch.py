"""`rft jobs watch`: following a job's stream over connections that break, on a live screen or in plain lines."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

import typer
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from rft.platform.cli.answers import Answer, NotUnderstood
from rft.platform.cli.chart import Point, reward_curve, to_point
from rft.platform.cli.client import ConnectionLost, Sent, json_object
from rft.platform.cli.formats import clock, date, duration, one_line, share
from rft.platform.cli.job_resources import job_progress, job_state, wanted_slot

if TYPE_CHECKING:
    from rft.platform.cli.session import Session

_EXIT_STATUS = {"succeeded": 0, "failed": 1, "cancelled": 2}
_COLOURS = {"warn": "yellow", "error": "red"}
_EVENTS_SHOWN = 6
_CHART_LINES = 16
_OTHER_LINES = 6
"""Frame, status and the line that explains the curve."""
_LIMIT = 2000


Stream = Callable[[str | None], Iterator[Sent]]
"""Messages after an id; raises ConnectionLost when it is cut off."""


@dataclass(slots=True)
class Watched:
    """A job as far as it was told. Told twice is told once: a new connection may repeat a little."""

    job: Answer | None = None
    points: list[Point] = field(default_factory=list[Point])
    """The reward curve so far."""
    excluded_share: float | None = None
    """Of the newest step's training rollouts."""
    events: deque[Answer] = field(default_factory=lambda: deque[Answer](maxlen=_EVENTS_SHOWN))
    """The newest."""
    trouble: str | None = None
    """Why nothing comes at the moment."""
    lock: Lock = field(default_factory=Lock)
    """For whoever draws while another thread receives."""
    _known_events: set[str] = field(default_factory=set[str])

    def apply(self, message: Sent) -> Answer | None:
        """Take one message in; the event, if it is a new one. Raises NotUnderstood."""
        with self.lock:
            self.trouble = None
            if message.event == "job":
                self._apply_job(to_answer(message))
            elif message.event == "step":
                self._apply_step(to_answer(message))
            elif message.event == "event":
                event = to_answer(message)
                event_line(event)
                if (event_id := event.need("id", str)) not in self._known_events:
                    self._known_events.add(event_id)
                    self.events.append(event)
                    return event
            return None

    @property
    def exit_status(self) -> int | None:
        """Once the job is over."""
        return None if self.job is None else _EXIT_STATUS.get(self.job.need("status", str))

    def status_line(self, now: float) -> str:
        """Where the job stands, in one line."""
        if self.job is None:
            return self.trouble or "connecting"
        job, finish_s = self.job, self.job.get("estimated_finish", float)
        is_running = job.need("status", str) == "running"
        parts = [
            job_state(job),
            (progress := job_progress(job)) and f"step {progress}",
            f"about {duration(max(0.0, finish_s - now))} to go" if is_running and finish_s is not None else None,
            job.get("progress.message", str),
            None if self.excluded_share is None else f"excluded {share(self.excluded_share)}",
            job.get("hold.reason", str),
            job.get("pause_reason.message", str),
            (slot := wanted_slot(job)) and f"waits for {slot}",
            job.get("error.message", str),
            self.trouble,
        ]
        return " · ".join(part for part in parts if part is not None)

    def _apply_job(self, job: Answer) -> None:
        """Read all that is shown of it before it is kept: an exception while drawing could not be reported."""
        before, self.job = self.job, job
        try:
            self.status_line(0.0)
            job_title(job)
        except NotUnderstood:
            self.job = before
            raise

    def _apply_step(self, step: Answer) -> None:
        point = to_point(step)
        while self.points and self.points[-1].step >= point.step:
            self.points.pop()  # A run that went back to a checkpoint tells its steps again: later ones are void.
        self.points.append(point)
        rollouts = step.get("record.train.rollouts", int)
        if rollouts is not None:
            self.excluded_share = step.need("record.train.excluded_share", float) if rollouts else None


def to_answer(message: Sent) -> Answer:
    """The object that a message carries. Raises NotUnderstood."""
    raw = json_object(message.data)
    if raw is None:
        raise NotUnderstood(message.event)
    return Answer(raw)


def follow(
    stream: Stream,
    watched: Watched,
    *,
    echo: Callable[[Sent], None] = lambda _: None,
    wait: Callable[[float], None] = time.sleep,
    first_s: float = 0.5,
    longest_s: float = 10.0,
    tries: int = 40,
) -> Iterator[Answer | None]:
    """Receive the stream to the job's end, yielding after each message; `echo` gets them raw. Raises PlatformProblem.

    A connection that breaks is taken up after the last message that came whole, with up to so many `tries` in a row.
    """
    last_id: str | None = None
    failed, was_connected = 0, False
    while True:
        try:
            for message in stream(last_id):
                last_id, failed, was_connected = message.last_id, 0, True
                echo(message)
                yield watched.apply(message)
            if watched.exit_status is not None:
                return
            problem = ConnectionLost("the platform ended the stream")
        except ConnectionLost as lost:
            problem = lost
        failed += 1
        if failed > tries or not was_connected:
            raise problem
        watched.trouble = f"{problem}; trying again"
        yield None
        wait(min(longest_s, first_s * 2 ** (failed - 1)))


def watch(here: "Session", job_id: str, path: str) -> None:
    """Follow a job to its end and exit with its status; Ctrl-C ends the watching with status 130."""
    watched = Watched()

    def echo(message: Sent) -> None:
        if here.as_json:
            here.print_json({"event": message.event, "data": to_answer(message).raw}, indent=None)

    followed = follow(partial(here.client.stream, path), watched, echo=echo)
    try:
        if here.as_json:
            deque(followed, maxlen=0)
        elif here.out.is_terminal:
            with Live(Screen(watched), console=here.out, refresh_per_second=4):
                deque(followed, maxlen=0)  # Receiving is all there is to do: the picture is drawn from another thread.
        else:
            watch_in_lines(followed, watched, here.out)
    except KeyboardInterrupt:
        typer.echo(f"\nno longer watching; `rft jobs watch {job_id}` watches again", err=True)
        raise typer.Exit(130) from None
    raise typer.Exit(1 if watched.exit_status is None else watched.exit_status)


class Screen:
    """The watched job, drawn anew for every refresh in the size the terminal has then."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Chart, status, latest events."""
        with self._watched.lock:
            points, job = self._watched.points, self._watched.job
            status = self._watched.status_line(time.time())
            events = list(self._watched.events)
        lines = max(4, min(_CHART_LINES, console.size.height - _OTHER_LINES - len(events)))
        curve = reward_curve(points, options.max_width - 4, lines)
        yield Panel(curve, title=job_title(job), title_align="left", border_style="dim")
        yield Text(one_line(status, limit=_LIMIT), style="bold")
        for event in events:
            line = event_line(event)
            line.no_wrap, line.overflow = True, "ellipsis"
            yield line


def watch_in_lines(followed: Iterable[Answer | None], watched: Watched, console: Console) -> None:
    """One line per event, and the state whenever it changes."""
    told: str | None = None

    def say(at: float, text: str) -> None:
        console.print(Text(f"{clock(at)}  {one_line(text, limit=_LIMIT)}"))

    for event in followed:
        if event is not None:
            say(event.need("created_at", float), f"{event.need('level', str):<5} {event.need('message', str)}")
        state = watched.trouble or (job_state(watched.job) if watched.job is not None else None)
        if state is not None and state != told:
            say(time.time(), f"state {state}")
            told = state
    console.print(Text(one_line(watched.status_line(time.time()), limit=_LIMIT)))


def job_title(job: Answer | None) -> Text:
    """Which job it is, and of which model."""
    return Text("" if job is None else f"{job.need('id', str)}  {one_line(job.need('model', str), limit=60)}")


def event_line(event: Answer, say: Callable[[float], str] = clock) -> Text:
    """One event on one line, its time as `say` puts it."""
    line = Text(f"{say(event.need('created_at', float))}  ", style="dim")
    style = _COLOURS.get(event.need("level", str), "default")
    return line.append(one_line(event.need("message", str), limit=_LIMIT), style=style)


def event_lines(events: Sequence[Answer]) -> RenderableType:
    """Events as they happened: the newest at the bottom, as a log has it."""
    in_order = sorted(reversed(events), key=lambda event: event.need("created_at", float))
    return Group(*(event_line(event, date) for event in in_order))
