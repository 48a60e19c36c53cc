"""Rows of `steps` and `rollouts`; the worker writes them, here they are read."""

from datetime import datetime
from typing import Literal, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.core.base import Record
from rft.core.events import RolloutDone, StepDone
from rft.core.failure import Stage
from rft.core.rollout import Split

Outcome = Literal["graded", "failed"]


class StepRow(Record):
    """One row of `steps`."""

    step: int
    created_at: datetime
    record: StepDone


class RolloutRow(Record):
    """One row of `rollouts` without its record."""

    trace_id: str
    split: Split
    step: int
    epoch: int
    row_index: int
    group_index: int
    attempt: int
    policy_version: int
    reward: float | None
    failure_code: str | None
    failure_stage: Stage | None
    stop_reason: str | None
    tool_calls: int
    completion_tokens: int
    duration_s: float
    created_at: datetime


class RolloutFilter(Record):
    """Which rollouts of a job are wanted; None: all."""

    split: Split | None = None
    step: int | None = None
    row_index: int | None = None
    outcome: Outcome | None = None


class StepRepository:
    """Reads `steps` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def page(self, job_id: str, *, after: int | None, limit: int) -> list[StepRow]:
        """Up to `limit` steps of a job, oldest first."""
        async with self._connection.cursor(row_factory=class_row(StepRow)) as cursor:
            await cursor.execute(_STEPS, (job_id, -1 if after is None else after, limit))
            return await cursor.fetchall()


class RolloutRepository:
    """Reads `rollouts` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def page(self, job_id: str, wanted: RolloutFilter, *, after: str | None, limit: int) -> list[RolloutRow]:
        """Up to `limit` rollouts: newest step first, within a step by split, row, place in the group and attempt."""
        values = {**wanted.model_dump(), "job_id": job_id, "after": after, "limit": limit}
        async with self._connection.cursor(row_factory=class_row(RolloutRow)) as cursor:
            await cursor.execute(_PAGE, values)
            return await cursor.fetchall()

    async def get(self, job_id: str, trace_id: str) -> RolloutRow | None:
        """One rollout without its record."""
        async with self._connection.cursor(row_factory=class_row(RolloutRow)) as cursor:
            await cursor.execute(_ROLLOUT, (job_id, trace_id))
            return await cursor.fetchone()

    async def record(self, job_id: str, trace_id: str) -> RolloutDone | None:
        """All that the trainer reported of one rollout."""
        cursor = await self._connection.execute(
            "select record from rollouts where job_id = %s and trace_id = %s", (job_id, trace_id)
        )
        row = await cursor.fetchone()
        return None if row is None else RolloutDone.model_validate(row[0])


_COLUMNS: LiteralString = (
    "trace_id, split, step, epoch, row_index, group_index, attempt, policy_version, reward, failure_code,"
    " failure_stage, stop_reason, tool_calls, completion_tokens, duration_s, created_at"
)
_STEPS: LiteralString = (
    "select step, created_at, record from steps where job_id = %s and step > %s order by step limit %s"
)
_ROLLOUT: LiteralString = "select " + _COLUMNS + " from rollouts where job_id = %s and trace_id = %s"
_PAGE: LiteralString = (
    "with cursor as (select step, split, row_index, group_index, attempt, trace_id from rollouts"
    " where job_id = %(job_id)s and trace_id = %(after)s)"
    " select " + _COLUMNS + " from rollouts where job_id = %(job_id)s"
    " and (%(split)s::text is null or split = %(split)s)"
    " and (%(step)s::integer is null or step = %(step)s)"
    " and (%(row_index)s::integer is null or row_index = %(row_index)s)"
    " and (%(outcome)s::text is null or (reward is not null) = (%(outcome)s = 'graded'))"
    " and (%(after)s::text is null or step < (select step from cursor) or (step = (select step from cursor)"
    " and (split, row_index, group_index, attempt, trace_id)"
    " > (select split, row_index, group_index, attempt, trace_id from cursor)))"
    " order by step desc, split, row_index, group_index, attempt, trace_id limit %(limit)s"
)
