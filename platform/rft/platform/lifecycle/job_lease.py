"""The lease of a job: which worker may validate or run it, and giving it back."""

from enum import StrEnum

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.job import TERMINAL, JobStatus
from rft.platform.lifecycle.events import notify
from rft.platform.lifecycle.lease import Lease, occupants
from rft.platform.lifecycle.owner import host_of
from rft.platform.lifecycle.repository import JOBS, LifecycleRepository
from rft.platform.lifecycle.results import write_results
from rft.platform.lifecycle.run_repository import RunRepository
from rft.platform.lifecycle.waiting import tell_waiting
from rft.platform.store.advisory_locks import lock_host_slots


class Refusal(StrEnum):
    """Why no lease was given."""

    NOT_RUNNABLE = "not_runnable"
    """Finished, cancelled, paused, unknown, or another worker has it."""
    NO_SLOT = "no_slot"
    """This host already runs as many jobs as it may."""


async def take(
    connection: AsyncConnection[TupleRow], job_id: str, *, owner: str, ttl_s: float, slots: int
) -> Lease | Refusal:
    """The lease of a queued job, or of a running or held one whose worker fell silent.

    Where an older job is queued, it is that one's lease: messages come in any order, and slots are given by age.
    """
    async with connection.transaction():
        host = host_of(owner)
        await lock_host_slots(connection, host)
        holders = await occupants(connection, JOBS, besides=job_id, host=host)
        if len(holders) >= slots:
            if await tell_waiting(connection, job_id, holders):
                await notify(connection, job_id)
            return Refusal.NO_SLOT
        jobs = LifecycleRepository(connection)
        slot = min(set(range(slots)) - await jobs.train_slots(holders))
        taken = await jobs.take_oldest(job_id, owner=owner, ttl_s=ttl_s, slot=slot)
        if taken is None:
            return Refusal.NOT_RUNNABLE
        taken_id, token = taken
        await notify(connection, taken_id)
        return Lease(JOBS, taken_id, token, owner, slot)


async def take_for_validation(
    connection: AsyncConnection[TupleRow], job_id: str, *, owner: str, ttl_s: float
) -> Lease | None:
    """The lease of a job whose files are to be validated; None when it needs none."""
    async with connection.transaction():
        token = await LifecycleRepository(connection).take_for_validation(job_id, owner=owner, ttl_s=ttl_s)
    return None if token is None else Lease(JOBS, job_id, token, owner)


async def release(connection: AsyncConnection[TupleRow], lease: Lease, status: JobStatus) -> None:
    """Give the job back under its new status: queued, paused or a terminal one. Raises LeaseLost, IllegalTransition."""
    job = RunRepository(connection, lease)
    await job.lock()
    await job.release(status)
    if status in TERMINAL:
        await write_results(connection, lease.id, status)
    await notify(connection, lease.id)


async def free_slot(connection: AsyncConnection[TupleRow], lease: Lease) -> None:
    """The trainer of a job that was cancelled under this lease has stopped."""
    await LifecycleRepository(connection).free_slot(lease.id, lease.owner)
    await notify(connection, lease.id)
