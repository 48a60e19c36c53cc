"""Rows of `job_events`; runners write them, here they are read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, LiteralString, TypeAlias

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, dict_row

from rft.core.base import JsonObject, Record
from rft.core.events import StepDone
from rft.platform.lifecycle.events import events_list
from rft.platform.store.deleted_cursors import is_deleted_cursor
from rft.platform.store.stored_json import StoredJson

EventType: TypeAlias = Literal["message", "metrics"]

_EVENT: LiteralString = (
    "id, 'fine_tuning.job.event' as object, floor(extract(epoch from created_at))::bigint as created_at, level,"
    " message, data, type"
)
"""An `EventObject`, field by field."""
_PAGE: LiteralString = (
    "select " + _EVENT + " from job_events where job_id = %(job_id)s and (%(after)s::text is null"
    " or seq < coalesce((select seq from job_events where id = %(after)s and job_id = %(job_id)s),"
    " (select seq from deleted_cursors where id = %(after)s and list = %(list)s)))"
)
_AFTER: LiteralString = (
    "select e.id, e.seq, e.job_id, e.created_at, e.level, e.type, e.message, e.data, s.record"
    " from job_events e left join steps s on s.job_id = e.job_id and s.step = e.step and e.type = 'metrics'"
    " where e.job_id = %s and e.seq > %s order by e.seq limit %s"
)
_NEWEST: LiteralString = " order by seq desc limit %(limit)s"
_OF_CODES: LiteralString = " and type = 'message' and data->>'code' = any(%(codes)s)"
_OF_TYPE: dict[EventType, LiteralString] = {"message": " and type = 'message'", "metrics": " and type = 'metrics'"}
"""Written out, so that the planner sees that the index `job_events_messages` fits."""


@dataclass(frozen=True, slots=True)
class History:
    """How far a job's history goes."""

    version: str
    """Changes whenever events or steps are added or voided."""
    newest_seq: int
    """Of its events; 0 where there is none."""


class EventRow(Record):
    """One row."""

    id: str
    seq: int
    job_id: str
    created_at: datetime
    level: Literal["info", "warn", "error"]
    type: EventType
    message: str
    data: StoredJson | None


@dataclass(frozen=True, slots=True)
class EventWithStep:
    """An event, and the step that a metrics event stands for, if it is still there."""

    event: EventRow
    step: StepDone | None


class EventRepository:
    """Reads `job_events` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def page(
        self, job_id: str, type_: EventType | None, codes: Sequence[str], *, after: str | None, limit: int
    ) -> list[JsonObject]:
        """Up to `limit` events of a job as they go out, newest first; of one type, or with one of some codes."""
        wanted = ("" if type_ is None else _OF_TYPE[type_]) + (_OF_CODES if codes else "")
        query = _PAGE + wanted + _NEWEST
        async with self._connection.cursor(row_factory=dict_row) as cursor:
            place = {"job_id": job_id, "after": after, "list": events_list(job_id)}
            await cursor.execute(query, {**place, "limit": limit, "codes": list(codes)})
            return await cursor.fetchall()

    async def history(self, job_id: str) -> History | None:
        """How far it goes; None when there is no such job.

        Workers change them only with the number of the log's line they stand for, or by adding an event.
        """
        cursor = await self._connection.execute(
            "select launches, last_event_seq, coalesce((select max(seq) from job_events where job_id = jobs.id), 0)"
            " from jobs where id = %s",
            (job_id,),
        )
        row = await cursor.fetchone()
        return None if row is None else History(":".join(map(str, row)), newest_seq=row[2])

    async def after(self, job_id: str, seq: int, *, limit: int) -> list[EventWithStep]:
        """Up to `limit` events beyond `seq`, oldest first."""
        cursor = await self._connection.execute(_AFTER, (job_id, seq, limit))
        return [
            EventWithStep(
                EventRow.model_validate(dict(zip(EventRow.model_fields, columns, strict=True))),
                None if record is None else StepDone.model_validate(record),
            )
            for *columns, record in await cursor.fetchall()
        ]

    async def newest_seq(self, job_id: str) -> int:
        """Of a job's events; 0 where there is none."""
        cursor = await self._connection.execute(
            "select coalesce(max(seq), 0) from job_events where job_id = %s", (job_id,)
        )
        row = await cursor.fetchone()
        assert row is not None, "an aggregate has a row"
        return row[0]

    async def has_place(self, job_id: str, event_id: str) -> bool:
        """Whether a page can begin after this event of the job, which may be gone since its run stepped back."""
        cursor = await self._connection.execute(
            "select 1 from job_events where job_id = %s and id = %s", (job_id, event_id)
        )
        if await cursor.fetchone() is not None:
            return True
        return await is_deleted_cursor(self._connection, events_list(job_id), event_id)
