"""Rows of `eval_runs`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, LiteralString, TypeAlias

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import Jsonb

from rft.core.base import Record
from rft.platform.api.pagination import Order
from rft.platform.evals.figures import RunFigures
from rft.platform.lifecycle.lease import EXPIRED, GIVE_BACK, GIVEN_UP, TAKE, Lease, LeasedTable, lock_row, occupants
from rft.platform.lifecycle.owner import host_of
from rft.platform.lifecycle.records import JobError
from rft.platform.store.advisory_locks import lock_host_slots
from rft.platform.store.deleted_cursors import is_deleted_cursor
from rft.platform.store.storable import storable_json
from rft.platform.store.stored_json import StoredJson

RunStatus: TypeAlias = Literal["queued", "in_progress", "completed", "canceled", "failed"]
_COLUMNS: LiteralString = (
    "id, eval_id, created_at, started_at, finished_at, status, is_cancel_requested, name, metadata, model, data_source,"
    " file_id, sealed, samples_per_row, seed, rows, figures, error, idle_takes"
)
_LIST = "eval_runs"
EVAL_RUNS = LeasedTable(
    "eval_runs",
    standing=("in_progress",),
    occupying=("in_progress",),
    requests="case when is_cancel_requested then 'cancel' end, 0",
)


class NewRun(Record):
    """An order that passed every check."""

    id: str
    eval_id: str
    name: str
    metadata: dict[str, str] | None
    model: str
    """Empty where nothing is sampled."""
    data_source: StoredJson
    """As it is shown."""
    file_id: str | None
    sealed: bytes | None
    """Its tools, encrypted."""
    samples_per_row: int
    seed: int


class RunRow(NewRun):
    """One row, but for the lease."""

    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    status: RunStatus
    is_cancel_requested: bool
    rows: int | None
    figures: RunFigures | None
    error: JobError | None
    idle_takes: int
    """Workers that took it, the present one included, since an item was last finished."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ends."""

    status: Literal["completed", "canceled", "failed"]
    error: JobError | None = None
    """Exactly when failed."""


class RunRepository:
    """Reads and writes `eval_runs` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def insert(self, run: NewRun) -> RunRow:
        """A new one, queued."""
        values = run.model_dump() | {
            "data_source": Jsonb(run.data_source),
            "metadata": None if run.metadata is None else Jsonb(run.metadata),
        }
        return (await self._fetch(_INSERT, values))[0]

    async def get(self, eval_id: str, run_id: str) -> RunRow | None:
        """One run of an eval."""
        query: LiteralString = "select " + _COLUMNS + " from eval_runs where id = %(id)s and eval_id = %(eval_id)s"
        rows = await self._fetch(query, {"id": run_id, "eval_id": eval_id})
        return rows[0] if rows else None

    async def has_place(self, eval_id: str, run_id: str) -> bool:
        """Whether a page can begin after this one, which may be deleted by now."""
        is_there = await self.get(eval_id, run_id) is not None
        return is_there or await is_deleted_cursor(self._connection, _LIST, run_id)

    async def page(
        self, eval_id: str, *, after: str | None, limit: int, order: Order, status: RunStatus | None
    ) -> list[RunRow]:
        """Up to `limit` runs of an eval, by age."""
        values = {"eval_id": eval_id, "after": after, "limit": limit, "status": status}
        return await self._fetch(_OLDEST_FIRST if order == "asc" else _NEWEST_FIRST, values)

    async def latest_of(self, eval_ids: Sequence[str]) -> list[RunRow]:
        """The youngest run of each of these evals that has one."""
        return await self._fetch(_LATEST, {"eval_ids": list(eval_ids)})

    async def cancel(self, run_id: str) -> bool:
        """Cancel it, or ask its worker to; False when it is over."""
        cursor = await self._connection.execute(_CANCEL, {"id": run_id})
        return cursor.rowcount > 0

    async def retry(self, run_id: str) -> bool:
        """Queue a run that is over again, without its items that have no verdict; False where it has nothing to do."""
        cursor = await self._connection.execute(_RETRY, {"id": run_id})
        if not cursor.rowcount:
            return False
        await self._connection.execute(_FORGET_ERRORS, {"id": run_id})
        return True

    async def delete(self, eval_id: str, run_id: str) -> bool:
        """With its output items; False when there is none. A worker that has it stops."""
        cursor = await self._connection.execute(
            "with gone as (delete from eval_runs where id = %s and eval_id = %s returning id, created_at)"
            " insert into deleted_cursors (id, list, created_at) select id, %s, created_at from gone",
            (run_id, eval_id, _LIST),
        )
        return cursor.rowcount > 0

    async def take(self, run_id: str, *, owner: str, ttl_s: float, slots: int) -> tuple[RunRow, Lease] | None:
        """A run without a worker, and its lease; None when it is not to be run, or no slot is free."""
        await lock_host_slots(self._connection, host_of(owner))
        others = await occupants(self._connection, EVAL_RUNS, besides=run_id, host=host_of(owner))
        if len(others) >= slots:
            return None
        cursor = await self._connection.execute(_TAKE, {"id": run_id, "owner": owner, "ttl_s": ttl_s})
        taken = await cursor.fetchone()
        if taken is None:
            return None
        row = await self.get(taken[1], run_id)
        assert row is not None, "it was just updated"
        return row, Lease(EVAL_RUNS, run_id, taken[0], owner)

    async def count_rows(self, lease: Lease, rows: int) -> None:
        """So many items it has. Raises LeaseLost."""
        await lock_row(self._connection, lease)
        await self._connection.execute("update eval_runs set rows = %s where id = %s", (rows, lease.id))

    async def end(self, lease: Lease, ended: RunEnd, figures: RunFigures | None) -> None:
        """Write how it ended. Raises LeaseLost."""
        await lock_row(self._connection, lease)
        await self._connection.execute(_END, {"id": lease.id} | _written(ended, figures))

    async def release(self, lease: Lease) -> bool:
        """Give it back as it is: another worker goes on. False: it is to be cancelled instead. Raises LeaseLost."""
        (is_cancel_requested,) = await lock_row(self._connection, lease, "is_cancel_requested")
        if is_cancel_requested:
            return False
        query: LiteralString = "update eval_runs set status = 'queued', idle_takes = 0, " + GIVE_BACK + " where id = %s"
        await self._connection.execute(query, (lease.id,))
        return True

    async def lock_orphaned_cancelled(self, silent: Sequence[str]) -> list[tuple[str, str]]:
        """Runs to be cancelled that no worker has, each with its eval; locked. `silent`: see `GIVEN_UP`."""
        query: LiteralString = (
            "select id, eval_id from eval_runs where status in ('queued', 'in_progress') and is_cancel_requested and "
            + GIVEN_UP
            + " for update skip locked"
        )
        cursor = await self._connection.execute(query, {"silent": list(silent)})
        return [(row[0], row[1]) for row in await cursor.fetchall()]

    async def end_unleased(self, run_id: str, ended: RunEnd, figures: RunFigures | None) -> None:
        """The same for a run that nobody has; the caller has locked it."""
        await self._connection.execute(_END, {"id": run_id} | _written(ended, figures))

    async def unanswered(self, silent: Sequence[str], *, after_s: float, limit: int) -> list[str]:
        """Runs without a worker, oldest first, whose message was not answered for so long; sent again as of now.

        `silent`: see `GIVEN_UP`.
        """
        values = {"silent": list(silent), "after_s": after_s, "limit": limit}
        cursor = await self._connection.execute(_UNANSWERED, values)
        return [row[0] for row in await cursor.fetchall()]

    async def _fetch(self, query: LiteralString, values: Mapping[str, object]) -> list[RunRow]:
        async with self._connection.cursor(row_factory=class_row(RunRow)) as cursor:
            await cursor.execute(query, values)
            return await cursor.fetchall()


def _written(ended: RunEnd, figures: RunFigures | None) -> dict[str, str | None]:
    return {
        "status": ended.status,
        "error": None if ended.error is None else storable_json(ended.error.model_dump_json()),
        "figures": None if figures is None else storable_json(figures.model_dump_json()),
    }


_INSERT: LiteralString = (
    "insert into eval_runs (id, eval_id, status, name, metadata, model, data_source, file_id, sealed, samples_per_row,"
    " seed) values (%(id)s, %(eval_id)s, 'queued', %(name)s, %(metadata)s, %(model)s, %(data_source)s, %(file_id)s,"
    " %(sealed)s, %(samples_per_row)s, %(seed)s) returning " + _COLUMNS
)
_PAGE: LiteralString = (
    "select "
    + _COLUMNS
    + " from eval_runs where eval_id = %(eval_id)s and (%(status)s::text is null or status = %(status)s)"
    + " and (%(after)s::text is null or "
)
_PLACE: LiteralString = (
    "(select created_at, id from eval_runs where id = %(after)s"
    " union all select created_at, id from deleted_cursors where list = 'eval_runs' and id = %(after)s)"
)
_OLDEST_FIRST: LiteralString = _PAGE + "(created_at, id) > " + _PLACE + ") order by created_at, id limit %(limit)s"
_NEWEST_FIRST: LiteralString = (
    _PAGE + "(created_at, id) < " + _PLACE + ") order by created_at desc, id desc limit %(limit)s"
)
_LATEST: LiteralString = (
    "select "
    + _COLUMNS
    + " from unnest(%(eval_ids)s::text[]) as wanted (eval) cross join lateral (select * from eval_runs"
    " where eval_id = wanted.eval order by created_at desc, id desc limit 1) as latest"
)
_CANCEL: LiteralString = (
    "update eval_runs set is_cancel_requested = true,"
    " status = case status when 'queued' then 'canceled' else status end,"
    " finished_at = case status when 'queued' then clock_timestamp() end"
    " where id = %(id)s and status in ('queued', 'in_progress')"
)
_TAKE: LiteralString = (
    "update eval_runs set status = 'in_progress', started_at = coalesce(started_at, clock_timestamp()),"
    " idle_takes = idle_takes + 1, "
    + TAKE
    + " where id = %(id)s and not is_cancel_requested and (status = 'queued' or (status = 'in_progress' and "
    + EXPIRED
    + ")) returning lease_token, eval_id"
)
_HAS_ERRORS: LiteralString = (
    "exists (select from eval_output_items where run_id = eval_runs.id and eval_output_items.status = 'error')"
)
_END: LiteralString = (
    "update eval_runs set status = %(status)s, finished_at = clock_timestamp(), error = %(error)s::jsonb,"
    " figures = %(figures)s::jsonb, sealed = case when %(status)s = 'completed' and not "
    + _HAS_ERRORS
    + " then null else sealed end, "
    + GIVE_BACK
    + " where id = %(id)s"
)
_RETRY: LiteralString = (
    "update eval_runs set status = 'queued', is_cancel_requested = false, started_at = null, finished_at = null,"
    " figures = null, error = null, idle_takes = 0, enqueued_at = clock_timestamp()"
    " where id = %(id)s and (status in ('failed', 'canceled') or (status = 'completed' and " + _HAS_ERRORS + "))"
)
_FORGET_ERRORS: LiteralString = "delete from eval_output_items where run_id = %(id)s and status = 'error'"
_UNANSWERED: LiteralString = (
    # As an array it is chosen once: a plan may look for `in` once for each run, and finds others, beyond the limit.
    "update eval_runs set enqueued_at = clock_timestamp() where id = any(array("
    "select id from eval_runs where (status = 'queued' or (status = 'in_progress' and "
    + GIVEN_UP
    + ")) and enqueued_at < clock_timestamp() - make_interval(secs => %(after_s)s)"
    " order by created_at, id limit %(limit)s for update skip locked)) returning id"
)
