"""Rows of `orphaned_blobs`: bytes in the file store that belong to no file, because they are still coming in or no
longer needed. The row is there before the bytes and outlives them: no crash leaves bytes that nobody knows of."""

from datetime import timedelta

from psycopg import AsyncConnection
from psycopg.rows import TupleRow


class OrphanedBlobs:
    """Reads and writes `orphaned_blobs` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def add(self, storage_key: str, *, spare_for: timedelta = timedelta()) -> None:
        """These bytes are to be deleted, but not before this time has passed."""
        await self._connection.execute(
            "insert into orphaned_blobs (storage_key, due_at) values (%s, clock_timestamp() + %s)"
            " on conflict (storage_key) do nothing",
            (storage_key, spare_for),
        )

    async def spare(self, storage_key: str, spare_for: timedelta) -> bool:
        """They are still coming in: leave them for so long from now. False when they are deleted already."""
        cursor = await self._connection.execute(
            "update orphaned_blobs set due_at = clock_timestamp() + %s where storage_key = %s", (spare_for, storage_key)
        )
        return cursor.rowcount > 0

    async def forget(self, storage_key: str) -> bool:
        """They belong to a file now, or are deleted. False when somebody else has deleted them."""
        cursor = await self._connection.execute("delete from orphaned_blobs where storage_key = %s", (storage_key,))
        return cursor.rowcount > 0

    async def lock_due(self, *, limit: int) -> list[str]:
        """Keys of bytes to be deleted now that nobody else is deleting."""
        cursor = await self._connection.execute(
            "select storage_key from orphaned_blobs where due_at <= clock_timestamp()"
            " order by due_at limit %s for update skip locked",
            (limit,),
        )
        return [str(key) for (key,) in await cursor.fetchall()]
