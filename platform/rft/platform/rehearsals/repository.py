"""Rows of `rehearsals`. One rehearsal runs at a time: two at once would measure each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, LiteralString, TypeAlias

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import Jsonb

from rft.core.base import JsonObject, Record
from rft.platform.lifecycle.lease import GIVE_BACK, GIVEN_UP, TAKE, UNLOCKED, Lease, LeasedTable, occupants
from rft.platform.lifecycle.records import JobError
from rft.platform.store.advisory_locks import AdvisoryLock, lock
from rft.platform.store.storable import storable_json
from rft.rollouts.rehearsal_report import RehearsalPlan, RehearsalReport

RehearsalStatus: TypeAlias = Literal["queued", "running", "completed", "failed", "cancelled"]

_COLUMNS: LiteralString = (
    "id, status, is_cancel_requested, created_at, started_at, finished_at, model, training_file, method, secrets, seed,"
    " plan, report, error"
)


REHEARSALS = LeasedTable(
    "rehearsals",
    standing=("running",),
    occupying=("running",),
    requests="case when is_cancel_requested then 'cancel' end, 0",
)


class NewRehearsal(Record):
    """An order that passed every check."""

    id: str
    model: str
    training_file: str
    method: JsonObject
    """As the customer wrote it, header values redacted."""
    secrets: bytes | None
    """Sealed RunSecrets; None once it is over."""
    seed: int
    plan: RehearsalPlan


class RehearsalRow(NewRehearsal):
    """One row, but for the lease."""

    status: RehearsalStatus
    is_cancel_requested: bool
    """Its worker is asked to break it off."""
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    report: RehearsalReport | None
    error: JobError | None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a rehearsal that ran ends."""

    status: Literal["completed", "failed", "cancelled"]
    report: RehearsalReport | None = None
    """Exactly when completed."""
    error: JobError | None = None
    """Exactly when failed."""


class RehearsalRepository:
    """Reads and writes `rehearsals` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def insert(self, rehearsal: NewRehearsal) -> RehearsalRow:
        """A new one, queued."""
        values = rehearsal.model_dump() | {
            "method": Jsonb(rehearsal.method),
            "plan": Jsonb(rehearsal.plan.model_dump(mode="json")),
        }
        return (await self._fetch(_INSERT, values))[0]

    async def get(self, rehearsal_id: str) -> RehearsalRow | None:
        """One."""
        rows = await self._fetch("select " + _COLUMNS + " from rehearsals where id = %(id)s", {"id": rehearsal_id})
        return rows[0] if rows else None

    async def page(self, *, after: str | None, limit: int) -> list[RehearsalRow]:
        """Up to `limit`, newest first."""
        return await self._fetch(_PAGE, {"after": after, "limit": limit})

    async def take(self, rehearsal_id: str, *, owner: str, ttl_s: float) -> tuple[RehearsalRow, Lease] | None:
        """The queued rehearsal, running now, and its lease; None when it is not to be run, or another one runs."""
        await lock(self._connection, AdvisoryLock.REHEARSALS)
        if await occupants(self._connection, REHEARSALS, besides=rehearsal_id):
            return None
        cursor = await self._connection.execute(_TAKE, {"id": rehearsal_id, "owner": owner, "ttl_s": ttl_s})
        taken, row = await cursor.fetchone(), await self.get(rehearsal_id)
        if taken is None or row is None:
            return None
        return row, Lease(REHEARSALS, rehearsal_id, taken[0], owner)

    async def cancel(self, rehearsal_id: str) -> bool:
        """Cancel it, or ask its worker to; False when it is over, or there is none."""
        cursor = await self._connection.execute(_CANCEL, {"id": rehearsal_id})
        return cursor.rowcount > 0

    async def end(self, lease: Lease, ended: Ended) -> None:
        """Write what came of it, unless the lease is no longer ours."""
        values = {
            "status": ended.status,
            "report": None if ended.report is None else storable_json(ended.report.model_dump_json()),
            "error": None if ended.error is None else storable_json(ended.error.model_dump_json()),
        }
        await self._connection.execute(_END, {"id": lease.id, "token": lease.token} | values)

    async def end_expired(self, error: JobError, silent: Sequence[str]) -> None:
        """End those whose worker is gone: cancelled where their customer asked for it, else failed with `error`.

        `silent`: those whose worker had its time to renew its lease.
        """
        values = {"error": Jsonb(error.model_dump(mode="json")), "silent": list(silent)}
        await self._connection.execute(_END_EXPIRED, values)

    async def unanswered(self, *, after_s: float) -> list[str]:
        """The one whose turn it is, if none runs and its message was not answered for so long; sent again as of now."""
        cursor = await self._connection.execute(_UNANSWERED, (after_s,))
        return [row[0] for row in await cursor.fetchall()]

    async def _fetch(self, query: LiteralString, values: Mapping[str, object]) -> list[RehearsalRow]:
        async with self._connection.cursor(row_factory=class_row(RehearsalRow)) as cursor:
            await cursor.execute(query, values)
            return await cursor.fetchall()


_INSERT: LiteralString = (
    "insert into rehearsals (id, status, model, training_file, method, secrets, seed, plan)"
    " values (%(id)s, 'queued', %(model)s, %(training_file)s, %(method)s, %(secrets)s, %(seed)s, %(plan)s)"
    " returning " + _COLUMNS
)
_PAGE: LiteralString = (
    "select " + _COLUMNS + " from rehearsals where (%(after)s::text is null"
    " or (created_at, id) < (select created_at, id from rehearsals where id = %(after)s))"
    " order by created_at desc, id desc limit %(limit)s"
)
_TAKE: LiteralString = (
    "update rehearsals set status = 'running', started_at = clock_timestamp(), "
    + TAKE
    + " where id = %(id)s and status = 'queued' returning lease_token"
)
_CANCEL: LiteralString = (
    "update rehearsals set is_cancel_requested = true,"
    " status = case status when 'queued' then 'cancelled' else status end,"
    " finished_at = case status when 'queued' then clock_timestamp() end,"
    " secrets = case status when 'queued' then null else secrets end"
    " where id = %(id)s and status in ('queued', 'running')"
)
_END: LiteralString = (
    "update rehearsals set status = %(status)s, finished_at = clock_timestamp(), report = %(report)s::jsonb,"
    " error = %(error)s::jsonb, secrets = null, "
    + GIVE_BACK
    + " where id = %(id)s and lease_token = %(token)s and status = 'running'"
)
_END_EXPIRED: LiteralString = (
    "update rehearsals set status = case when is_cancel_requested then 'cancelled' else 'failed' end,"
    " error = case when is_cancel_requested then null else %(error)s end,"
    " finished_at = clock_timestamp(), secrets = null, " + GIVE_BACK + " where id in ("
    "select id from rehearsals where status = 'running' and " + GIVEN_UP + UNLOCKED + ")"
)
_UNANSWERED: LiteralString = (
    "update rehearsals set enqueued_at = clock_timestamp() where id = ("
    "select id from rehearsals where id = ("
    "select id from rehearsals where status = 'queued' order by created_at, id limit 1)"
    " and enqueued_at < clock_timestamp() - make_interval(secs => %s)" + UNLOCKED + ")"
    " and not exists (select 1 from rehearsals where status = 'running') returning id"
)
