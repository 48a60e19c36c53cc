"""Rows of `regrades`, and the stored rollouts they grade again."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row
from psycopg.types.json import Jsonb

from rft.core.base import JsonObject, Record
from rft.core.events import RolloutDone
from rft.core.failure import Stage
from rft.core.rollout import Split
from rft.platform.lifecycle.lease import EXPIRED, GIVE_BACK, UNLOCKED, Lease, LeasedTable
from rft.platform.lifecycle.records import JobError
from rft.platform.regrades.comparison import RegradeReport
from rft.platform.store.storable import storable_json

RegradeStatus = Literal["queued", "running", "succeeded", "failed"]
REGRADES = LeasedTable("regrades", standing=("queued", "running"), occupying=("running",))
_FIRST_TOKEN = 1
"""No process leases a regrade a second time: one whose process is gone has failed."""


class Selection(Record):
    """Which rollouts are graded again; None: all."""

    split: Split | None
    steps: tuple[int, ...] | None
    limit: int


class RegradeRow(Record):
    """One row."""

    id: str
    job_id: str
    created_at: datetime
    finished_at: datetime | None
    status: RegradeStatus
    grader: JsonObject
    selection: Selection
    total: int | None
    done: int
    report: RegradeReport | None
    error: JobError | None


class StoredRollout(Record):
    """Where one rollout belongs, without its record."""

    trace_id: str
    split: Split
    step: int
    epoch: int
    row_index: int
    reward: float | None

    @property
    def group(self) -> tuple[Split, int, int, int]:
        """Equal for the rollouts of one group."""
        return self.split, self.step, self.epoch, self.row_index


class RegradeRepository:
    """Reads and writes inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def insert(
        self, id_: str, job_id: str, grader: JsonObject, selection: Selection, *, owner: str, ttl_s: float
    ) -> tuple[RegradeRow, Lease]:
        """A queued regrade, leased by whoever orders it."""
        values = {
            "id": id_,
            "job_id": job_id,
            "grader": Jsonb(grader),
            "selection": Jsonb(selection.model_dump(mode="json")),
            "owner": owner,
            "token": _FIRST_TOKEN,
            "ttl_s": ttl_s,
        }
        async with self._connection.cursor(row_factory=class_row(RegradeRow)) as cursor:
            await cursor.execute(_INSERT, values)
            row = await cursor.fetchone()
        assert row is not None, "an insert returns its row"
        return row, Lease(REGRADES, id_, _FIRST_TOKEN, owner)

    async def get(self, job_id: str, id_: str) -> RegradeRow | None:
        """One regrade of a job."""
        async with self._connection.cursor(row_factory=class_row(RegradeRow)) as cursor:
            await cursor.execute(_GET, (job_id, id_))
            return await cursor.fetchone()

    async def page(self, job_id: str, *, after: str | None, limit: int) -> list[RegradeRow]:
        """Up to `limit` regrades of a job, newest first, without their reports."""
        async with self._connection.cursor(row_factory=class_row(RegradeRow)) as cursor:
            await cursor.execute(_PAGE, {"job_id": job_id, "after": after, "limit": limit})
            return await cursor.fetchall()

    async def unfinished(self) -> int:
        """How many wait or run, everywhere."""
        cursor = await self._connection.execute("select count(*) from regrades where status in ('queued', 'running')")
        row = await cursor.fetchone()
        assert row is not None, "an aggregate has a row"
        return row[0]

    async def fail_expired(self) -> None:
        """Fail the regrades whose lease has expired: the process that graded them is gone."""
        error = JobError(code="interrupted", message="The process that graded was stopped; order the regrade again.")
        await self._connection.execute(_FAIL_EXPIRED, (Jsonb(error.model_dump()),))

    async def begin(self, lease: Lease, total: int) -> None:
        """It runs."""
        await self._connection.execute(_BEGIN, (total, lease.id, lease.token))

    async def progress(self, lease: Lease, done: int) -> None:
        """So many rollouts are graded."""
        await self._connection.execute(_PROGRESS, (done, lease.id, lease.token))

    async def succeed(self, lease: Lease, report: RegradeReport) -> None:
        """It is done. One that was given up as interrupted in the meantime is done all the same."""
        record = storable_json(report.model_dump_json())  # Errors quote answers.
        await self._connection.execute(_SUCCEED, (record, report.n, lease.id, lease.token))

    async def fail(self, lease: Lease, error: JobError) -> None:
        """It cannot be done."""
        await self._connection.execute(_FAIL, (Jsonb(error.model_dump()), lease.id, lease.token))

    async def rollouts(self, job_id: str, wanted: Selection) -> list[StoredRollout]:
        """Up to `limit` rollouts with a whole conversation, newest step first, groups together and whole."""
        values = {
            "job_id": job_id,
            "steps": None if wanted.steps is None else list(wanted.steps),
            "grader": Stage.GRADER,
            "limit": wanted.limit + 1,
        }
        async with self._connection.cursor(row_factory=class_row(StoredRollout)) as cursor:
            await cursor.execute(_rollouts(wanted), values)
            return whole_groups(await cursor.fetchall(), wanted.limit)

    async def records(self, job_id: str, trace_ids: Sequence[str]) -> dict[str, RolloutDone]:
        """Everything the trainer reported of these rollouts."""
        cursor = await self._connection.execute(
            "select trace_id, record from rollouts where job_id = %s and trace_id = any(%s)", (job_id, list(trace_ids))
        )
        return {trace_id: RolloutDone.model_validate(record) for trace_id, record in await cursor.fetchall()}


def whole_groups(rollouts: Sequence[StoredRollout], limit: int) -> list[StoredRollout]:
    """The first `limit`, less a group that the limit would cut; a single group beyond the limit is cut all the same."""
    if len(rollouts) <= limit:
        return list(rollouts)
    cut = rollouts[limit].group
    kept = [rollout for rollout in rollouts[:limit] if rollout.group != cut]
    return kept or list(rollouts[:limit])


_COLUMNS: LiteralString = "id, job_id, created_at, finished_at, status, grader, selection, total, done, error"
_INSERT: LiteralString = (
    "insert into regrades (id, job_id, status, grader, selection, lease_owner, lease_token, lease_until)"
    " values (%(id)s, %(job_id)s, 'queued', %(grader)s, %(selection)s, %(owner)s, %(token)s,"
    " clock_timestamp() + make_interval(secs => %(ttl_s)s)) returning " + _COLUMNS + ", report"
)
_GET: LiteralString = "select " + _COLUMNS + ", report from regrades where job_id = %s and id = %s"
_PAGE: LiteralString = (
    "select " + _COLUMNS + ", null as report from regrades where job_id = %(job_id)s"
    " and (%(after)s::text is null or (created_at, id)"
    " < (select created_at, id from regrades where job_id = %(job_id)s and id = %(after)s))"
    " order by created_at desc, id desc limit %(limit)s"
)
_FAIL_EXPIRED: LiteralString = (
    "update regrades set status = 'failed', error = %s, finished_at = clock_timestamp(), "
    + GIVE_BACK
    + " where id in (select id from regrades where status in ('queued', 'running') and "
    + EXPIRED
    + UNLOCKED
    + ")"
)
_BEGIN: LiteralString = "update regrades set status = 'running', total = %s where id = %s and lease_token = %s"
_PROGRESS: LiteralString = "update regrades set done = %s where id = %s and lease_token = %s"
_SUCCEED: LiteralString = (
    "update regrades set status = 'succeeded', report = %s::jsonb, error = null, done = %s,"
    " finished_at = clock_timestamp(), " + GIVE_BACK + " where id = %s and lease_token = %s"
)
_FAIL: LiteralString = (
    "update regrades set status = 'failed', error = %s, finished_at = clock_timestamp(), "
    + GIVE_BACK
    + " where id = %s and lease_token = %s and status in ('queued', 'running')"
)
_OF_SPLIT: dict[Split, LiteralString] = {
    Split.TRAIN: "split = 'train'",
    Split.VALID: "split = 'valid'",
    Split.TEST: "split = 'test'",
}
_IN_GROUPS: LiteralString = " order by step desc, split, row_index, epoch, group_index, attempt limit %(limit)s"


def _rollouts(wanted: Selection) -> LiteralString:
    """One ordered walk along an index per split, merged."""
    steps: LiteralString = "" if wanted.steps is None else " and step = any(%(steps)s)"
    walks: list[LiteralString] = [
        "(select trace_id, split, step, epoch, row_index, group_index, attempt, reward from rollouts"
        " where job_id = %(job_id)s and " + _OF_SPLIT[split] + steps + " and"
        " (reward is not null or failure_stage = %(grader)s)" + _IN_GROUPS + ")"
        for split in (Split if wanted.split is None else (wanted.split,))
    ]
    walked: LiteralString = " union all ".join(walks)
    return "select trace_id, split, step, epoch, row_index, reward from (" + walked + ") as walks" + _IN_GROUPS
