"""Rows of `providers`."""

from collections.abc import Mapping
from datetime import datetime
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import Jsonb

from rft.core.base import JsonObject, Record
from rft.platform.store.deleted_cursors import is_deleted_cursor

_COLUMNS: LiteralString = "id, name, created_at, updated_at, body, sealed"
_LIST = "provider"


class ProviderRow(Record):
    """One row."""

    id: str
    name: str
    created_at: datetime
    updated_at: datetime
    body: JsonObject
    """As it was registered, secrets redacted."""
    sealed: bytes
    """The whole body, encrypted."""


class ProviderRepository:
    """Reads and writes `providers` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def insert(self, provider_id: str, name: str, body: JsonObject, sealed: bytes) -> ProviderRow | None:
        """A new one; None where its name is taken."""
        values = {"id": provider_id, "name": name, "body": Jsonb(body), "sealed": sealed}
        return _only(await self._fetch(_INSERT, values))

    async def get(self, provider_id: str) -> ProviderRow | None:
        """One."""
        return _only(await self._fetch("select " + _COLUMNS + " from providers where id = %(id)s", {"id": provider_id}))

    async def named(self, name: str) -> ProviderRow | None:
        """The one of this name."""
        return _only(await self._fetch("select " + _COLUMNS + " from providers where name = %(name)s", {"name": name}))

    async def lock(self, provider_id: str) -> ProviderRow | None:
        """One, which nobody else changes until the caller's transaction ends."""
        query: LiteralString = "select " + _COLUMNS + " from providers where id = %(id)s for update"
        return _only(await self._fetch(query, {"id": provider_id}))

    async def has_place(self, provider_id: str) -> bool:
        """Whether a page can begin after this one, which may be deleted by now."""
        is_there = await self.get(provider_id) is not None
        return is_there or await is_deleted_cursor(self._connection, _LIST, provider_id)

    async def page(self, *, after: str | None, limit: int) -> list[ProviderRow]:
        """Up to `limit`, newest first."""
        return await self._fetch(_PAGE, {"after": after, "limit": limit})

    async def update(self, provider_id: str, name: str, body: JsonObject, sealed: bytes) -> ProviderRow:
        """Another body."""
        values = {"id": provider_id, "name": name, "body": Jsonb(body), "sealed": sealed}
        return (await self._fetch(_UPDATE, values))[0]

    async def delete(self, provider_id: str) -> bool:
        """False when there is none."""
        cursor = await self._connection.execute(
            "with gone as (delete from providers where id = %s returning id, created_at)"
            " insert into deleted_cursors (id, list, created_at) select id, 'provider', created_at from gone",
            (provider_id,),
        )
        return cursor.rowcount > 0

    async def _fetch(self, query: LiteralString, values: Mapping[str, object]) -> list[ProviderRow]:
        async with self._connection.cursor(row_factory=class_row(ProviderRow)) as cursor:
            await cursor.execute(query, values)
            return await cursor.fetchall()


def _only(rows: list[ProviderRow]) -> ProviderRow | None:
    return rows[0] if rows else None


_INSERT: LiteralString = (
    "insert into providers (id, name, body, sealed) values (%(id)s, %(name)s, %(body)s, %(sealed)s)"
    " on conflict (name) do nothing returning " + _COLUMNS
)
_UPDATE: LiteralString = (
    "update providers set name = %(name)s, body = %(body)s, sealed = %(sealed)s, updated_at = clock_timestamp()"
    " where id = %(id)s returning " + _COLUMNS
)
_PAGE: LiteralString = (
    "select " + _COLUMNS + " from providers where (%(after)s::text is null"
    " or (created_at, id) < (select created_at, id from providers where id = %(after)s"
    " union all select created_at, id from deleted_cursors where id = %(after)s))"
    " order by created_at desc, id desc limit %(limit)s"
)
