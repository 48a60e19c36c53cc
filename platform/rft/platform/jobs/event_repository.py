"""Rows of `job_events`; runners write them, here they are read."""

from datetime import datetime
from typing import Literal, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.core.base import Record
from rft.platform.store.stored_json import StoredJson

_COLUMNS: LiteralString = "id, seq, job_id, created_at, level, type, message, data"
_PAGE: LiteralString = (
    "select " + _COLUMNS + " from job_events where job_id = %(job_id)s and (%(after)s::text is null"
    " or seq < (select seq from job_events where id = %(after)s and job_id = %(job_id)s))"
    " order by seq desc limit %(limit)s"
)


class EventRow(Record):
    """One row."""

    id: str
    seq: int
    job_id: str
    created_at: datetime
    level: Literal["info", "warn", "error"]
    type: Literal["message", "metrics"]
    message: str
    data: StoredJson | None


class EventRepository:
    """Reads `job_events` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def page(self, job_id: str, *, after: str | None, limit: int) -> list[EventRow]:
        """Up to `limit` events of a job, newest first."""
        async with self._connection.cursor(row_factory=class_row(EventRow)) as cursor:
            await cursor.execute(_PAGE, {"job_id": job_id, "after": after, "limit": limit})
            return await cursor.fetchall()

    async def history_version(self, job_id: str) -> str | None:
        """Changes whenever events or steps are added or voided; None when there is no such job.

        Workers change them only with the number of the log's line they stand for, or by adding an event.
        """
        cursor = await self._connection.execute(
            "select launches, last_event_seq, (select max(seq) from job_events where job_id = jobs.id)"
            " from jobs where id = %s",
            (job_id,),
        )
        row = await cursor.fetchone()
        return None if row is None else ":".join(map(str, row))

    async def exists(self, job_id: str, event_id: str) -> bool:
        """Whether this job has such an event."""
        cursor = await self._connection.execute(
            "select 1 from job_events where job_id = %s and id = %s", (job_id, event_id)
        )
        return await cursor.fetchone() is not None
