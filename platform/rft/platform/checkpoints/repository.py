"""Rows of `checkpoints`; runners write them, here they are read and forgotten."""

from datetime import datetime
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.core.base import Record
from rft.platform.store.deleted_cursors import MOVE_CURSOR, is_deleted_cursor
from rft.platform.store.stored_json import StoredJson

_COLUMNS: LiteralString = "id, job_id, step, created_at, path, metrics, is_kept"


class CheckpointRow(Record):
    """One row."""

    id: str
    job_id: str
    step: int
    created_at: datetime
    path: str
    """Relative to the run directory."""
    metrics: StoredJson
    is_kept: bool
    """False: the adapter is no longer on disk."""


class CheckpointRepository:
    """Reads `checkpoints` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def page(self, job_id: str, *, after: str | None, limit: int) -> list[CheckpointRow]:
        """Up to `limit` kept checkpoints of a job, newest first."""
        place = {"job_id": job_id, "after": after, "list": _list_of(job_id)}
        return await self._fetch(_PAGE, {**place, "limit": limit})

    async def has_place(self, job_id: str, checkpoint_id: str) -> bool:
        """Whether a page can begin after this checkpoint of the job: kept, not kept, or gone since its run stepped
        back."""
        rows = await self._fetch(
            "select " + _COLUMNS + " from checkpoints where job_id = %(job_id)s and id = %(id)s",
            {"job_id": job_id, "id": checkpoint_id},
        )
        return bool(rows) or await is_deleted_cursor(self._connection, _list_of(job_id), checkpoint_id)

    async def forget_after(self, job_id: str, step: int) -> None:
        """The checkpoints of later steps count no more: the job's run goes on from `step`."""
        await self._connection.execute(_FORGET_AFTER, (job_id, step, _list_of(job_id)))

    async def kept(self) -> list[CheckpointRow]:
        """Kept checkpoints of all jobs, newest first."""
        return await self._fetch("select " + _COLUMNS + " from checkpoints where is_kept order by step desc", {})

    async def at_step(self, job_id: str, step: int) -> CheckpointRow | None:
        """The kept checkpoint of one step."""
        rows = await self._fetch(
            "select " + _COLUMNS + " from checkpoints where job_id = %(job_id)s and step = %(step)s and is_kept",
            {"job_id": job_id, "step": step},
        )
        return rows[0] if rows else None

    async def of_job(self, job_id: str) -> list[CheckpointRow]:
        """All checkpoints of a job, kept or not, oldest first."""
        query: LiteralString = "select " + _COLUMNS + " from checkpoints where job_id = %(job_id)s order by step"
        return await self._fetch(query, {"job_id": job_id})

    async def all_at_best_steps(self) -> list[CheckpointRow]:
        """The checkpoint, kept or not, of each job's best step."""
        query: LiteralString = (
            "select " + _COLUMNS + " from checkpoints"
            " where (job_id, step) in (select id, best_step from jobs where fine_tuned_model is not null)"
        )
        return await self._fetch(query, {})

    async def path_at_step(self, job_id: str, step: int) -> str | None:
        """Where the adapter of a step lies or lay, kept or not."""
        rows = await self._fetch(
            "select " + _COLUMNS + " from checkpoints where job_id = %(job_id)s and step = %(step)s",
            {"job_id": job_id, "step": step},
        )
        return rows[0].path if rows else None

    async def drop(self, checkpoint_id: str) -> None:
        """It is no longer offered."""
        await self._connection.execute("update checkpoints set is_kept = false where id = %s", (checkpoint_id,))

    async def _fetch(self, query: LiteralString, values: dict[str, object]) -> list[CheckpointRow]:
        async with self._connection.cursor(row_factory=class_row(CheckpointRow)) as cursor:
            await cursor.execute(query, values)
            return await cursor.fetchall()


def _list_of(job_id: str) -> str:
    return f"checkpoints of {job_id}"


_FORGET_AFTER: LiteralString = (
    "with gone as (delete from checkpoints where job_id = %s and step > %s returning id, created_at, step)"
    " insert into deleted_cursors (id, list, created_at, seq) select id, %s, created_at, step from gone" + MOVE_CURSOR
)
_PAGE: LiteralString = (
    "select " + _COLUMNS + " from checkpoints where job_id = %(job_id)s and is_kept"
    " and (%(after)s::text is null"
    " or step < coalesce((select step from checkpoints where id = %(after)s and job_id = %(job_id)s),"
    " (select seq from deleted_cursors where id = %(after)s and list = %(list)s)))"
    " order by step desc limit %(limit)s"
)
