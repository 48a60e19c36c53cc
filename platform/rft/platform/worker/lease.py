"""The lease: which worker may run a job. Only the database's clock counts, and every write carries the token."""

from dataclasses import dataclass
from enum import StrEnum
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.errors import RftError
from rft.core.job import TERMINAL, JobStatus
from rft.platform.store.advisory_locks import lock_host_slots
from rft.platform.worker.owner import host_of
from rft.platform.worker.result_file import write_results
from rft.platform.worker.waiting import tell_waiting


class LeaseLost(RftError):
    """Somebody else may run the job now: stop at once and write nothing more."""


class JobCancelled(LeaseLost):
    """The job is over, and nothing more of it counts. Nobody else will run it: its trainer may stop in good order."""


class Refusal(StrEnum):
    """Why no lease was given."""

    NOT_RUNNABLE = "not_runnable"
    """Finished, cancelled, paused, unknown, or in another worker's hands."""
    NO_SLOT = "no_slot"
    """This host already runs as many jobs as it may."""


class Wish(StrEnum):
    """What the customer wants of the job's runner."""

    PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the job's row says to its runner."""

    wish: Wish | None
    endpoints_version: int
    """A trainer that was started with an older one is to be started anew."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write for one job until somebody takes a higher token."""

    job_id: str
    token: int
    owner: str
    """See `worker.owner`."""
    is_first: bool
    """Nobody ever ran this job before."""


# A job that is `paused` and has an owner is held: its worker waits for an endpoint.
_STANDS: LiteralString = (
    " lease_token = %(token)s and lease_owner is not null and status in ('validating_files', 'running', 'paused')"
)
_HAS_TRAINER: LiteralString = "(status in ('running', 'paused') and lease_until > clock_timestamp())"

_RUNNABLE: LiteralString = (
    " (status in ('queued', 'running') or hold is not null) and not is_cancel_requested and not is_pause_requested"
    " and (lease_until is null or lease_until < clock_timestamp())"
)
_TAKE: LiteralString = (
    "update jobs set status = 'running', hold = null, waits_for = null, lease_owner = %(owner)s,"
    " lease_token = lease_token + 1, lease_until = clock_timestamp() + make_interval(secs => %(ttl)s),"
    " started_at = coalesce(started_at, clock_timestamp())"
    " where id = (select id from jobs where" + _RUNNABLE + " and (id = %(id)s or (status = 'queued'"
    " and exists (select 1 from jobs where id = %(id)s and status = 'queued' and" + _RUNNABLE + ")))"
    " order by created_at, id limit 1 for update skip locked)"
    " returning id, lease_token, launches"
)


async def take(
    connection: AsyncConnection[TupleRow], job_id: str, *, owner: str, ttl_s: float, slots: int
) -> Lease | Refusal:
    """The lease of a queued job, or of a running or held one whose worker fell silent.

    Where an older job is queued, it is that one's lease: messages come in any order, and slots are given by age.
    """
    async with connection.transaction():
        host = host_of(owner)
        await lock_host_slots(connection, host)
        used = await connection.execute(
            # A cancelled job keeps its slot until its trainer has stopped.
            "select id from jobs where status in ('running', 'paused', 'cancelled') and id <> %s"
            " and lease_until > clock_timestamp() and split_part(lease_owner, '/', 1) = %s",
            (job_id, host),
        )
        holders = [str(holder) for (holder,) in await used.fetchall()]
        if len(holders) >= slots:
            if await tell_waiting(connection, job_id, holders):
                await notify(connection, job_id)
            return Refusal.NO_SLOT
        taken = await connection.execute(_TAKE, {"owner": owner, "ttl": ttl_s, "id": job_id})
        row = await taken.fetchone()
        if row is None:
            return Refusal.NOT_RUNNABLE
        await notify(connection, row[0])
        return Lease(job_id=row[0], token=row[1], owner=owner, is_first=row[2] == 0)


async def take_for_validation(
    connection: AsyncConnection[TupleRow], job_id: str, *, owner: str, ttl_s: float
) -> Lease | None:
    """The lease of a job whose files are to be validated; None when it needs none."""
    async with connection.transaction():
        taken = await connection.execute(
            "update jobs set lease_owner = %(owner)s, lease_token = lease_token + 1,"
            " lease_until = clock_timestamp() + make_interval(secs => %(ttl)s)"
            " where id = %(id)s and status = 'validating_files' and not is_cancel_requested"
            " and (lease_until is null or lease_until < clock_timestamp())"
            " returning lease_token",
            {"owner": owner, "ttl": ttl_s, "id": job_id},
        )
        row = await taken.fetchone()
    return None if row is None else Lease(job_id=job_id, token=row[0], owner=owner, is_first=True)


async def heartbeat(connection: AsyncConnection[TupleRow], lease: Lease, *, ttl_s: float) -> Wanted:
    """Keep the lease for another `ttl_s`; tells what the customer wants of the job by now. Raises LeaseLost."""
    async with connection.transaction():
        beat = await connection.execute(
            "update jobs set lease_until = clock_timestamp() + make_interval(secs => %(ttl)s)"
            " where id = %(id)s and" + _STANDS + " returning is_pause_requested, endpoints_version",
            {"ttl": ttl_s, "id": lease.job_id, "token": lease.token},
        )
        row = await beat.fetchone()
        if row is None:
            raise await _loss(connection, lease)
    is_paused, endpoints_version = row
    return Wanted(Wish.PAUSE if is_paused else None, endpoints_version)


async def release(connection: AsyncConnection[TupleRow], lease: Lease, status: JobStatus) -> None:
    """Give the job back under its new status: queued, paused or a terminal one. Raises LeaseLost."""
    await hold_row(connection, lease)
    await connection.execute(
        "update jobs set status = %(status)s, hold = null, lease_owner = null, lease_until = null,"
        " is_pause_requested = is_pause_requested and %(goes_on)s,"
        " finished_at = case when %(is_over)s then clock_timestamp() end"
        " where id = %(id)s and lease_token = %(token)s",
        {
            "status": status,
            # A wish that came too late for this worker is kept for whoever looks next.
            "goes_on": status is JobStatus.QUEUED,
            "is_over": status in TERMINAL,
            "id": lease.job_id,
            "token": lease.token,
        },
    )
    if status in TERMINAL:
        await write_results(connection, lease.job_id, status)
    await notify(connection, lease.job_id)


async def hold_row(connection: AsyncConnection[TupleRow], lease: Lease) -> int:
    """Lock the job's row for this transaction if the lease still stands; returns `last_event_seq`. Raises LeaseLost."""
    held = await connection.execute(
        "select last_event_seq from jobs where id = %(id)s and" + _STANDS + " for update",
        {"id": lease.job_id, "token": lease.token},
    )
    row = await held.fetchone()
    if row is None:
        raise await _loss(connection, lease)
    return int(row[0])


async def cancel_and_fence(connection: AsyncConnection[TupleRow], job_id: str) -> None:
    """The job is over at once, in the caller's transaction: no lease that was given for it lets anybody write any more.

    A trainer that still runs keeps its slot until its worker has stopped it, and frees it (`free_slot`).
    """
    await connection.execute(
        "update jobs set status = 'cancelled', finished_at = clock_timestamp(), is_cancel_requested = true,"
        " is_pause_requested = false, hold = null, pause_reason = null, lease_token = lease_token + 1,"
        " lease_owner = case when " + _HAS_TRAINER + " then lease_owner end,"
        " lease_until = case when " + _HAS_TRAINER + " then lease_until end where id = %s",
        (job_id,),
    )
    await write_results(connection, job_id, JobStatus.CANCELLED)
    await notify(connection, job_id)


async def free_slot(connection: AsyncConnection[TupleRow], lease: Lease) -> None:
    """The trainer of a job that was cancelled under this lease has stopped."""
    await connection.execute(
        "update jobs set lease_owner = null, lease_until = null"
        " where id = %s and status = 'cancelled' and lease_owner = %s",
        (lease.job_id, lease.owner),
    )
    await notify(connection, lease.job_id)


async def _loss(connection: AsyncConnection[TupleRow], lease: Lease) -> LeaseLost:
    cursor = await connection.execute("select status from jobs where id = %s", (lease.job_id,))
    row = await cursor.fetchone()
    if row is not None and row[0] == JobStatus.CANCELLED:
        return JobCancelled(f"{lease.job_id} was cancelled")
    return LeaseLost(f"the lease {lease.token} of {lease.job_id} is not ours any more")


async def notify(connection: AsyncConnection[TupleRow], job_id: str) -> None:
    """Tell whoever watches this job that its rows changed; heard when the transaction commits."""
    await connection.execute("select pg_notify('rft_jobs', %s)", (job_id,))
