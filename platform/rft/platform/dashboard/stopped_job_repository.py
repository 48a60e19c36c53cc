"""Jobs that stand still and were not told to by their customer."""

from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row
from pydantic import BaseModel

from rft.platform.lifecycle.records import JobHold, PauseReason


class HeldJob(BaseModel):
    """A job that waits for something that is down."""

    id: str
    name: str | None
    hold: JobHold


class PlatformPausedJob(BaseModel):
    """A job that the platform paused, and that goes on once it is resumed."""

    id: str
    name: str | None
    pause_reason: PauseReason


class _CountedHeld(HeldJob):
    count: int


class _CountedPaused(PlatformPausedJob):
    count: int


async def held_jobs(connection: AsyncConnection[TupleRow], *, limit: int) -> tuple[list[HeldJob], int]:
    """The newest, and how many there are, beyond the limit, too."""
    async with connection.cursor(row_factory=class_row(_CountedHeld)) as cursor:
        await cursor.execute(_HELD, {"limit": limit})
        rows = await cursor.fetchall()
    return [HeldJob(id=row.id, name=row.name, hold=row.hold) for row in rows], rows[0].count if rows else 0


async def platform_paused_jobs(
    connection: AsyncConnection[TupleRow], *, limit: int
) -> tuple[list[PlatformPausedJob], int]:
    """The newest, and how many there are, beyond the limit, too."""
    async with connection.cursor(row_factory=class_row(_CountedPaused)) as cursor:
        await cursor.execute(_PLATFORM_PAUSED, {"limit": limit})
        rows = await cursor.fetchall()
    paused = [PlatformPausedJob(id=row.id, name=row.name, pause_reason=row.pause_reason) for row in rows]
    return paused, rows[0].count if rows else 0


_HELD: LiteralString = (
    "select id, suffix as name, hold, count(*) over () as count from jobs where hold is not null"
    " order by created_at desc, id limit %(limit)s"
)
_PLATFORM_PAUSED: LiteralString = (
    "select id, suffix as name, pause_reason, count(*) over () as count from jobs"
    " where pause_reason is not null and status = 'paused' order by created_at desc, id limit %(limit)s"
)
