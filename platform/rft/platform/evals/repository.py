"""Rows of `evals`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import Jsonb

from rft.core.base import JsonObject, Record
from rft.platform.api.pagination import Order
from rft.platform.store.deleted_cursors import is_deleted_cursor
from rft.platform.store.stored_json import StoredJson

OrderBy = Literal["created_at", "updated_at"]
_COLUMNS: LiteralString = "id, created_at, updated_at, name, metadata, data_source_config, testing_criteria, sealed"
_LIST = "evals"


class EvalRow(Record):
    """One row."""

    id: str
    created_at: datetime
    updated_at: datetime
    name: str
    metadata: dict[str, str] | None
    data_source_config: StoredJson
    """As it is shown."""
    testing_criteria: list[StoredJson]
    """As they are shown: with ids, header values redacted."""
    sealed: bytes
    """The criteria with everything in them, encrypted."""


class EvalRepository:
    """Reads and writes `evals` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def insert(
        self,
        eval_id: str,
        *,
        name: str,
        metadata: dict[str, str] | None,
        data_source_config: JsonObject,
        testing_criteria: list[JsonObject],
        sealed: bytes,
    ) -> EvalRow:
        """A new one."""
        values = {
            "id": eval_id,
            "name": name,
            "metadata": None if metadata is None else Jsonb(metadata),
            "data_source_config": Jsonb(data_source_config),
            "testing_criteria": Jsonb(testing_criteria),
            "sealed": sealed,
        }
        return (await self._fetch(_INSERT, values))[0]

    async def get(self, eval_id: str) -> EvalRow | None:
        """One."""
        rows = await self._fetch("select " + _COLUMNS + " from evals where id = %(id)s", {"id": eval_id})
        return rows[0] if rows else None

    async def keep(self, eval_id: str) -> EvalRow | None:
        """One, which cannot be deleted before the caller's transaction ends."""
        query: LiteralString = "select " + _COLUMNS + " from evals where id = %(id)s for key share"
        rows = await self._fetch(query, {"id": eval_id})
        return rows[0] if rows else None

    async def has_place(self, eval_id: str) -> bool:
        """Whether a page can begin after this one, which may be deleted by now."""
        is_there = await self.get(eval_id) is not None
        return is_there or await is_deleted_cursor(self._connection, _LIST, eval_id)

    async def page(self, *, after: str | None, limit: int, order: Order, order_by: OrderBy) -> list[EvalRow]:
        """Up to `limit`."""
        return await self._fetch(_PAGES[order_by, order], {"after": after, "limit": limit})

    async def update(
        self, eval_id: str, *, name: str | None, metadata: dict[str, str] | None, has_metadata: bool
    ) -> EvalRow | None:
        """Another name, another metadata; None stays the name, and the metadata unless they are given."""
        values = {
            "id": eval_id,
            "name": name,
            "metadata": None if metadata is None else Jsonb(metadata),
            "has_metadata": has_metadata,
        }
        rows = await self._fetch(_UPDATE, values)
        return rows[0] if rows else None

    async def delete(self, eval_id: str) -> bool:
        """With all that hangs on it; False when there is none."""
        cursor = await self._connection.execute(_DELETE, (eval_id, _LIST))
        return cursor.rowcount > 0

    async def _fetch(self, query: LiteralString, values: Mapping[str, object]) -> list[EvalRow]:
        async with self._connection.cursor(row_factory=class_row(EvalRow)) as cursor:
            await cursor.execute(query, values)
            return await cursor.fetchall()


_INSERT: LiteralString = (
    "insert into evals (id, name, metadata, data_source_config, testing_criteria, sealed)"
    " values (%(id)s, %(name)s, %(metadata)s, %(data_source_config)s, %(testing_criteria)s, %(sealed)s)"
    " returning " + _COLUMNS
)
_UPDATE: LiteralString = (
    "update evals set name = coalesce(%(name)s, name),"
    " metadata = case when %(has_metadata)s then %(metadata)s::jsonb else metadata end,"
    " updated_at = clock_timestamp() where id = %(id)s returning " + _COLUMNS
)
_DELETE: LiteralString = (
    "with gone as (delete from evals where id = %s returning id, created_at, updated_at)"
    " insert into deleted_cursors (id, list, created_at, seq) select id, %s, created_at,"
    " extract(epoch from updated_at - created_at) * 1000000 from gone"
)
"""`seq`: by how many microseconds its place by change is behind the one by age."""
_SELECT: LiteralString = "select " + _COLUMNS + " from evals where %(after)s::text is null or "
_PLACE: LiteralString = (
    "(select created_at, id from evals where id = %(after)s"
    " union all select created_at, id from deleted_cursors where list = 'evals' and id = %(after)s)"
)
_CHANGED: LiteralString = (
    "(select updated_at, id from evals where id = %(after)s"
    " union all select created_at + seq * interval '1 microsecond', id from deleted_cursors"
    " where list = 'evals' and id = %(after)s)"
)
_PAGES: dict[tuple[OrderBy, Order], LiteralString] = {
    ("created_at", "asc"): _SELECT + "(created_at, id) > " + _PLACE + " order by created_at, id limit %(limit)s",
    ("created_at", "desc"): _SELECT
    + "(created_at, id) < "
    + _PLACE
    + " order by created_at desc, id desc limit %(limit)s",
    ("updated_at", "asc"): _SELECT + "(updated_at, id) > " + _CHANGED + " order by updated_at, id limit %(limit)s",
    ("updated_at", "desc"): _SELECT
    + "(updated_at, id) < "
    + _CHANGED
    + " order by updated_at desc, id desc limit %(limit)s",
}
