"""Every write of `jobs` that needs no lease: orders, what customers ask for, messages to workers, giving leases."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from rft.core.errors import IllegalTransition
from rft.core.job import JobStatus
from rft.platform.lifecycle.lease import EXPIRED, GIVE_BACK, TAKE, LeasedTable
from rft.platform.lifecycle.machine import UNFINISHED, Transition, transition
from rft.platform.lifecycle.records import NewJob, SlotHolder

JOBS = LeasedTable(
    "jobs",
    # A job that is `paused` and has an owner is held: its worker waits for an endpoint.
    standing=(JobStatus.VALIDATING_FILES, JobStatus.RUNNING, JobStatus.PAUSED),
    # A cancelled job keeps its slot until its trainer has stopped.
    occupying=(JobStatus.RUNNING, JobStatus.PAUSED, JobStatus.CANCELLED),
    requests="case when is_pause_requested then 'pause' end, endpoints_version",
)

START = transition({JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.PAUSED}, JobStatus.RUNNING)
"""A worker may lease it: queued, or running or held with an expired lease."""
PAUSE = transition({JobStatus.QUEUED}, JobStatus.PAUSED)
PAUSE_UNLEASED = transition({JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.PAUSED}, JobStatus.PAUSED)
RESUME = transition({JobStatus.PAUSED}, JobStatus.QUEUED)
CANCEL = transition(UNFINISHED, JobStatus.CANCELLED)
OWN_ENDS_S = 120.0
"""Within which the worker that ended a job tells the ends of its rollouts, or does not tell them any more."""


class LifecycleRepository:
    """Writes `jobs` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def insert(self, job: NewJob) -> None:
        """A new job, `validating_files`; its message counts as sent now."""
        values: Mapping[str, object] = job.model_dump() | {
            "status": JobStatus.VALIDATING_FILES,
            "metadata": None if job.metadata is None else Jsonb(job.metadata),
            "method": Jsonb(job.method),
            "request": Jsonb(job.request),
            "chat": None if job.chat is None else Jsonb(job.chat.model_dump(mode="json")),
        }
        await self._connection.execute(_INSERT, values)

    async def change_endpoints(self, job_id: str, method: Jsonb, secrets: bytes) -> None:
        """Other addresses and headers of its tools and grader: `method` with its values redacted, `secrets` sealed."""
        await self._connection.execute(_CHANGE_ENDPOINTS, {"id": job_id, "method": method, "secrets": secrets})

    async def seal_urls(self, job_id: str, method: Jsonb, request: Jsonb, secrets: bytes) -> None:
        """The same order, with the secrets of its URLs in `secrets`, sealed, and no longer in the two documents."""
        values = {"id": job_id, "method": method, "request": request, "secrets": secrets}
        await self._connection.execute(_SEAL_URLS, values)

    async def mark_model_deleted(self, job_id: str) -> None:
        """The final model is gone; the job keeps its history."""
        await self._connection.execute("update jobs set model_deleted_at = now() where id = %s", (job_id,))

    # What customers ask for.

    async def request_pause(self, job_id: str) -> None:
        """Ask the worker that runs it to stop and pause it."""
        await self._connection.execute("update jobs set is_pause_requested = true where id = %s", (job_id,))

    async def pause(self, job_id: str) -> None:
        """A queued job is paused at once. Raises IllegalTransition when it is not queued."""
        await self._must_move(PAUSE, _PAUSE, job_id)

    async def resume(self, job_id: str, *, max_importance_gap: float | None = None) -> None:
        """A paused job is queued; its message counts as sent now. Raises IllegalTransition when it is not paused.

        `max_importance_gap`: what counts from now on; None: what counted before.
        """
        await self._must_move(RESUME, _RESUME, job_id, {"max_importance_gap": max_importance_gap})

    async def cancel(self, job_id: str) -> None:
        """Over at once: no lease that was given for it lets anybody write any more. Raises IllegalTransition.

        A trainer that still runs keeps its slot until its worker has stopped it, and frees it (`free_slot`).
        """
        await self._must_move(CANCEL, _CANCEL, job_id)

    # Leases.

    async def train_slots(self, job_ids: Sequence[str]) -> set[int]:
        """Which slots of their hosts these jobs take up."""
        cursor = await self._connection.execute("select train_slot from jobs where id = any(%s)", (list(job_ids),))
        return {slot for (slot,) in await cursor.fetchall()}

    async def take_oldest(self, job_id: str, *, owner: str, ttl_s: float, slot: int) -> tuple[str, int] | None:
        """Lease the job if it may run, or the oldest of those that wait if it waits itself: its id and token."""
        values = {"id": job_id, "owner": owner, "ttl_s": ttl_s, "slot": slot}
        row = await self._move(START, _TAKE_OLDEST, values)
        return None if row is None else (row[0], row[1])

    async def take_for_validation(self, job_id: str, *, owner: str, ttl_s: float) -> int | None:
        """Lease a job whose files are to be validated: the token; None when it needs none."""
        cursor = await self._connection.execute(_TAKE_FOR_VALIDATION, {"id": job_id, "owner": owner, "ttl_s": ttl_s})
        row = await cursor.fetchone()
        return None if row is None else row[0]

    async def free_slot(self, job_id: str, owner: str) -> None:
        """The trainer of a job that was cancelled under this owner's lease has stopped."""
        await self._connection.execute(_FREE_SLOT, {"id": job_id, "owner": owner})

    async def waiting(self, job_id: str) -> tuple[JobStatus, tuple[SlotHolder, ...]] | None:
        """Its status and who has the slots that it was refused; nobody changes it until the transaction ends."""
        cursor = await self._connection.execute(_WAITING, {"id": job_id})
        row = await cursor.fetchone()
        if row is None:
            return None
        return JobStatus(row[0]), tuple(SlotHolder.model_validate(holder) for holder in row[1] or ())

    async def wait_for(self, job_id: str, holders: Sequence[str]) -> int:
        """Jobs that have the slots that this one was refused; returns its lease's last token."""
        cursor = await self._connection.execute(
            "update jobs set waits_for = %s where id = %s returning lease_token", (list(holders), job_id)
        )
        row = await cursor.fetchone()
        assert row is not None, "its row is locked"
        return int(row[0])

    # Jobs that no worker has.

    async def cancel_unleased(self, job_id: str) -> bool:
        """Cancel a job that is to be cancelled and that no worker has; False when there was nothing to do."""
        return await self._move(CANCEL, _CANCEL_UNLEASED, {"id": job_id}) is not None

    async def may_have_left_open(self, job_id: str) -> bool:
        """Whether it is over, no worker still stops its trainer, and not all ends of its rollouts are told."""
        return await self._ids(_MAY_HAVE_LEFT_OPEN, {"id": job_id}) != []

    async def mark_ends_told(self, job_id: str) -> None:
        """None of its rollouts is open any more, unless it goes on."""
        await self._connection.execute(_MARK_ENDS_TOLD, {"id": job_id})

    async def pause_unleased(self, job_id: str) -> tuple[int, int | None] | None:
        """Pause a job that is to be paused and that no worker has: its lease's last token and its step."""
        row = await self._move(PAUSE_UNLEASED, _PAUSE_UNLEASED, {"id": job_id})
        return None if row is None else (row[0], row[1])

    # Messages to workers.

    async def next_queued(self) -> str | None:
        """The job that has waited longest; its message counts as sent now."""
        ids = await self._ids(_NEXT_QUEUED, {})
        return ids[0] if ids else None

    # Results.

    async def set_usage(self, job_id: str, usage: str) -> None:
        """What it used up, as JSON."""
        await self._connection.execute("update jobs set usage_metrics = %s where id = %s", (usage, job_id))

    async def set_result_files(self, job_id: str, file_ids: Sequence[str]) -> None:
        """The files that it left."""
        await self._connection.execute("update jobs set result_files = %s where id = %s", (list(file_ids), job_id))

    async def _move(
        self, change: Transition, statement: LiteralString, values: Mapping[str, object]
    ) -> TupleRow | None:
        cursor = await self._connection.execute(statement, {**values, **change.values()})
        return await cursor.fetchone()

    async def _must_move(
        self,
        change: Transition,
        statement: LiteralString,
        job_id: str,
        values: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        if await self._move(change, statement, {"id": job_id, **values}) is None:
            raise IllegalTransition(f"is not {' or '.join(change.expected)} and cannot become {change.to}")

    async def _ids(self, query: LiteralString, values: Mapping[str, object]) -> list[str]:
        cursor = await self._connection.execute(query, values)
        return [row[0] for row in await cursor.fetchall()]


SLOT_HOLDERS: LiteralString = (
    "(select jsonb_agg(jsonb_build_object('job', other.id, 'hold', other.hold ->> 'endpoint') order by other.id)"
    " from jobs other where jobs.status = 'queued' and other.id = any(jobs.waits_for)"
    " and other.status in ('running', 'paused', 'cancelled') and other.lease_until > clock_timestamp())"
)
"""Who has the slots that a queued job was refused; null while there is nobody. Over a row of `jobs`."""
_HAS_TRAINER: LiteralString = "(status in ('running', 'paused') and lease_until > clock_timestamp())"
_RUNNABLE: LiteralString = (
    "(status in ('queued', 'running') or hold is not null) and not is_cancel_requested and not is_pause_requested"
    " and " + EXPIRED
)
_INSERT: LiteralString = (
    "insert into jobs (id, status, created_at, model, base_model_path, training_file, validation_file, test_file,"
    " suffix, seed, metadata, method, request, secrets, chat, enqueued_at)"
    " values (%(id)s, %(status)s, clock_timestamp(), %(model)s, %(base_model_path)s, %(training_file)s,"
    " %(validation_file)s, %(test_file)s, %(suffix)s, %(seed)s, %(metadata)s, %(method)s, %(request)s, %(secrets)s,"
    " %(chat)s, clock_timestamp())"
)
_CHANGE_ENDPOINTS: LiteralString = (
    "update jobs set method = %(method)s, secrets = %(secrets)s, endpoints_version = endpoints_version + 1"
    " where id = %(id)s"
)
_SEAL_URLS: LiteralString = (
    "update jobs set method = %(method)s, request = %(request)s, secrets = %(secrets)s where id = %(id)s"
)
_PAUSE: LiteralString = (
    "update jobs set status = %(to)s, " + GIVE_BACK + " where id = %(id)s and status = any(%(expected)s) returning id"
)
_RESUME: LiteralString = (
    "update jobs set status = %(to)s, launches_without_progress = 0, pause_reason = null,"
    " max_importance_gap = coalesce(%(max_importance_gap)s, max_importance_gap),"
    " enqueued_at = clock_timestamp() where id = %(id)s and status = any(%(expected)s) returning id"
)
_CANCEL: LiteralString = (
    "update jobs set status = %(to)s, finished_at = clock_timestamp(), is_cancel_requested = true,"
    " enqueued_at = clock_timestamp(),"
    " is_pause_requested = false, hold = null, pause_reason = null, lease_token = lease_token + 1,"
    " lease_owner = case when " + _HAS_TRAINER + " then lease_owner end,"
    " lease_until = case when " + _HAS_TRAINER + " then lease_until end"
    " where id = %(id)s and status = any(%(expected)s) returning id"
)
_TAKE_OLDEST: LiteralString = (
    "update jobs set status = %(to)s, hold = null, waits_for = null, " + TAKE + ","
    " train_slot = %(slot)s, may_have_open_rollouts = true, started_at = coalesce(started_at, clock_timestamp())"
    " where id = (select id from jobs where " + _RUNNABLE + " and (id = %(id)s or (status = 'queued'"
    " and exists (select 1 from jobs where id = %(id)s and status = 'queued' and " + _RUNNABLE + ")))"
    " order by created_at, id limit 1 for update skip locked)"
    " and status = any(%(expected)s) returning id, lease_token"
)
_TAKE_FOR_VALIDATION: LiteralString = (
    "update jobs set " + TAKE + " where id = %(id)s and status = 'validating_files' and not is_cancel_requested"
    " and " + EXPIRED + " returning lease_token"
)
_FREE_SLOT: LiteralString = (
    "update jobs set " + GIVE_BACK + " where id = %(id)s and status = 'cancelled' and lease_owner = %(owner)s"
)
_WAITING: LiteralString = "select status, " + SLOT_HOLDERS + " from jobs where id = %(id)s for update"
_CANCEL_UNLEASED: LiteralString = (
    "update jobs set status = %(to)s, finished_at = clock_timestamp(), hold = null,"
    " pause_reason = null, is_pause_requested = false, " + GIVE_BACK + " where id = %(id)s and is_cancel_requested"
    " and status = any(%(expected)s) and " + EXPIRED + " returning id"
)
_PAUSE_UNLEASED: LiteralString = (
    "update jobs set status = %(to)s, hold = null, is_pause_requested = false, " + GIVE_BACK + " where id = %(id)s"
    " and is_pause_requested and not is_cancel_requested and status = any(%(expected)s)"
    " and (status <> 'paused' or hold is not null) and " + EXPIRED + " returning lease_token, current_step"
)
HAS_LEFT_OPEN: LiteralString = (
    "may_have_open_rollouts and status in ('succeeded', 'failed', 'cancelled') and " + EXPIRED
)
_MAY_HAVE_LEFT_OPEN: LiteralString = "select id from jobs where id = %(id)s and " + HAS_LEFT_OPEN
_MARK_ENDS_TOLD: LiteralString = "update jobs set may_have_open_rollouts = false where id = %(id)s and " + HAS_LEFT_OPEN
_NEXT_QUEUED: LiteralString = (
    "update jobs set enqueued_at = clock_timestamp() where id = (select id from jobs where status = 'queued'"
    " order by created_at, id limit 1 for update skip locked) returning id"
)
