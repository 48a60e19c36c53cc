"""Publishing messages to workers, through Celery or whatever stands in for it."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from rft.core.broker_options import publishing_options
from rft.core.broker_queue import waiting_messages
from rft.platform.queue.messages import TaskMessage

_LOG = logging.getLogger(__name__)
ENQUEUE_TIMEOUT_S = 5.0
_MOST_WAITING = 1_000
"""Of one queue. Jobs wait in their rows and are enqueued again and again: where nobody takes them, copies pile up."""
_PUBLISHERS = ThreadPoolExecutor(2, thread_name_prefix="publish")
"""Their own: a broker that accepts and falls silent must not take the threads that read files and resolve names."""

Enqueuer = Callable[[TaskMessage], None]
"""Publishes one message; blocking, may raise anything."""


def celery_enqueuer() -> Enqueuer:
    """Publishes through the Celery application.

    Nothing to a queue that is crowded: the reconciler enqueues again once somebody takes what is there.
    """
    # Imported late: Celery costs half a second to import.
    from rft.platform.queue.celery_app import app

    options = publishing_options(app.conf.broker_url)

    def enqueue(message: TaskMessage) -> None:
        # A connection of its own: pooled ones outlive the broker they led to, and wait for its return.
        with app.connection_for_write(transport_options=options) as connection:
            if (waiting := waiting_messages(connection, message.queue)) >= _MOST_WAITING:
                _LOG.warning("%s for %s is not published: %d messages wait", message.task_name, message.job_id, waiting)
                return
            app.send_task(
                message.task_name, args=[message.job_id], queue=message.queue, retry=False, connection=connection
            )

    return enqueue


async def enqueue_all(messages: Sequence[TaskMessage], enqueuer: Enqueuer | None = None) -> None:
    """Publish all messages; through Celery by default. After one that the broker says nothing to, no more.

    Never raises: the rows are committed, and the reconciler enqueues again what was not answered.
    """
    for sent, message in enumerate(messages, start=1):
        try:
            await _enqueue(message, enqueuer)
        except Exception as error:
            _LOG.warning(
                "%s for %s was not published, the reconciler will: %r", message.task_name, message.job_id, error
            )
            if isinstance(error, TimeoutError):
                if sent < len(messages):
                    _LOG.warning("the broker says nothing: it is not asked for %d more", len(messages) - sent)
                return


async def _enqueue(message: TaskMessage, enqueuer: Enqueuer | None) -> None:
    # Before the clock runs: on a busy machine the first import alone takes as long as publishing may.
    enqueue = enqueuer or await asyncio.to_thread(celery_enqueuer)
    publishing = asyncio.get_running_loop().run_in_executor(_PUBLISHERS, enqueue, message)
    await asyncio.wait_for(publishing, ENQUEUE_TIMEOUT_S)
