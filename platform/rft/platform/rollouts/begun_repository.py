"""Rows of `begun_rollouts`, read by id: conversations that are under way, or that count no more."""

from datetime import datetime
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row
from pydantic import Json

from rft.core.events import RolloutDone
from rft.platform.store.rollout_columns import KEY, RolloutKeyRow


class BegunRow(RolloutKeyRow):
    """One row, with what has become of it."""

    created_at: datetime
    is_abandoned: bool
    """False while its trainer may still carry it on."""
    superseded_by: str | None
    """The rollout that has its place now; None while there is none, or it is itself in that place."""
    record: Json[RolloutDone] | None
    """None: its end was not told."""


class BegunRepository:
    """Reads `begun_rollouts` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def get(self, job_id: str, trace_id: str) -> BegunRow | None:
        """One conversation that has no place in the job's rollouts."""
        async with self._connection.cursor(row_factory=class_row(BegunRow)) as cursor:
            await cursor.execute(_BEGUN, {"job_id": job_id, "trace_id": trace_id})
            return await cursor.fetchone()


_AT_ITS_PLACE: LiteralString = (
    " where job_id = begun.job_id and split = begun.split and step = begun.step and epoch = begun.epoch"
    " and row_index = begun.row_index and group_index = begun.group_index"
)
_BEGUN: LiteralString = (
    "select " + KEY + ", begun.created_at,"
    # A held job's trainer waits with its conversations; no other job that is not running has one.
    " is_void or not (jobs.status = 'running' or (jobs.status = 'paused' and jobs.hold is not null)) as is_abandoned,"
    " case when is_void then ("
    "select trace_id from ("
    "select trace_id, attempt from rollouts" + _AT_ITS_PLACE + " union all "
    "select trace_id, attempt from begun_rollouts" + _AT_ITS_PLACE + " and not is_void"
    ") as now_there order by attempt desc limit 1) end as superseded_by,"
    " record::text"
    " from begun_rollouts as begun join jobs on jobs.id = begun.job_id"
    " where begun.job_id = %(job_id)s and trace_id = %(trace_id)s"
)
