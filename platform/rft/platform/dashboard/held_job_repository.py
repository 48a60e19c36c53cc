"""Jobs that are held."""

from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row
from pydantic import BaseModel

from rft.platform.lifecycle.records import JobHold


class HeldJob(BaseModel):
    """A job that waits for something that is down."""

    id: str
    name: str | None
    hold: JobHold


class _Counted(HeldJob):
    count: int


async def held_jobs(connection: AsyncConnection[TupleRow], *, limit: int) -> tuple[list[HeldJob], int]:
    """The newest, and how many there are, beyond the limit, too."""
    async with connection.cursor(row_factory=class_row(_Counted)) as cursor:
        await cursor.execute(_HELD, {"limit": limit})
        rows = await cursor.fetchall()
    return [HeldJob(id=row.id, name=row.name, hold=row.hold) for row in rows], rows[0].count if rows else 0


_HELD: LiteralString = (
    "select id, suffix as name, hold, count(*) over () as count from jobs where hold is not null"
    " order by created_at desc, id limit %(limit)s"
)
