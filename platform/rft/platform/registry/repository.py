"""Rows of `registrations`, and which jobs use them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import Jsonb

from rft.core.base import JsonObject, Record
from rft.platform.store.deleted_cursors import is_deleted_cursor

Kind = Literal["tool", "grader"]
_COLUMNS: LiteralString = "id, kind, created_at, updated_at, body, sealed, last_test"


class LastTest(Record):
    """The last test call, for the health of what was tested."""

    at: float
    """Unix time in seconds."""
    is_ok: bool
    latency_s: float
    message: str | None = None
    """What went wrong."""


class Registration(Record):
    """One row."""

    id: str
    kind: Kind
    created_at: datetime
    updated_at: datetime
    body: JsonObject
    """As it was registered, header values redacted."""
    sealed: bytes
    """The whole body, encrypted."""
    last_test: LastTest | None


class Use(Record):
    """One job that calls a registered tool or grader."""

    registration_id: str
    endpoint: str
    """Its name in the job's ledger; a multi grader has one for each part."""


class Seen(Record):
    """What the ledger of the last job says of a registration."""

    registration_id: str
    attempts: int
    failures: int
    client_errors: int
    """4xx that count as answers."""
    last_seen: datetime
    last_failure: str | None
    """Code of the newest failure."""


class RegistrationRepository:
    """Reads and writes `registrations` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def insert(self, kind: Kind, registration_id: str, body: JsonObject, sealed: bytes) -> Registration:
        """A new one."""
        values = {"id": registration_id, "kind": kind, "body": Jsonb(body), "sealed": sealed}
        return (await self._fetch(_INSERT, values))[0]

    async def get(self, kind: Kind, registration_id: str) -> Registration | None:
        """One."""
        query: LiteralString = "select " + _COLUMNS + " from registrations where id = %(id)s and kind = %(kind)s"
        return _only(await self._fetch(query, {"id": registration_id, "kind": kind}))

    async def lock(self, kind: Kind, registration_id: str) -> Registration | None:
        """One, which nobody else changes until the caller's transaction ends."""
        query: LiteralString = (
            "select " + _COLUMNS + " from registrations where id = %(id)s and kind = %(kind)s for update"
        )
        return _only(await self._fetch(query, {"id": registration_id, "kind": kind}))

    async def has_place(self, kind: Kind, registration_id: str) -> bool:
        """Whether a page can begin after this one, which may be deleted by now."""
        is_there = await self.get(kind, registration_id) is not None
        return is_there or await is_deleted_cursor(self._connection, kind, registration_id)

    async def among(self, ids: Sequence[str]) -> dict[str, Registration]:
        """Those of these ids that exist, by id."""
        query: LiteralString = "select " + _COLUMNS + " from registrations where id = any(%(ids)s)"
        return {row.id: row for row in await self._fetch(query, {"ids": list(ids)})}

    async def newest_named(self, kind: Kind, names: Sequence[str]) -> dict[str, Registration]:
        """The newest registration of each of these names, where there is one."""
        query: LiteralString = (
            "select " + _COLUMNS + " from registrations where kind = %(kind)s and body->>'name' = any(%(names)s)"
            " order by created_at, id"
        )
        rows = await self._fetch(query, {"kind": kind, "names": list(names)})
        return {str(row.body["name"]): row for row in rows}

    async def page(self, kind: Kind, *, after: str | None, limit: int) -> list[Registration]:
        """Up to `limit`, newest first."""
        return await self._fetch(_PAGE, {"kind": kind, "after": after, "limit": limit})

    async def update(self, registration_id: str, body: JsonObject, sealed: bytes) -> Registration:
        """Another body; what was tested before was another one, too."""
        values = {"id": registration_id, "body": Jsonb(body), "sealed": sealed}
        return (await self._fetch(_UPDATE, values))[0]

    async def keep_test(self, registration_id: str, test: LastTest) -> None:
        """What the last test saw."""
        await self._connection.execute(
            "update registrations set last_test = %s where id = %s",
            (Jsonb(test.model_dump(mode="json")), registration_id),
        )

    async def delete(self, kind: Kind, registration_id: str) -> bool:
        """False when there is none. Jobs keep their copies."""
        cursor = await self._connection.execute(
            "with gone as (delete from registrations where id = %s and kind = %s returning id, kind, created_at)"
            " insert into deleted_cursors (id, list, created_at) select id, kind, created_at from gone",
            (registration_id, kind),
        )
        return cursor.rowcount > 0

    async def add_uses(self, job_id: str, uses: Iterable[Use]) -> None:
        """Remember what a new job was made of."""
        await self._connection.cursor().executemany(
            "insert into registration_uses (registration_id, job_id, endpoint) values (%s, %s, %s)"
            " on conflict do nothing",
            [(use.registration_id, job_id, use.endpoint) for use in uses],
        )

    async def forget_use(self, registration_id: str, job_id: str) -> None:
        """The job calls something else from now on."""
        await self._connection.execute(
            "delete from registration_uses where registration_id = %s and job_id = %s", (registration_id, job_id)
        )

    async def seen(self, kind: Kind, ids: Sequence[str]) -> dict[str, Seen]:
        """What the last job that called each of these has seen of it in its newest two steps."""
        async with self._connection.cursor(row_factory=class_row(Seen)) as cursor:
            await cursor.execute(_SEEN, {"ids": list(ids), "stage": kind})
            return {row.registration_id: row for row in await cursor.fetchall()}

    async def _fetch(self, query: LiteralString, values: Mapping[str, object]) -> list[Registration]:
        async with self._connection.cursor(row_factory=class_row(Registration)) as cursor:
            await cursor.execute(query, values)
            return await cursor.fetchall()


def _only(rows: list[Registration]) -> Registration | None:
    return rows[0] if rows else None


_INSERT: LiteralString = (
    "insert into registrations (id, kind, body, sealed) values (%(id)s, %(kind)s, %(body)s, %(sealed)s) returning "
    + _COLUMNS
)
_UPDATE: LiteralString = (
    "update registrations set body = %(body)s, sealed = %(sealed)s, updated_at = clock_timestamp(), last_test = null"
    " where id = %(id)s returning " + _COLUMNS
)
_PAGE: LiteralString = (
    "select " + _COLUMNS + " from registrations where kind = %(kind)s and (%(after)s::text is null"
    " or (created_at, id) < (select created_at, id from registrations where id = %(after)s"
    " union all select created_at, id from deleted_cursors where id = %(after)s))"
    " order by created_at desc, id desc limit %(limit)s"
)
_SEEN: LiteralString = (
    "select wanted.id as registration_id, calls.*"
    " from unnest(%(ids)s::text[]) as wanted (id)"
    " cross join lateral ("
    "  select uses.job_id, array_agg(uses.endpoint) as endpoints, coalesce(jobs.current_step, 0) as step"
    "  from registration_uses uses join jobs on jobs.id = uses.job_id"
    "  where uses.registration_id = wanted.id and jobs.started_at is not null"
    "  group by uses.job_id, jobs.id order by jobs.started_at desc limit 1"
    " ) as last"
    " cross join lateral ("
    "  select count(*) as attempts, count(code) as failures, max(at) as last_seen,"
    "  count(*) filter (where code is null and status between 400 and 499) as client_errors,"
    "  (array_agg(code order by id desc) filter (where code is not null))[1] as last_failure"
    "  from attempts where job_id = last.job_id and step >= last.step - 1"
    "  and endpoint = any(last.endpoints) and stage = %(stage)s and code is distinct from 'cancelled'"
    " ) as calls where calls.attempts > 0"
)
