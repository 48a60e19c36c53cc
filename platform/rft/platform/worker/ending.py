"""How a job ends badly: the error in its object, the same in its events."""

import json
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.job import JobStatus
from rft.platform.jobs.repository import JobError
from rft.platform.worker.job_events import add_event
from rft.platform.worker.lease import Lease, hold_row, notify, release
from rft.platform.worker.result_file import write_results
from rft.platform.worker.storable import storable_text

CANCELLED = "Fine-tuning job cancelled"
_EXPIRED: LiteralString = "(lease_until is null or lease_until < clock_timestamp())"


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


async def pause_for_failure(connection: AsyncConnection[TupleRow], lease: Lease, error: JobError, *, key: str) -> None:
    """The platform failed the job, which waits until it is resumed; the lease is given back. Raises LeaseLost."""
    message = storable_text(error.message)
    await hold_row(connection, lease)
    cursor = await connection.execute(
        "update jobs set pause_reason = jsonb_build_object('code', %(code)s::text, 'message', %(message)s::text,"
        " 'since', extract(epoch from clock_timestamp()), 'step', current_step)"
        " where id = %(id)s and lease_token = %(token)s returning current_step",
        {"code": error.code, "message": message, "id": lease.job_id, "token": lease.token},
    )
    row = await cursor.fetchone()
    assert row is not None, "its row is held"
    await add_paused_event(connection, lease.job_id, row[0], key=f"{key}:paused", error=error)
    await release(connection, lease, JobStatus.PAUSED)


async def cancel_unheld(connection: AsyncConnection[TupleRow], job_id: str) -> bool:
    """Cancel a job that is to be cancelled and that no worker holds; False when there was nothing to do."""
    cursor = await connection.execute(
        "update jobs set status = 'cancelled', finished_at = clock_timestamp(), hold = null,"
        " pause_reason = null, is_pause_requested = false, lease_owner = null, lease_until = null"
        " where id = %s and is_cancel_requested and status in ('validating_files', 'queued', 'running', 'paused')"
        " and " + _EXPIRED + " returning id",
        (job_id,),
    )
    if await cursor.fetchone() is None:
        return False
    await write_results(connection, job_id, JobStatus.CANCELLED)
    await add_event(connection, job_id, CANCELLED, key="cancelled")
    await notify(connection, job_id)
    return True


async def pause_unheld(connection: AsyncConnection[TupleRow], job_id: str) -> bool:
    """Pause a job that is to be paused and whose worker is gone; False when there was nothing to do."""
    cursor = await connection.execute(
        "update jobs set status = 'paused', hold = null, is_pause_requested = false, lease_owner = null,"
        " lease_until = null"
        " where id = %s and is_pause_requested and not is_cancel_requested"
        " and (status in ('queued', 'running') or hold is not null)"
        " and " + _EXPIRED + " returning lease_token, current_step",
        (job_id,),
    )
    row = await cursor.fetchone()
    if row is None:
        return False
    await add_paused_event(connection, job_id, row[1], key=f"paused:{row[0]}")
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
