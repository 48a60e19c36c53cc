"""Running one job: take the lease, keep a trainer running until the run is over, write down how it ended."""

import logging
import time

import psycopg

from rft.platform.lifecycle.ending import cancel_unleased, pause_unleased
from rft.platform.lifecycle.job_lease import Refusal, take
from rft.platform.lifecycle.lease import LeaseLost
from rft.platform.lifecycle.owner import new_owner
from rft.platform.lifecycle.repository import LifecycleRepository
from rft.platform.queue.messages import RUN_JOB, TaskMessage
from rft.platform.queue.publishing import enqueue_all
from rft.platform.worker.context import WorkerContext
from rft.platform.worker.job_run import JobRun
from rft.platform.worker.left_open import tell_left_open

_LOG = logging.getLogger(__name__)


async def run_job(job_id: str, context: WorkerContext) -> str:
    """Run the job if it may run now, or an older one that waits. Returns what came of it, for the log."""
    async with context.database.transaction() as connection:
        is_cancelled = await cancel_unleased(connection, job_id)
        has_left_open = await LifecycleRepository(connection).may_have_left_open(job_id)
        if not is_cancelled and await pause_unleased(connection, job_id):
            return "paused"
    if has_left_open:
        await tell_left_open(job_id, context)
    if is_cancelled or has_left_open:
        return "cancelled" if is_cancelled else "was over"
    asked_at = time.monotonic()
    settings = context.settings
    async with context.database.connection() as connection:
        lease = await take(
            connection, job_id, owner=new_owner(), ttl_s=settings.lease_ttl_s, slots=settings.train_slots
        )
    if isinstance(lease, Refusal):
        return lease
    if lease.id != job_id:
        await enqueue_all([TaskMessage(RUN_JOB, job_id)], context.enqueuer)  # Its message was spent on the older one.
    try:
        return await JobRun(context, lease, asked_at).execute()
    except LeaseLost as error:
        _LOG.error("%s: %s", lease.id, error)
        return "lease lost"
    finally:
        await _enqueue_next(context)


async def _enqueue_next(context: WorkerContext) -> None:
    """A slot is free on this host: enqueue the job that has waited longest, sooner than the reconciler would."""
    if context.is_stopping():
        return
    try:
        async with context.database.transaction() as connection:
            next_id = await LifecycleRepository(connection).next_queued()
    except psycopg.OperationalError as error:
        _LOG.warning("the next job was not woken, the reconciler will: %s", error)
        return
    if next_id is not None:
        await enqueue_all([TaskMessage(RUN_JOB, next_id)], context.enqueuer)
