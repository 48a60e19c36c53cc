"""Running one job: take the lease, keep a trainer running until the run is over, write down how it ended."""

import logging
import time

import psycopg

from rft.platform.lifecycle.ending import cancel_unleased, pause_unleased
from rft.platform.lifecycle.job_lease import Refusal, take
from rft.platform.lifecycle.lease import LeaseLost
from rft.platform.lifecycle.owner import new_owner
from rft.platform.lifecycle.repository import LifecycleRepository
from rft.platform.store.bell import RUN_JOB, Bell, ring_all
from rft.platform.worker.job_run import JobRun
from rft.platform.worker.workplace import Workplace

_LOG = logging.getLogger(__name__)


async def run_job(job_id: str, place: Workplace) -> str:
    """Run the job if it may run now, or an older one that waits. Returns what came of it, for the log."""
    async with place.database.transaction() as connection:
        if await cancel_unleased(connection, job_id):
            return "cancelled"
        if await pause_unleased(connection, job_id):
            return "paused"
    asked_at = time.monotonic()
    settings = place.settings
    async with place.database.connection() as connection:
        lease = await take(
            connection, job_id, owner=new_owner(), ttl_s=settings.lease_ttl_s, slots=settings.train_slots
        )
    if isinstance(lease, Refusal):
        return lease
    if lease.id != job_id:
        await ring_all([Bell(RUN_JOB, job_id)], place.ringer)  # Its message was spent on the older one.
    try:
        return await JobRun(place, lease, asked_at).execute()
    except LeaseLost as error:
        _LOG.error("%s: %s", lease.id, error)
        return "lease lost"
    finally:
        await _ring_next(place)


async def _ring_next(place: Workplace) -> None:
    """A slot is free on this host: wake the job that has waited longest, sooner than the reconciler would."""
    if place.is_stopping():
        return
    try:
        async with place.database.transaction() as connection:
            next_id = await LifecycleRepository(connection).next_queued()
    except psycopg.OperationalError as error:
        _LOG.warning("the next job was not woken, the reconciler will: %s", error)
        return
    if next_id is not None:
        await ring_all([Bell(RUN_JOB, next_id)], place.ringer)
