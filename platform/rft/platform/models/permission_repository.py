"""Rows of `checkpoint_permissions`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.core.base import Record
from rft.platform.store.deleted_cursors import is_deleted_cursor

Order = Literal["ascending", "descending"]
_COLUMNS: LiteralString = "id, model, project_id, created_at"


class PermissionRow(Record):
    """One row."""

    id: str
    model: str
    """The checkpoint's name as a model."""
    project_id: str
    created_at: datetime


class PermissionRepository:
    """Reads and writes `checkpoint_permissions` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def add(self, id: str, *, model: str, project_id: str) -> None:
        """Allow it; fine when it is allowed already."""
        await self._connection.execute(
            "insert into checkpoint_permissions (id, model, project_id) values (%s, %s, %s)"
            " on conflict (model, project_id) do nothing",
            (id, model, project_id),
        )

    async def of_projects(self, model: str, project_ids: Sequence[str]) -> list[PermissionRow]:
        """The permissions of these projects, newest first."""
        query: LiteralString = (
            "select " + _COLUMNS + " from checkpoint_permissions"
            " where model = %(model)s and project_id = any(%(projects)s) order by seq desc"
        )
        return await self._fetch(query, {"model": model, "projects": list(project_ids)})

    async def page(
        self, model: str, *, after: str | None, limit: int, order: Order, project_id: str | None
    ) -> list[PermissionRow]:
        """Up to `limit` permissions of a checkpoint, by age."""
        query = _NEWEST_FIRST if order == "descending" else _OLDEST_FIRST
        return await self._fetch(query, {"model": model, "after": after, "limit": limit, "project_id": project_id})

    async def has_place(self, model: str, permission_id: str) -> bool:
        """Whether a page can begin after this permission of the checkpoint, which may be taken back by now."""
        query: LiteralString = (
            "select " + _COLUMNS + " from checkpoint_permissions where model = %(model)s and id = %(id)s"
        )
        if await self._fetch(query, {"model": model, "id": permission_id}):
            return True
        return await is_deleted_cursor(self._connection, _list_of(model), permission_id)

    async def delete(self, model: str, permission_id: str) -> bool:
        """False when there was no such permission."""
        cursor = await self._connection.execute(
            "with gone as ("
            "delete from checkpoint_permissions where model = %s and id = %s returning id, created_at, seq)"
            " insert into deleted_cursors (id, list, created_at, seq) select id, %s, created_at, seq from gone",
            (model, permission_id, _list_of(model)),
        )
        return cursor.rowcount > 0

    async def _fetch(self, query: LiteralString, values: Mapping[str, object]) -> list[PermissionRow]:
        async with self._connection.cursor(row_factory=class_row(PermissionRow)) as cursor:
            await cursor.execute(query, values)
            return await cursor.fetchall()


def _list_of(model: str) -> str:
    return f"permissions of {model}"


_PLACE: LiteralString = (
    "(select seq from checkpoint_permissions where id = %(after)s"
    " union all select seq from deleted_cursors where id = %(after)s)"
)
_PAGE: LiteralString = (
    "select " + _COLUMNS + " from checkpoint_permissions where model = %(model)s"
    " and (%(project_id)s::text is null or project_id = %(project_id)s)"
)
_NEWEST_FIRST: LiteralString = (
    _PAGE + " and (%(after)s::text is null or seq < " + _PLACE + ") order by seq desc limit %(limit)s"
)
_OLDEST_FIRST: LiteralString = (
    _PAGE + " and (%(after)s::text is null or seq > " + _PLACE + ") order by seq limit %(limit)s"
)
