"""Moves of the state machine that the customer asks for. Runners move jobs through their lease."""

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.errors import IllegalTransition
from rft.core.job import TERMINAL, JobStatus, advance
from rft.platform.jobs.repository import JobRow
from rft.platform.worker.job_events import add_event
from rft.platform.worker.lease import notify


async def cancel(connection: AsyncConnection[TupleRow], job: JobRow) -> None:
    """Cancel a job whose row the caller holds locked. Raises IllegalTransition when it is over.

    A job that runs is asked to stop and becomes `cancelled` when its runner has; any other is cancelled at once.
    """
    if job.status in TERMINAL:
        raise IllegalTransition(f"a job that is {job.status} cannot be cancelled")
    if job.status is JobStatus.RUNNING:
        await connection.execute("update jobs set is_cancel_requested = true where id = %s", (job.id,))
        message, key = "Cancellation requested; the current step is given up", "cancel-requested"
    else:
        status = advance(job.status, JobStatus.CANCELLED)
        await connection.execute(
            "update jobs set status = %s, finished_at = clock_timestamp(), is_cancel_requested = true,"
            " lease_owner = null, lease_until = null where id = %s",
            (status, job.id),
        )
        message, key = "Fine-tuning job cancelled", "cancelled"
    await add_event(connection, job.id, message, key=key)
    await notify(connection, job.id)
