"""Rows of `signing_secrets`."""

from datetime import datetime
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.core.base import Record
from rft.platform.store.advisory_locks import AdvisoryLock, lock

_COLUMNS: LiteralString = "id, sealed, created_at, retired_at"


class SigningSecretRow(Record):
    """One row."""

    id: str
    sealed: bytes
    created_at: datetime
    retired_at: datetime | None


class SigningSecretRepository:
    """Reads and writes `signing_secrets` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def lock(self) -> None:
        """Keep others from changing anything until the caller's transaction ends."""
        await lock(self._connection, AdvisoryLock.SIGNING_SECRETS)

    async def insert(self, secret_id: str, sealed: bytes) -> SigningSecretRow:
        """A new, active one."""
        query: LiteralString = "insert into signing_secrets (id, sealed) values (%(id)s, %(sealed)s) returning "
        return (await self._fetch(query + _COLUMNS, {"id": secret_id, "sealed": sealed}))[0]

    async def get(self, secret_id: str) -> SigningSecretRow | None:
        """One."""
        rows = await self._fetch("select " + _COLUMNS + " from signing_secrets where id = %(id)s", {"id": secret_id})
        return rows[0] if rows else None

    async def active(self) -> list[SigningSecretRow]:
        """Those that calls are signed with, newest first."""
        return await self._fetch(_ACTIVE, {})

    async def page(self, *, after: str | None, limit: int) -> list[SigningSecretRow]:
        """Up to `limit`, newest first, retired ones included."""
        return await self._fetch(_PAGE, {"after": after, "limit": limit})

    async def is_empty(self) -> bool:
        """Whether there never was one."""
        cursor = await self._connection.execute("select 1 from signing_secrets limit 1")
        return await cursor.fetchone() is None

    async def retire(self, secret_id: str) -> None:
        """Sign nothing with it any more."""
        await self._connection.execute(
            "update signing_secrets set retired_at = clock_timestamp() where id = %s and retired_at is null",
            (secret_id,),
        )

    async def _fetch(self, query: LiteralString, values: dict[str, object]) -> list[SigningSecretRow]:
        async with self._connection.cursor(row_factory=class_row(SigningSecretRow)) as cursor:
            await cursor.execute(query, values)
            return await cursor.fetchall()


_ACTIVE: LiteralString = (
    "select " + _COLUMNS + " from signing_secrets where retired_at is null order by created_at desc, id desc"
)
_PAGE: LiteralString = (
    "select " + _COLUMNS + " from signing_secrets where (%(after)s::text is null"
    " or (created_at, id) < (select created_at, id from signing_secrets where id = %(after)s))"
    " order by created_at desc, id desc limit %(limit)s"
)
