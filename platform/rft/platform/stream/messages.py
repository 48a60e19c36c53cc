"""What a stream has to say about a job: its object when it changed, and its new events and steps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fastapi.sse import format_sse_event
from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from pydantic import BaseModel

from rft.core.events import StepDone
from rft.core.job import TERMINAL
from rft.platform.jobs.event_repository import EventRepository, EventRow, EventWithStep
from rft.platform.jobs.objects import EventObject, to_job_object
from rft.platform.jobs.repository import JobRepository
from rft.platform.rollouts.objects import StepObject
from rft.platform.settings import Settings

_PAGE = 200


@dataclass(frozen=True, slots=True)
class Told:
    """One event as a stream says it: with its step before it, where it has one."""

    seq: int
    messages: bytes
    """As they are sent: the same for all who watch."""


@dataclass(frozen=True, slots=True)
class News:
    """A job as it is, and events in their order."""

    job: str | None
    """Its object as JSON; None: it does not exist any more."""
    has_ended: bool
    events: Sequence[Told]
    is_all: bool = True
    """No event beyond these was there when the job was read."""


async def read_news(connection: AsyncConnection[TupleRow], settings: Settings, job_id: str, *, after_seq: int) -> News:
    """The job and the next page of its events."""
    # The job comes first: an ended one writes no event any more, so these are its last.
    job = await JobRepository(connection).get(job_id)
    if job is None:
        return News(job=None, has_ended=True, events=())
    found = await EventRepository(connection).after(job_id, after_seq, limit=_PAGE)
    events = [_told(event) for event in found]
    document = to_job_object(job, settings).model_dump_json()
    return News(document, job.status in TERMINAL, events, is_all=len(events) < _PAGE)


@dataclass(slots=True)
class JobStream:
    """One watcher's place in one job's history. Message ids are event sequence numbers, so they only grow."""

    last_seq: int
    """What the watcher has seen already."""
    is_over: bool = False
    """The job has ended and all of it was told."""
    _told_job: str | None = None

    def tell(self, news: News) -> bytes:
        """All messages about what of it is new; empty where nothing is."""
        return b"".join(self._messages(news))

    def _messages(self, news: News) -> Iterator[bytes]:
        # A running job's object comes before its events, an ended job's after them: whoever stops reading at the end
        # has read all.
        if not news.has_ended:
            yield from self._job(news)
        for event in news.events:
            if event.seq > self.last_seq:
                self.last_seq = event.seq
                yield event.messages
        if news.has_ended and news.is_all:
            yield from self._job(news)
            self.is_over = True

    def _job(self, news: News) -> Iterator[bytes]:
        """The job's object, unless it was told like this before."""
        if news.job is not None and news.job != self._told_job:
            self._told_job = news.job
            yield format_sse_event(event="job", data_str=news.job, id=str(self.last_seq))


def _told(found: EventWithStep) -> Told:
    event = found.event
    said = format_sse_event(event="event", data_str=_json(_event(event)), id=str(event.seq))
    if found.step is None:
        return Told(event.seq, said)
    # Without an id: a watcher cut off between the two messages gets both again.
    return Told(event.seq, format_sse_event(event="step", data_str=_json(_step(event, found.step))) + said)


def _step(event: EventRow, record: StepDone) -> StepObject:
    created_at = int(event.created_at.timestamp())
    return StepObject(id=str(record.step), step=record.step, created_at=created_at, record=record)


def _event(row: EventRow) -> EventObject:
    return EventObject.model_validate(
        {**row.model_dump(exclude={"seq", "job_id"}), "created_at": int(row.created_at.timestamp())}
    )


def _json(body: BaseModel) -> str:
    return body.model_dump_json()
