"""Moves of the state machine that the customer asks for. Runners move jobs through their lease.

Cancelling is done at once, whoever runs the job: its lease is fenced, and its worker stops the trainer when it finds
out. To be paused, a job that a worker holds (running, or `paused` with a hold) is only asked: the worker stops the
trainer and makes the move. Any other job is moved at once.
"""

import secrets

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.errors import IllegalTransition
from rft.core.job import TERMINAL, JobStatus, advance
from rft.platform.jobs.repository import JobRow
from rft.platform.worker.ending import CANCELLED, add_paused_event
from rft.platform.worker.job_events import add_event
from rft.platform.worker.lease import cancel_and_fence, notify


async def cancel(connection: AsyncConnection[TupleRow], job: JobRow) -> None:
    """Cancel a job whose row the caller holds locked. Raises IllegalTransition when it is over."""
    if job.status in TERMINAL:
        raise IllegalTransition(f"is {job.status} and can no longer be cancelled")
    advance(job.status, JobStatus.CANCELLED)
    await cancel_and_fence(connection, job.id)
    await add_event(connection, job.id, CANCELLED, key="cancelled")


async def pause(connection: AsyncConnection[TupleRow], job: JobRow) -> None:
    """Pause a job whose row the caller holds locked; one that is paused or about to be stays as it is.

    Raises IllegalTransition when it is over, being cancelled, or not past its files yet.
    """
    if job.status is JobStatus.VALIDATING_FILES:
        raise IllegalTransition("is still having its files checked and can be paused once it is queued")
    if job.status in TERMINAL:
        raise IllegalTransition(f"is {job.status} and can no longer be paused")
    if job.is_cancel_requested:
        raise IllegalTransition("is being cancelled and can no longer be paused")
    if job.is_pause_requested or (job.status is JobStatus.PAUSED and job.hold is None):
        return
    if _has_runner(job):
        await connection.execute("update jobs set is_pause_requested = true where id = %s", (job.id,))
        message = "Pause requested; the current step is given up and will be done again"
        await add_event(connection, job.id, message, key=_once("pause-requested"))
    else:
        status = advance(job.status, JobStatus.PAUSED)
        await connection.execute(
            "update jobs set status = %s, lease_owner = null, lease_until = null where id = %s", (status, job.id)
        )
        await add_paused_event(connection, job.id, job.current_step, key=_once("paused"))
    await notify(connection, job.id)


async def resume(connection: AsyncConnection[TupleRow], job: JobRow) -> None:
    """Queue a paused job whose row the caller holds locked; its bell counts as rung now.

    Raises IllegalTransition when its customer did not pause it.
    """
    if job.is_cancel_requested and job.status not in TERMINAL:
        raise IllegalTransition("is being cancelled and can no longer be resumed")
    if job.is_pause_requested:
        raise IllegalTransition("is still being paused and can be resumed once it is paused")
    if job.hold is not None:
        raise IllegalTransition(f"waits for {job.hold.endpoint} and resumes by itself once that answers again")
    if job.status is not JobStatus.PAUSED:
        raise IllegalTransition(f"is {job.status}; only a paused job can be resumed")
    await connection.execute(
        "update jobs set status = %s, launches_without_progress = 0, pause_reason = null, rung_at = clock_timestamp()"
        " where id = %s",
        (advance(job.status, JobStatus.QUEUED), job.id),
    )
    step = "the beginning" if job.current_step is None else f"the checkpoint of step {job.current_step}"
    await add_event(connection, job.id, f"The job is resumed; it is queued to go on from {step}", key=_once("resumed"))
    await notify(connection, job.id)


def _has_runner(job: JobRow) -> bool:
    return job.status is JobStatus.RUNNING or job.hold is not None


def _once(word: str) -> str:
    """An event key like no other: these moves can be made again and again."""
    return f"{word}:{secrets.token_hex(8)}"
