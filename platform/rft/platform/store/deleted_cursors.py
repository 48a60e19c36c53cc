"""Rows of `deleted_cursors`: where deleted objects stood in their lists, for those who delete page by page."""

from datetime import timedelta
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

REMEMBERED_FOR = timedelta(days=1)
"""Pages of a list are fetched at shorter intervals than this."""

MOVE_CURSOR: LiteralString = (
    " on conflict (id) do update set created_at = excluded.created_at, seq = excluded.seq,"
    " deleted_at = excluded.deleted_at"
)
"""Ends an insert of objects that come back under the same id, and may be deleted once more."""


async def is_deleted_cursor(connection: AsyncConnection[TupleRow], list_: str, id_: str) -> bool:
    """Whether such an object stood in this list not long ago."""
    cursor = await connection.execute("select 1 from deleted_cursors where list = %s and id = %s", (list_, id_))
    return await cursor.fetchone() is not None


async def forget_deleted_cursors(connection: AsyncConnection[TupleRow], *, limit: int) -> int:
    """Delete up to `limit` of those deleted long ago; returns how many."""
    cursor = await connection.execute(
        "delete from deleted_cursors where id in"
        " (select id from deleted_cursors where deleted_at < clock_timestamp() - %s"
        " order by deleted_at limit %s for update skip locked)",
        (REMEMBERED_FOR, limit),
    )
    return cursor.rowcount
