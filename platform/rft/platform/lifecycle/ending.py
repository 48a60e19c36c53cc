"""How a job fails, is cancelled or is paused: in its row and its events, in the caller's transaction."""

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.job import JobStatus
from rft.platform.lifecycle.events import add_event, notify
from rft.platform.lifecycle.job_lease import release
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.records import JobError
from rft.platform.lifecycle.repository import LifecycleRepository
from rft.platform.lifecycle.results import write_results
from rft.platform.lifecycle.run_repository import RunRepository
from rft.platform.store.storable import storable_text

CANCELLED = "Fine-tuning job cancelled"


async def fail(connection: AsyncConnection[TupleRow], lease: Lease, error: JobError, *, key: str) -> None:
    """The job failed, said in its object and its events; the lease is given back. Raises LeaseLost."""
    stored = error.model_copy(update={"message": storable_text(error.message)})
    job = RunRepository(connection, lease)
    await job.lock()
    await job.set_error(stored)
    message = f"The job failed: {error.message}"
    await add_event(connection, lease.id, message, level="error", data=stored.model_dump(), key=f"{key}:failed")
    await release(connection, lease, JobStatus.FAILED)


async def pause_for_failure(connection: AsyncConnection[TupleRow], lease: Lease, error: JobError, *, key: str) -> None:
    """The platform failed the job, which waits until it is resumed; the lease is given back. Raises LeaseLost."""
    job = RunRepository(connection, lease)
    await job.lock()
    step = await job.set_pause_reason(error.code, storable_text(error.message))
    await add_paused_event(connection, lease.id, step, key=f"{key}:paused", error=error)
    await release(connection, lease, JobStatus.PAUSED)


async def cancel(connection: AsyncConnection[TupleRow], job_id: str) -> None:
    """Cancel a job at once, whoever has its lease. Raises IllegalTransition when it is over."""
    await LifecycleRepository(connection).cancel(job_id)
    await _say_cancelled(connection, job_id)


async def cancel_unleased(connection: AsyncConnection[TupleRow], job_id: str) -> bool:
    """Cancel a job that is to be cancelled and that no worker has; False when there was nothing to do."""
    if not await LifecycleRepository(connection).cancel_unleased(job_id):
        return False
    await _say_cancelled(connection, job_id)
    return True


async def _say_cancelled(connection: AsyncConnection[TupleRow], job_id: str) -> None:
    await write_results(connection, job_id, JobStatus.CANCELLED)
    await add_event(connection, job_id, CANCELLED, key="cancelled")
    await notify(connection, job_id)


async def pause_unleased(connection: AsyncConnection[TupleRow], job_id: str) -> bool:
    """Pause a job that is to be paused and whose worker is gone; False when there was nothing to do."""
    paused = await LifecycleRepository(connection).pause_unleased(job_id)
    if paused is None:
        return False
    token, step = paused
    await add_paused_event(connection, job_id, step, key=f"paused:{token}")
    await notify(connection, job_id)
    return True


async def add_paused_event(
    connection: AsyncConnection[TupleRow],
    job_id: str,
    current_step: int | None,
    *,
    key: str,
    error: JobError | None = None,
) -> None:
    """The job is paused from now on, and this is what is there of it. `error`: why, where its customer did not."""
    kept = "Nothing is trained yet" if current_step is None else f"The checkpoint of step {current_step} can be used"
    why = "" if error is None else f" {error.message}"
    await add_event(
        connection,
        job_id,
        f"The job is paused.{why} {kept}; resume the job to go on",
        level="info" if error is None else "error",
        data={"code": "paused", "step": current_step, **({} if error is None else {"reason": error.code})},
        key=key,
    )
