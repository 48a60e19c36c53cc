"""Rows of `departed`: where deleted objects stood in their lists, so that whoever deletes page by page gets on."""

from datetime import timedelta

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

REMEMBERED_FOR = timedelta(days=1)
"""Nobody turns a page for so long."""


async def has_departed(connection: AsyncConnection[TupleRow], list_: str, id_: str) -> bool:
    """Whether such an object stood in this list not long ago."""
    cursor = await connection.execute("select 1 from departed where list = %s and id = %s", (list_, id_))
    return await cursor.fetchone() is not None


async def forget_departed(connection: AsyncConnection[TupleRow], *, limit: int) -> int:
    """Forget up to `limit` of those that left long ago; returns how many."""
    cursor = await connection.execute(
        "delete from departed where id in (select id from departed where deleted_at < clock_timestamp() - %s"
        " order by deleted_at limit %s for update skip locked)",
        (REMEMBERED_FOR, limit),
    )
    return cursor.rowcount
