"""Moves of the state machine that the customer asks for. Runners move jobs through their lease.

Cancelling is done at once, whoever runs the job: its lease is fenced, and its worker stops the trainer when it finds
out. To be paused, a job that a worker holds (running, or `paused` with a hold) is only asked: the worker stops the
trainer and makes the move. Any other job is moved at once.
"""

import secrets

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.base import JsonObject
from rft.core.errors import IllegalTransition
from rft.core.job import TERMINAL, JobStatus
from rft.platform.jobs.repository import JobRow
from rft.platform.lifecycle import ending
from rft.platform.lifecycle.events import add_event, notify
from rft.platform.lifecycle.repository import LifecycleRepository


async def cancel(connection: AsyncConnection[TupleRow], job: JobRow) -> None:
    """Cancel a job whose row the caller holds locked. Raises IllegalTransition when it is over."""
    if job.status in TERMINAL:
        raise IllegalTransition(f"is {job.status} and can no longer be cancelled")
    await ending.cancel(connection, job.id)


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
        await LifecycleRepository(connection).request_pause(job.id)
        message = "Pause requested; the current step is given up and will be done again"
        data: JsonObject = {"code": "pause_requested"}
        await add_event(connection, job.id, message, data=data, key=_once("pause-requested"))
    else:
        await LifecycleRepository(connection).pause(job.id)
        await ending.add_paused_event(connection, job.id, job.current_step, key=_once("paused"))
    await notify(connection, job.id)


async def resume(
    connection: AsyncConnection[TupleRow], job: JobRow, *, max_importance_gap: float | None = None
) -> None:
    """Queue a paused job whose row the caller holds locked; its message counts as enqueued now.

    `max_importance_gap`: what counts from now on; None: what counted before.
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
    await LifecycleRepository(connection).resume(job.id, max_importance_gap=max_importance_gap)
    limit = "" if max_importance_gap is None else f" with max_importance_gap {max_importance_gap:g}"
    step = "the beginning" if job.current_step is None else f"the checkpoint of step {job.current_step}"
    message = f"The job is resumed{limit}; it is queued to go on from {step}"
    await add_event(connection, job.id, message, data={"code": "queued_again"}, key=_once("resumed"))
    await notify(connection, job.id)


def _has_runner(job: JobRow) -> bool:
    return job.status is JobStatus.RUNNING or job.hold is not None


def _once(word: str) -> str:
    """An event key like no other: these moves can be made again and again."""
    return f"{word}:{secrets.token_hex(8)}"
