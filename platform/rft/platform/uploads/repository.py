"""Rows of `uploads` and `upload_parts`."""

from datetime import datetime, timedelta
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.core.base import Record
from rft.platform.files.schemas import UploadPurpose
from rft.platform.uploads.schemas import UploadStatus

LIVES_FOR = timedelta(hours=1)
"""As the contract has it."""
_REMEMBERED_FOR = timedelta(days=1)
_COLUMNS: LiteralString = (
    "id, case when status = 'pending' and expires_at <= clock_timestamp() then 'expired' else status end as status,"
    " filename, purpose, bytes, created_at, expires_at, expires_after_s, part_ids, file_id"
)


class UploadRow(Record):
    """One upload; one that is past its expiry is `expired`, swept or not."""

    id: str
    status: UploadStatus
    filename: str
    purpose: UploadPurpose
    bytes: int
    created_at: datetime
    expires_at: datetime
    expires_after_s: int | None
    part_ids: tuple[str, ...] | None
    """What it was completed with."""
    file_id: str | None


class PartRow(Record):
    """One part; its id is the key of its bytes."""

    id: str
    bytes: int
    created_at: datetime


class UploadRepository:
    """Reads and writes both tables inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def insert(
        self, *, id: str, filename: str, purpose: UploadPurpose, bytes: int, expires_after_s: int | None
    ) -> UploadRow:
        """A new one, pending."""
        async with self._connection.cursor(row_factory=class_row(UploadRow)) as cursor:
            await cursor.execute(
                "insert into uploads (id, status, filename, purpose, bytes, created_at, expires_at, expires_after_s)"
                " values (%s, 'pending', %s, %s, %s, clock_timestamp(), clock_timestamp() + %s, %s)"
                " returning " + _COLUMNS,
                (id, filename, purpose, bytes, LIVES_FOR, expires_after_s),
            )
            row = await cursor.fetchone()
        assert row is not None, "insert returning gives the row"
        return row

    async def get(self, upload_id: str) -> UploadRow | None:
        """One upload."""
        return await self._one("select " + _COLUMNS + " from uploads where id = %s", upload_id)

    async def lock(self, upload_id: str) -> UploadRow | None:
        """One upload, which nobody else changes until the caller's transaction ends."""
        return await self._one("select " + _COLUMNS + " from uploads where id = %s for update", upload_id)

    async def parts(self, upload_id: str) -> dict[str, PartRow]:
        """Its parts by id."""
        async with self._connection.cursor(row_factory=class_row(PartRow)) as cursor:
            await cursor.execute("select id, bytes, created_at from upload_parts where upload_id = %s", (upload_id,))
            return {part.id: part for part in await cursor.fetchall()}

    async def add_part(self, upload_id: str, *, id: str, bytes: int) -> PartRow:
        """A part whose bytes are stored."""
        async with self._connection.cursor(row_factory=class_row(PartRow)) as cursor:
            await cursor.execute(
                "insert into upload_parts (id, upload_id, bytes, created_at) values (%s, %s, %s, clock_timestamp())"
                " returning id, bytes, created_at",
                (id, upload_id, bytes),
            )
            row = await cursor.fetchone()
        assert row is not None, "insert returning gives the row"
        return row

    async def complete(self, upload_id: str, *, part_ids: list[str], file_id: str) -> list[str]:
        """It is completed with this file. Returns the keys of its parts' bytes, which are orphaned from now on."""
        await self._connection.execute(
            "update uploads set status = 'completed', part_ids = %s, file_id = %s where id = %s",
            (part_ids, file_id, upload_id),
        )
        return await self._free_parts([upload_id])

    async def cancel(self, upload_id: str) -> list[str]:
        """It is cancelled. Returns the keys of its parts' bytes, which are orphaned from now on."""
        await self._connection.execute("update uploads set status = 'cancelled' where id = %s", (upload_id,))
        return await self._free_parts([upload_id])

    async def expire(self, *, limit: int) -> int:
        """Free the parts of up to `limit` expired uploads; returns how many."""
        cursor = await self._connection.execute(
            "update uploads set status = 'expired' where id in (select id from uploads where status = 'pending'"
            " and expires_at <= clock_timestamp() order by expires_at limit %s for update skip locked) returning id",
            (limit,),
        )
        expired = [str(id_) for (id_,) in await cursor.fetchall()]
        await self._free_parts(expired)
        return len(expired)

    async def forget(self, *, limit: int) -> int:
        """Up to `limit` uploads that were over long ago; returns how many."""
        cursor = await self._connection.execute(
            "delete from uploads where id in (select id from uploads where status <> 'pending'"
            " and expires_at < clock_timestamp() - %s order by expires_at limit %s for update skip locked)",
            (_REMEMBERED_FOR, limit),
        )
        return cursor.rowcount

    async def _free_parts(self, upload_ids: list[str]) -> list[str]:
        cursor = await self._connection.execute(
            "with gone as (delete from upload_parts where upload_id = any(%s) returning id)"
            " insert into orphaned_blobs (storage_key, due_at) select id, clock_timestamp() from gone"
            " on conflict (storage_key) do nothing returning storage_key",
            (upload_ids,),
        )
        return [str(key) for (key,) in await cursor.fetchall()]

    async def _one(self, query: LiteralString, upload_id: str) -> UploadRow | None:
        async with self._connection.cursor(row_factory=class_row(UploadRow)) as cursor:
            await cursor.execute(query, (upload_id,))
            return await cursor.fetchone()
