"""The reconciler: no lost worker and no lost message leaves a job lying about. Runs in whichever API holds the lock."""

import asyncio
import logging

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.rehearsals.reconciling import reconcile_rehearsals
from rft.platform.settings import Settings
from rft.platform.settings import settings as process_settings
from rft.platform.store.advisory_locks import AdvisoryLock, try_lock
from rft.platform.store.bell import RUN_JOB, VALIDATE_JOB, Bell, Ringer, ring_all
from rft.platform.store.database import Database
from rft.platform.worker.ending import cancel_unheld, pause_unheld
from rft.platform.worker.job_events import add_event
from rft.platform.worker.lease import notify
from rft.platform.worker.owner import is_surely_dead

_LOG = logging.getLogger(__name__)
_UNHEARD_ROUNDS = 4
"""A bell that was not answered for this many rounds is rung again."""


async def reconcile_forever(
    database: Database, *, settings: Settings | None = None, ringer: Ringer | None = None
) -> None:
    """Look for lost jobs every `reconcile_s` until cancelled. A database that is away is waited for."""
    settings = settings or process_settings()
    while True:
        try:
            await reconcile_once(database, reconcile_s=settings.reconcile_s, ringer=ringer)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            _LOG.warning("the reconciler could not reach the database: %s", error)
        except Exception:
            # It must outlive any bug of its own: without it a lost job stays lost.
            _LOG.exception("the reconciler stumbled")
        await asyncio.sleep(settings.reconcile_s)


async def reconcile_once(database: Database, *, reconcile_s: float, ringer: Ringer | None = None) -> list[Bell]:
    """One look; returns the bells it rang. Does nothing while another process looks."""
    async with database.transaction() as connection:
        if not await try_lock(connection, AdvisoryLock.RECONCILER):
            return []
        await _end_dead_leases(connection)
        await _cancel_unheld(connection)
        await _pause_unheld(connection)
        await _requeue_expired(connection)
        bells = await _unanswered(connection, after_s=reconcile_s * _UNHEARD_ROUNDS)
        bells += await reconcile_rehearsals(connection, unheard_s=reconcile_s * _UNHEARD_ROUNDS)
    await ring_all(bells, ringer)
    return bells


async def _end_dead_leases(connection: AsyncConnection[TupleRow]) -> None:
    """A worker of this machine that is gone need not be waited for."""
    cursor = await connection.execute(
        "select id, lease_token, lease_owner from jobs"
        " where status in ('validating_files', 'running', 'paused', 'cancelled') and lease_until > clock_timestamp()"
    )
    for job_id, token, owner in await cursor.fetchall():
        if is_surely_dead(owner):
            await connection.execute(
                "update jobs set lease_until = clock_timestamp(), rung_at = null where id = %s and lease_token = %s",
                (job_id, token),
            )


async def _cancel_unheld(connection: AsyncConnection[TupleRow]) -> None:
    cursor = await connection.execute(
        "select id from jobs where is_cancel_requested"
        " and status in ('validating_files', 'queued', 'running', 'paused')"
        " and (lease_until is null or lease_until < clock_timestamp())"
    )
    for (job_id,) in await cursor.fetchall():
        await cancel_unheld(connection, job_id)


async def _pause_unheld(connection: AsyncConnection[TupleRow]) -> None:
    cursor = await connection.execute(
        "select id from jobs where is_pause_requested and status in ('queued', 'running', 'paused')"
        " and (lease_until is null or lease_until < clock_timestamp())"
    )
    for (job_id,) in await cursor.fetchall():
        await pause_unheld(connection, job_id)


async def _requeue_expired(connection: AsyncConnection[TupleRow]) -> None:
    """A running or held job whose worker fell silent waits for another; clearing `rung_at` has its bell rung at once.

    One that its customer paused has no hold and is left alone.
    """
    cursor = await connection.execute(
        "update jobs set status = 'queued', hold = null, lease_owner = null, lease_until = null, rung_at = null"
        " where (status = 'running' or (status = 'paused' and hold is not null))"
        " and not is_pause_requested and (lease_until is null or lease_until < clock_timestamp())"
        " returning id, lease_token"
    )
    for job_id, token in await cursor.fetchall():
        _LOG.warning("%s: its worker fell silent, the job is queued again", job_id)
        message = "The worker fell silent; the job goes on from its last checkpoint when a worker is there"
        await add_event(connection, job_id, message, level="warn", key=f"requeued:{token}")
        await notify(connection, job_id)


async def _unanswered(connection: AsyncConnection[TupleRow], *, after_s: float) -> list[Bell]:
    cursor = await connection.execute(
        "update jobs set rung_at = clock_timestamp() where status in ('validating_files', 'queued')"
        " and not is_cancel_requested and (lease_until is null or lease_until < clock_timestamp())"
        " and (rung_at is null or rung_at < clock_timestamp() - make_interval(secs => %s))"
        " returning id, status",
        (after_s,),
    )
    rows = await cursor.fetchall()
    return [Bell(RUN_JOB if status == "queued" else VALIDATE_JOB, str(job_id)) for job_id, status in rows]
