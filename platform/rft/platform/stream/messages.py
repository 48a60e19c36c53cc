"""What a stream has to say about a job: its object when it changed, and its new events and steps."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import LiteralString

from fastapi.sse import ServerSentEvent
from pydantic import BaseModel

from rft.core.events import StepDone
from rft.core.job import TERMINAL
from rft.platform.jobs.event_repository import EventRow
from rft.platform.jobs.objects import EventObject, to_job_object
from rft.platform.jobs.repository import JobRepository, JobRow
from rft.platform.rollouts.objects import StepObject
from rft.platform.settings import Settings
from rft.platform.store.database import Database

_PAGE = 200
_NEWS: LiteralString = (
    "select e.id, e.seq, e.job_id, e.created_at, e.level, e.type, e.message, e.data, s.step, s.record"
    " from job_events e left join steps s on s.job_id = e.job_id and s.step = e.step and e.type = 'metrics'"
    " where e.job_id = %s and e.seq > %s order by e.seq limit %s"
)


@dataclass(slots=True)
class JobStream:
    """One watcher's place in one job's history. Message ids are event sequence numbers, so they only grow."""

    database: Database
    settings: Settings
    job_id: str
    last_seq: int
    """What the watcher has seen already."""
    is_over: bool = False
    """The job has ended and all of it was told."""
    _told_job: str | None = None

    async def news(self) -> AsyncIterator[ServerSentEvent]:
        """Everything that is new. A running job's object comes before its events, an ended job's after them:
        whoever stops reading at the end has read all."""
        async with self.database.transaction() as connection:
            job = await JobRepository(connection).get(self.job_id)
        if job is None:
            self.is_over = True
            return
        has_ended = job.status in TERMINAL
        if not has_ended:
            for message in self._job(job):
                yield message
        async for message in self._events():
            yield message
        if has_ended:
            for message in self._job(job):
                yield message
            self.is_over = True

    def _job(self, job: JobRow) -> list[ServerSentEvent]:
        """The job's object, unless it was told like this before."""
        document = _json(to_job_object(job, self.settings))
        if document == self._told_job:
            return []
        self._told_job = document
        return [ServerSentEvent(event="job", raw_data=document, id=str(self.last_seq))]

    async def _events(self) -> AsyncIterator[ServerSentEvent]:
        while True:
            async with self.database.transaction() as connection:
                cursor = await connection.execute(_NEWS, (self.job_id, self.last_seq, _PAGE))
                rows = await cursor.fetchall()
            for *columns, step, record in rows:
                event = EventRow.model_validate(dict(zip(EventRow.model_fields, columns, strict=True)))
                self.last_seq = event.seq
                if record is not None:
                    # Without an id: a watcher cut off between the two messages gets both again.
                    yield ServerSentEvent(event="step", raw_data=_json(_step(event, step, record)))
                yield ServerSentEvent(event="event", raw_data=_json(_event(event)), id=str(event.seq))
            if len(rows) < _PAGE:
                return


def _step(event: EventRow, step: int, record: object) -> StepObject:
    created_at = int(event.created_at.timestamp())
    return StepObject(id=str(step), step=step, created_at=created_at, record=StepDone.model_validate(record))


def _event(row: EventRow) -> EventObject:
    return EventObject.model_validate(
        {**row.model_dump(exclude={"seq", "job_id"}), "created_at": int(row.created_at.timestamp())}
    )


def _json(body: BaseModel) -> str:
    return body.model_dump_json()
