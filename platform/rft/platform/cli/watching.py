"""Following a job: what its stream told so far, and how a broken line is taken up again. Nothing is drawn here."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from rft.platform.cli.chart import Point
from rft.platform.cli.client import ConnectionLost, Sent
from rft.platform.cli.rollout_views import Split, Step
from rft.platform.cli.views import Event, Job
from rft.platform.cli.words import duration, share

EXIT_STATUS = {"succeeded": 0, "failed": 1, "cancelled": 2}
_LATEST = 500


class Streams(Protocol):
    """What can be followed."""

    def stream(self, path: str, last_id: str | None = None) -> Iterator[Sent]:
        """Messages after `last_id`; raises ConnectionLost when it is cut off."""
        ...


@dataclass(slots=True)
class Watched:
    """A job as far as it was told. Told twice is told once: a new line may repeat a little."""

    job: Job | None = None
    steps: dict[int, Point] = field(default_factory=dict[int, Point])
    last_splits: dict[str, Split] = field(default_factory=dict[str, Split])
    """The newest step's figures by split."""
    events: deque[Event] = field(default_factory=lambda: deque[Event](maxlen=_LATEST))
    trouble: str | None = None
    """Why nothing comes at the moment."""
    lock: Lock = field(default_factory=Lock)
    """For whoever draws while another thread hears."""
    _heard: set[str] = field(default_factory=set[str])
    _newest: int = -1

    def hear(self, message: Sent) -> Event | None:
        """Take one message in; the event, if it is a new one."""
        with self.lock:
            self.trouble = None
            return self._hear(message)

    def _hear(self, message: Sent) -> Event | None:
        match message.event:
            case "job":
                self.job = Job.model_validate_json(message.data)
            case "step":
                self._hear_step(Step.model_validate_json(message.data))
            case "event":
                event = Event.model_validate_json(message.data)
                if event.id not in self._heard:
                    self._heard.add(event.id)
                    self.events.append(event)
                    return event
            case _:
                pass
        return None

    @property
    def points(self) -> list[Point]:
        """The reward curve so far."""
        return [self.steps[step] for step in sorted(self.steps)]

    @property
    def exit_status(self) -> int | None:
        """Once the job is over."""
        return None if self.job is None else EXIT_STATUS.get(self.job.status)

    def status_line(self, now: float) -> str:
        """Where the job stands, in one line."""
        if self.job is None:
            return self.trouble or "connecting"
        job = self.job
        parts = [job.state]
        if job.total_steps is not None:
            parts.append(f"step {job.progress}")
        if job.status == "running" and job.estimated_finish is not None:
            parts.append(f"about {duration(max(0.0, job.estimated_finish - now))} to go")
        train = self.last_splits.get("train")
        if train is not None and train.rollouts:
            parts.append(f"excluded {share(train.excluded_share)}")
        if job.hold is not None:
            parts.append(job.hold.reason)
        if job.pause_reason is not None:
            parts.append(job.pause_reason.message)
        if job.wanted_slot is not None:
            parts.append(f"waits for {job.wanted_slot}")
        if job.error is not None:
            parts.append(job.error.message)
        if self.trouble is not None:
            parts.append(self.trouble)
        return " · ".join(parts)

    def _hear_step(self, step: Step) -> None:
        if step.step < self._newest:
            # A run that went back to a checkpoint tells its steps again: later ones are void.
            self.steps = {known: point for known, point in self.steps.items() if known < step.step}
        self._newest = step.step
        train, valid = step.record.train, step.record.valid
        self.steps[step.step] = Point(step.step, train and train.reward_mean, valid and valid.reward_mean)
        self.last_splits.update({name: split for name, split in (("train", train), ("valid", valid)) if split})


@dataclass(slots=True)
class Patience:
    """How long a lost line is tried again."""

    wait: Callable[[float], None]
    first_s: float = 0.5
    longest_s: float = 10.0
    tries: int = 40
    """In a row, without a message between them."""


def follow(
    client: Streams,
    path: str,
    watched: Watched,
    patience: Patience,
    echo: Callable[[Sent], None] | None = None,
) -> Iterator[Event | None]:
    """Hear the stream to the job's end, yielding after each message; `echo` gets them raw. Raises PlatformProblem.

    A line that breaks is taken up after the last message that was heard whole.
    """
    last_id: str | None = None
    failed, has_heard = 0, False
    while True:
        try:
            for message in client.stream(path, last_id):
                last_id, failed, has_heard = message.last_id, 0, True
                if echo is not None:
                    echo(message)
                yield watched.hear(message)
            if watched.exit_status is not None:
                return
            problem = ConnectionLost("the platform ended the stream")
        except ConnectionLost as lost:
            problem = lost
        failed += 1
        if failed > patience.tries or not has_heard:
            raise problem
        wait_s = min(patience.longest_s, patience.first_s * 2 ** (failed - 1))
        watched.trouble = f"{problem}; trying again"
        yield None
        patience.wait(wait_s)
