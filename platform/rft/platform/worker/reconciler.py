"""The reconciler enqueues jobs whose worker or message was lost. Runs in whichever API process holds the lock."""

import asyncio
import logging

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.base import JsonObject
from rft.core.job import JobStatus
from rft.platform.evals.reconciling import reconcile_eval_runs
from rft.platform.lifecycle.ending import cancel_unleased, pause_unleased
from rft.platform.lifecycle.events import add_event, notify
from rft.platform.lifecycle.expired_leases import ExpiredLeases
from rft.platform.lifecycle.lease import end_dead_leases
from rft.platform.lifecycle.reconciler_repository import ReconcilerRepository
from rft.platform.lifecycle.repository import JOBS
from rft.platform.queue.messages import RUN_JOB, VALIDATE_JOB, TaskMessage
from rft.platform.queue.publishing import Enqueuer, enqueue_all
from rft.platform.regrades.repository import REGRADES, RegradeRepository
from rft.platform.rehearsals.reconciling import reconcile_rehearsals
from rft.platform.settings import Settings
from rft.platform.settings import settings as process_settings
from rft.platform.store.advisory_locks import AdvisoryLock, try_lock
from rft.platform.store.database import Database

_LOG = logging.getLogger(__name__)
_UNHEARD_ROUNDS = 4
"""A message that was not answered for this many rounds is sent again."""
_ENQUEUED = 16
"""Queued jobs whose messages are sent in a round. Whichever worker takes one runs the oldest job, and most are refused:
all hosts are busy."""
_BEYOND_BEAT_S = 1.0
"""Longer than a beat takes to arrive."""
_WORKERS_BEAT_S: float = Settings.model_fields["heartbeat_s"].default
"""Of workers that are started by hand, on other machines, beside an `rft up` that beats more often."""


async def reconcile_forever(
    database: Database, *, settings: Settings | None = None, enqueuer: Enqueuer | None = None
) -> None:
    """Look for lost jobs every `reconcile_s` until cancelled. A database that is away is waited for."""
    settings = settings or process_settings()
    leases = leases_of(settings)
    while True:
        try:
            await reconcile_once(database, leases, reconcile_s=settings.reconcile_s, enqueuer=enqueuer)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            _LOG.warning("the reconciler could not reach the database: %s", error)
        except Exception:
            # It must go on after any bug of its own: without it a lost job stays lost.
            _LOG.exception("the reconciler stumbled")
        await asyncio.sleep(settings.reconcile_s)


def leases_of(settings: Settings) -> ExpiredLeases:
    """Leases that nobody has seen run out so far, with the patience that whoever beats most slowly needs."""
    return ExpiredLeases(patience_s=max(settings.heartbeat_s, _WORKERS_BEAT_S) + _BEYOND_BEAT_S)


async def reconcile_once(
    database: Database, leases: ExpiredLeases, *, reconcile_s: float, enqueuer: Enqueuer | None = None
) -> list[TaskMessage]:
    """One pass; returns the messages it enqueued. Does nothing while another process looks.

    `leases`: those that had run out at earlier passes.
    """
    async with database.transaction() as connection:
        if not await try_lock(connection, AdvisoryLock.RECONCILER):
            return []
        messages = await _reconcile_jobs(connection, leases, unheard_s=reconcile_s * _UNHEARD_ROUNDS)
        messages += await reconcile_rehearsals(connection, leases, unheard_s=reconcile_s * _UNHEARD_ROUNDS)
        messages += await reconcile_eval_runs(connection, leases, unheard_s=reconcile_s * _UNHEARD_ROUNDS)
        await end_dead_leases(connection, REGRADES)
        await RegradeRepository(connection).fail_expired()
    await enqueue_all(messages, enqueuer)
    return messages


async def _reconcile_jobs(
    connection: AsyncConnection[TupleRow], leases: ExpiredLeases, *, unheard_s: float
) -> list[TaskMessage]:
    jobs = ReconcilerRepository(connection)
    await jobs.forget_message(await end_dead_leases(connection, JOBS))
    found = await leases.look(connection, JOBS)
    for job_id in await jobs.to_cancel(found.silent):
        await cancel_unleased(connection, job_id)
    for job_id in await jobs.to_pause(found.silent):
        await pause_unleased(connection, job_id)
    for job_id, token in await jobs.requeue_expired(found.silent):
        _LOG.warning("%s: its worker fell silent, the job is queued again", job_id)
        message = "The worker fell silent; the job goes on from its last checkpoint when a worker is there"
        data: JsonObject = {"code": "worker_silent"}
        await add_event(connection, job_id, message, level="warn", data=data, key=f"requeued:{token}")
        await notify(connection, job_id)
    over = [*await jobs.left_cancelled(found.silent), *await jobs.left_open(after_s=unheard_s)]
    left = [TaskMessage(RUN_JOB, job_id) for job_id in over]
    if found.waited_for:  # Whoever lives after all has a slot, which looks free until the next beat.
        return left
    unvalidated = await jobs.unanswered(JobStatus.VALIDATING_FILES, after_s=unheard_s)
    queued = await jobs.unanswered(JobStatus.QUEUED, after_s=unheard_s, limit=_ENQUEUED)
    return [
        *left,
        *(TaskMessage(VALIDATE_JOB, job_id) for job_id in unvalidated),
        *(TaskMessage(RUN_JOB, job_id) for job_id in queued),
    ]
