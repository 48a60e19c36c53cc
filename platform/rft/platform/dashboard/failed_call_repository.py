"""Rows of `failed_calls`, read for who asks why calls of an endpoint go wrong."""

from datetime import datetime

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row
from pydantic import BaseModel

from rft.core.failure import FailureCode, Stage


class FailedCallRow(BaseModel):
    """One row."""

    at: datetime
    trace_id: str
    call_id: str
    attempt: int
    code: FailureCode | None
    status: int | None
    message: str | None
    request: str
    reply: str | None


async def failed_calls(
    connection: AsyncConnection[TupleRow], job_id: str, stage: Stage, endpoint: str
) -> list[FailedCallRow]:
    """Newest first."""
    async with connection.cursor(row_factory=class_row(FailedCallRow)) as cursor:
        await cursor.execute(
            "select at, trace_id, call_id, attempt, code, status, message, request, reply from failed_calls"
            " where job_id = %s and stage = %s and endpoint = %s order by id desc",
            (job_id, stage, endpoint),
        )
        return await cursor.fetchall()
