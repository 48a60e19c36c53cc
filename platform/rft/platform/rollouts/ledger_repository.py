"""Rows of `attempts`, the failure ledger; the worker writes them, here they are read."""

from datetime import datetime
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.core.base import Record
from rft.core.failure import FailureCode, Stage


class AttemptRow(Record):
    """One row."""

    id: int
    step: int
    trace_id: str
    stage: Stage
    endpoint: str
    call_id: str
    attempt: int
    code: FailureCode | None
    status: int | None
    latency_ms: float
    queued_ms: float
    sent_bytes: int
    received_bytes: int
    at: datetime


class HealthRow(Record):
    """All attempts at one endpoint in a window of steps, summed up."""

    stage: Stage
    endpoint: str
    attempts: int
    errors_by_code: dict[str, int]
    client_errors_by_status: dict[str, int]
    """4xx that count as answers."""
    latency_p50_ms: float
    latency_p95_ms: float
    queued_p95_ms: float
    last_failure: AttemptRow | None
    last_client_error: AttemptRow | None


class CalledRow(Record):
    """What the attempts at one endpoint took, in the mean."""

    stage: Stage
    endpoint: str
    attempts: int
    latency_s: float
    queued_s: float
    """Waited on our side before they were sent."""


class LedgerRepository:
    """Reads `attempts` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def of_rollout(
        self, job_id: str, trace_id: str, *, step: int | None, after: int | None, limit: int
    ) -> list[AttemptRow]:
        """Up to `limit` attempts of one rollout, in the order they ended; found at once where its step is known."""
        values = {"job_id": job_id, "trace_id": trace_id, "step": step, "after": after or 0, "limit": limit}
        query = _OF_ROLLOUT + ("" if step is None else _NEAR_ITS_STEP) + _IN_ORDER
        async with self._connection.cursor(row_factory=class_row(AttemptRow)) as cursor:
            await cursor.execute(query, values)
            return await cursor.fetchall()

    async def newest_step(self, job_id: str) -> int | None:
        """The latest step any attempt was made for."""
        cursor = await self._connection.execute("select max(step) from attempts where job_id = %s", (job_id,))
        row = await cursor.fetchone()
        return None if row is None else row[0]

    async def health(self, job_id: str, *, from_step: int, to_step: int) -> list[HealthRow]:
        """One row per endpoint that was called in these steps, tools first."""
        values = {"job_id": job_id, "from_step": from_step, "to_step": to_step}
        async with self._connection.cursor(row_factory=class_row(HealthRow)) as cursor:
            await cursor.execute(_HEALTH, values)
            return await cursor.fetchall()

    async def called(self, job_id: str, *, from_step: int, to_step: int) -> list[CalledRow]:
        """One row per endpoint that was called in these steps."""
        async with self._connection.cursor(row_factory=class_row(CalledRow)) as cursor:
            await cursor.execute(_CALLED, (job_id, from_step, to_step))
            return await cursor.fetchall()


_COLUMNS: LiteralString = (
    "id, step, trace_id, stage, endpoint, call_id, attempt, code, status, latency_ms, queued_ms, sent_bytes,"
    " received_bytes, at"
)
_OF_ROLLOUT: LiteralString = (
    "select " + _COLUMNS + " from attempts where job_id = %(job_id)s and trace_id = %(trace_id)s and id > %(after)s"
)
_NEAR_ITS_STEP: LiteralString = " and step between %(step)s and %(step)s + 20"
"""Attempts of callbacks may be recorded some steps later: a slow host is told of ends for minutes."""
_IN_ORDER: LiteralString = " order by id limit %(limit)s"
_CALLED: LiteralString = (
    "select stage, endpoint, count(*) as attempts, avg(latency_ms) / 1000 as latency_s,"
    " avg(queued_ms) / 1000 as queued_s from attempts where job_id = %s and step between %s and %s"
    " group by stage, endpoint order by stage, endpoint"
)
_HEALTH: LiteralString = (
    "with made as (select " + _COLUMNS + " from attempts"
    " where job_id = %(job_id)s and step between %(from_step)s and %(to_step)s),"
    " sums as (select stage, endpoint, count(*) as attempts,"
    " percentile_cont(0.5) within group (order by latency_ms) as latency_p50_ms,"
    " percentile_cont(0.95) within group (order by latency_ms) as latency_p95_ms,"
    " percentile_cont(0.95) within group (order by queued_ms) as queued_p95_ms from made group by stage, endpoint),"
    " codes as (select stage, endpoint, jsonb_object_agg(code, n) as by_code from"
    " (select stage, endpoint, code, count(*) as n from made where code is not null group by stage, endpoint, code)"
    " as counted group by stage, endpoint),"
    " client_errors as (select stage, endpoint, jsonb_object_agg(status, n) as by_status from"
    " (select stage, endpoint, status, count(*) as n from made where code is null and status between 400 and 499"
    " group by stage, endpoint, status) as counted group by stage, endpoint),"
    " latest_client_error as (select distinct on (stage, endpoint) stage, endpoint, to_jsonb(made) as attempt"
    " from made where code is null and status between 400 and 499 order by stage, endpoint, id desc),"
    " latest as (select distinct on (stage, endpoint) stage, endpoint, to_jsonb(made) as attempt"
    " from made where code is not null and code <> 'cancelled' order by stage, endpoint, id desc)"
    " select sums.*, coalesce(by_code, '{}') as errors_by_code, latest.attempt as last_failure,"
    " coalesce(by_status, '{}') as client_errors_by_status, latest_client_error.attempt as last_client_error"
    " from sums left join codes using (stage, endpoint) left join latest using (stage, endpoint)"
    " left join client_errors using (stage, endpoint) left join latest_client_error using (stage, endpoint)"
    " order by stage desc, endpoint"
)
