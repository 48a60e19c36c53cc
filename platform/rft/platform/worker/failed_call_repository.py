"""Rows of `failed_calls`: written as the log tells of them, the oldest of each endpoint given up."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.events import CallsFailed
from rft.platform.store.storable import storable_text
from rft.platform.worker.log_line import LogLine

KEPT = 20
"""Of each endpoint of a job."""


async def store_failed_calls(connection: AsyncConnection[TupleRow], job_id: str, lines: Sequence[LogLine]) -> None:
    """The calls that these lines tell of. Other events are left out."""
    calls = [call for line in lines if isinstance(line.event, CallsFailed) for call in line.event.calls]
    if not calls:
        return
    rows = [
        (
            job_id,
            call.stage,
            storable_text(call.endpoint),
            storable_text(call.trace_id),
            storable_text(call.call_id),
            call.attempt,
            call.code,
            call.status,
            datetime.fromtimestamp(call.at, UTC),
            None if call.message is None else storable_text(call.message),
            storable_text(call.request),
            None if call.reply is None else storable_text(call.reply),
        )
        for call in calls
    ]
    async with connection.cursor() as cursor:
        await cursor.executemany(_STORE, rows)
    for stage, endpoint in sorted({(row[1], row[2]) for row in rows}):
        await connection.execute(_GIVE_UP, {"job_id": job_id, "stage": stage, "endpoint": endpoint, "kept": KEPT})


_STORE: LiteralString = (
    "insert into failed_calls (job_id, stage, endpoint, trace_id, call_id, attempt, code, status, at, message, request,"
    " reply) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
_OF_ENDPOINT: LiteralString = (
    " from failed_calls where job_id = %(job_id)s and stage = %(stage)s and endpoint = %(endpoint)s"
)
_GIVE_UP: LiteralString = (
    "delete" + _OF_ENDPOINT + " and id <= (select id" + _OF_ENDPOINT + " order by id desc offset %(kept)s limit 1)"
)
