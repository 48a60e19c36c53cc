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


class Refusal(StrEnum):
    """Why no lease was given."""

    NOT_RUNNABLE = "not_runnable"
    """Finished, cancelled, paused, unknown, or in another worker's hands."""
    NO_SLOT = "no_slot"
    """This host already runs as many jobs as it may."""


class Wish(StrEnum):
    """What the customer wants of the job's runner."""

    CANCEL = "cancel"
    PAUSE = "pause"


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


async def take(
    connection: AsyncConnection[TupleRow], job_id: str, *, owner: str, ttl_s: float, slots: int
) -> Lease | Refusal:
    """The lease of a queued job, or of a running or held one whose worker fell silent."""
    async with connection.transaction():
        host = host_of(owner)
        await lock_host_slots(connection, host)
        used = await connection.execute(
            "select id from jobs where status in ('running', 'paused') and id <> %s"
            " and lease_until > clock_timestamp() and split_part(lease_owner, '/', 1) = %s",
            (job_id, host),
        )
        holders = [str(holder) for (holder,) in await used.fetchall()]
        if len(holders) >= slots:
            if await tell_waiting(connection, job_id, holders):
                await notify(connection, job_id)
            return Refusal.NO_SLOT
        taken = await connection.execute(
            "update jobs set status = 'running', hold = null, waits_for = null, lease_owner = %(owner)s,"
            " lease_token = lease_token + 1,"
            " lease_until = clock_timestamp() + make_interval(secs => %(ttl)s),"
            " started_at = coalesce(started_at, clock_timestamp())"
            " where id = %(id)s and (status in ('queued', 'running') or hold is not null)"
            " and not is_cancel_requested and not is_pause_requested"
            " and (lease_until is null or lease_until < clock_timestamp())"
            " returning lease_token, launches",
            {"owner": owner, "ttl": ttl_s, "id": job_id},
        )
        row = await taken.fetchone()
        if row is None:
            return Refusal.NOT_RUNNABLE
        await notify(connection, job_id)
        return Lease(job_id=job_id, token=row[0], owner=owner, is_first=row[1] == 0)


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


async def heartbeat(connection: AsyncConnection[TupleRow], lease: Lease, *, ttl_s: float) -> Wish | None:
    """Keep the lease for another `ttl_s`; tells what the customer wants of the job by now. Raises LeaseLost."""
    async with connection.transaction():
        beat = await connection.execute(
            "update jobs set lease_until = clock_timestamp() + make_interval(secs => %(ttl)s)"
            " where id = %(id)s and" + _STANDS + " returning is_cancel_requested, is_pause_requested",
            {"ttl": ttl_s, "id": lease.job_id, "token": lease.token},
        )
        row = await beat.fetchone()
    if row is None:
        raise LeaseLost(f"the lease {lease.token} of {lease.job_id} is not ours any more")
    if row[0]:
        return Wish.CANCEL
    return Wish.PAUSE if row[1] else None


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
        raise LeaseLost(f"the lease {lease.token} of {lease.job_id} is not ours any more")
    return int(row[0])


async def notify(connection: AsyncConnection[TupleRow], job_id: str) -> None:
    """Tell whoever watches this job that its rows changed; heard when the transaction commits."""
    await connection.execute("select pg_notify('rft_jobs', %s)", (job_id,))
