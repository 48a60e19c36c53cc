"""How a job ends badly: the error in its object, the same in its events."""

import json

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.job import JobStatus
from rft.platform.jobs.repository import JobError
from rft.platform.worker.job_events import add_event
from rft.platform.worker.lease import Lease, hold_row, notify, release
from rft.platform.worker.storable import storable_text

CANCELLED = "Fine-tuning job cancelled"


async def fail(connection: AsyncConnection[TupleRow], lease: Lease, error: JobError, *, key: str) -> None:
    """The job failed, said in its object and its events; the lease is given back. Raises LeaseLost."""
    document = {**error.model_dump(), "message": storable_text(error.message)}
    await hold_row(connection, lease)
    await connection.execute(
        "update jobs set error = %s where id = %s and lease_token = %s",
        (json.dumps(document), lease.job_id, lease.token),
    )
    await add_event(
        connection,
        lease.job_id,
        f"The job failed: {error.message}",
        level="error",
        data={**document},
        key=f"{key}:failed",
    )
    await release(connection, lease, JobStatus.FAILED)


async def cancel_unheld(connection: AsyncConnection[TupleRow], job_id: str) -> bool:
    """Cancel a job that is to be cancelled and that no worker holds; False when there was nothing to do."""
    cursor = await connection.execute(
        "update jobs set status = 'cancelled', finished_at = clock_timestamp(), lease_owner = null, lease_until = null"
        " where id = %s and is_cancel_requested and status in ('validating_files', 'queued', 'running', 'paused')"
        " and (lease_until is null or lease_until < clock_timestamp()) returning id",
        (job_id,),
    )
    if await cursor.fetchone() is None:
        return False
    await add_event(connection, job_id, CANCELLED, key="cancelled")
    await notify(connection, job_id)
    return True
