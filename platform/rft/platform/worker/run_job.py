"""Running one job: take the lease, keep a trainer running until the run is over, write down how it ended."""

import logging
import time

import psycopg

from rft.platform.store.bell import RUN_JOB, Bell, ring_all
from rft.platform.worker.ending import cancel_unheld, pause_unheld
from rft.platform.worker.job_run import JobRun
from rft.platform.worker.lease import LeaseLost, Refusal, take
from rft.platform.worker.owner import new_owner
from rft.platform.worker.workplace import Workplace

_LOG = logging.getLogger(__name__)


async def run_job(job_id: str, place: Workplace) -> str:
    """Run the job if it may run now, or an older one that waits. Returns what came of it, for the log."""
    async with place.database.transaction() as connection:
        if await cancel_unheld(connection, job_id):
            return "cancelled"
        if await pause_unheld(connection, job_id):
            return "paused"
    asked_at = time.monotonic()
    settings = place.settings
    async with place.database.connection() as connection:
        lease = await take(
            connection, job_id, owner=new_owner(), ttl_s=settings.lease_ttl_s, slots=settings.train_slots
        )
    if isinstance(lease, Refusal):
        return lease
    if lease.job_id != job_id:
        await ring_all([Bell(RUN_JOB, job_id)], place.ringer)  # Its message was spent on the older one.
    try:
        return await JobRun(place, lease, asked_at).execute()
    except LeaseLost as error:
        _LOG.error("%s: %s", lease.job_id, error)
        return "lease lost"
    finally:
        await _ring_next(place)


async def _ring_next(place: Workplace) -> None:
    """A slot is free on this host: wake the job that has waited longest, sooner than the reconciler would."""
    if place.is_stopping():
        return
    try:
        async with place.database.transaction() as connection:
            cursor = await connection.execute(
                "update jobs set rung_at = clock_timestamp() where id = (select id from jobs where status = 'queued'"
                " order by created_at, id limit 1 for update skip locked) returning id"
            )
            row = await cursor.fetchone()
    except psycopg.OperationalError as error:
        _LOG.warning("the next job was not woken, the reconciler will: %s", error)
        return
    if row is not None:
        await ring_all([Bell(RUN_JOB, str(row[0]))], place.ringer)
