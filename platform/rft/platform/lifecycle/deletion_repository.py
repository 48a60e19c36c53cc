"""Deleting a job, with every row that is of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.lifecycle.lease import EXPIRED

JOB_LIST = "jobs"
"""Where its place is remembered (`deleted_cursors`)."""
BULK_TABLES: tuple[LiteralString, ...] = (
    "attempts",
    "begun_rollouts",
    "rollout_terms",
    "rollout_tokens",
    "rollouts",
    "token_pieces",
    "token_prompts",
    "token_ratios",
)
"""Of rows that are written too often to be held against their job each time; all others go with the job's row."""


@dataclass(frozen=True, slots=True)
class DeletedJob:
    """What lies elsewhere of a job that is deleted."""

    result_files: Sequence[str]


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

    async def delete(self, job_id: str) -> DeletedJob | None:
        """A job that is over and that no worker has; None where it is not."""
        cursor = await self._connection.execute(_DELETE, {"id": job_id, "list": JOB_LIST})
        row = await cursor.fetchone()
        if row is None:
            return None
        for table in BULK_TABLES:
            await self._connection.execute("delete from " + table + " where job_id = %s", (job_id,))
        return DeletedJob(result_files=row[0])


_DELETE: LiteralString = (
    "with gone as (delete from jobs where id = %(id)s and status in ('succeeded', 'failed', 'cancelled') and "
    + EXPIRED
    + " returning id, created_at, result_files),"
    " remembered as (insert into deleted_cursors (id, list, created_at) select id, %(list)s, created_at from gone)"
    " select result_files from gone"
)
