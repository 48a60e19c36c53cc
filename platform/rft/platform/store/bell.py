"""The queue's bell: a message that says "look at this job", and nothing else. The job row is the truth."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_LOG = logging.getLogger(__name__)

VALIDATE_JOB = "rft.validate_job"
RUN_JOB = "rft.run_job"
REHEARSE = "rft.rehearse"
QUEUES = {VALIDATE_JOB: "control", REHEARSE: "control", RUN_JOB: "train"}
RING_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Bell:
    """One task to publish for one job."""

    task_name: str
    job_id: str

    @property
    def queue(self) -> str:
        """Where its workers listen."""
        return QUEUES[self.task_name]


Ringer = Callable[[Bell], None]
"""Publishes one bell; blocking, may raise anything."""


def celery_ringer() -> Ringer:
    """Publishes through the Celery application."""
    # Imported late: the worker's module imports repositories, and Celery costs half a second to import.
    from rft.platform.worker.app import app

    def ring(bell: Bell) -> None:
        # A connection of its own: pooled ones outlive the broker they led to, and wait for its return.
        with app.connection_for_write(transport_options={"max_retries": 1, "interval_start": 0}) as connection:
            app.send_task(bell.task_name, args=[bell.job_id], queue=bell.queue, retry=False, connection=connection)

    return ring


async def ring_all(bells: Sequence[Bell], ringer: Ringer | None = None) -> None:
    """Publish all bells. Never raises: the rows are committed, and the reconciler rings again what was not heard."""
    for bell in bells:
        try:
            # Before the clock runs: on a busy machine the first import alone takes as long as a ring may.
            ring = ringer or await asyncio.to_thread(celery_ringer)
            await asyncio.wait_for(asyncio.to_thread(ring, bell), RING_TIMEOUT_S)
        except Exception as error:
            _LOG.warning("%s for %s was not published, the reconciler will: %r", bell.task_name, bell.job_id, error)
