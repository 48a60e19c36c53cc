"""Deleting a job; every row that is of it goes with it by foreign keys and a trigger (`delete_bulk_rows`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.platform.lifecycle.lease import EXPIRED
from rft.platform.lifecycle.repository import OWN_ENDS_S

JOB_LIST = "jobs"
"""Where its place is remembered (`deleted_cursors`)."""


@dataclass(frozen=True, slots=True)
class DeletedJob:
    """What lies elsewhere of a job that is deleted."""

    result_files: Sequence[str]
    is_just_over: bool
    """The ends of its rollouts may be about to be told."""


class DeletionRepository:
    """Deletes rows inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def has_unfinished_regrade(self, job_id: str) -> bool:
        """Whether one of its regrades is under way."""
        cursor = await self._connection.execute(
            "select 1 from regrades where job_id = %s and finished_at is null limit 1", (job_id,)
        )
        return await cursor.fetchone() is not None

    async def eval_run_of(self, model: str, *, or_checkpoints: bool = False) -> str | None:
        """An unfinished run of an eval that samples from a model, or from one of its job's checkpoints."""
        cursor = await self._connection.execute(
            "select id from eval_runs where status in ('queued', 'in_progress')"
            " and (model = %(model)s or (%(or_checkpoints)s and starts_with(model, %(model)s || ':'))) limit 1",
            {"model": model, "or_checkpoints": or_checkpoints},
        )
        row = await cursor.fetchone()
        return None if row is None else row[0]

    async def delete(self, job_id: str) -> DeletedJob | None:
        """A job that is over and that no worker has; None where it is not."""
        values = {"id": job_id, "list": JOB_LIST, "own_s": OWN_ENDS_S}
        async with self._connection.cursor(row_factory=class_row(DeletedJob)) as cursor:
            await cursor.execute(_DELETE, values)
            return await cursor.fetchone()

    async def delete_permissions(self, final_model: str) -> None:
        """Permissions of a job's model and of its checkpoints, which are known by name."""
        await self._connection.execute(
            "delete from checkpoint_permissions where model = %(model)s or starts_with(model, %(model)s || ':')",
            {"model": final_model},
        )

    async def wait_for_files(self) -> None:
        """Large files take long to delete: this transaction may stand still meanwhile."""
        await self._connection.execute("set local idle_in_transaction_session_timeout = 0")


_DELETE: LiteralString = (
    "with gone as (delete from jobs where id = %(id)s and status in ('succeeded', 'failed', 'cancelled') and "
    + EXPIRED
    + " returning id, created_at, finished_at, result_files),"
    " remembered as (insert into deleted_cursors (id, list, created_at) select id, %(list)s, created_at from gone)"
    " select result_files,"
    " finished_at > clock_timestamp() - make_interval(secs => %(own_s)s) as is_just_over from gone"
)
