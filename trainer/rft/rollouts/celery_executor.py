"""Hints to rollout workers over Celery: the one file of the agent loop that knows it.

A message says "this run has shards", and nothing else: shards, leases and results are the inbox's. So a message that is
lost, or comes twice, or outlives its run, does no harm, on whatever broker.
"""

import asyncio
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from celery import Celery
from celery.signals import worker_shutting_down

from rft.core.base import Record
from rft.core.broker_options import is_redis, publishing_options, transport_options
from rft.core.broker_queue import waiting_messages
from rft.rollouts.shards.http_inbox import RunAddress
from rft.rollouts.shards.inbox import BrokerDown

RUN_SHARDS = "rft.run_shards"
QUEUE = "rollouts"
_PUBLISH_S = 15.0
_AGAIN_S = 60.0
"""How often a hint is repeated while others wait: they would stand before other jobs' before long."""


class _Message(Record):
    """As it stands in the queue."""

    platform_url: str
    job_id: str
    token: str


class CeleryHints:
    """`Hints` of one run."""

    def __init__(self, broker_url: str, address: RunAddress) -> None:
        self._broker_url, self._app = broker_url, _app(broker_url)
        self._again_s = -_AGAIN_S
        self._message = _Message(
            platform_url=address.platform_url, job_id=address.job_id, token=address.token
        ).model_dump()

    async def publish(self, hints: int, *, is_again: bool = False) -> None:
        """So many messages. Raises BrokerDown. `is_again`: one a minute where some wait, which may be other jobs'."""
        try:
            async with asyncio.timeout(_PUBLISH_S):
                await asyncio.to_thread(self._publish, hints, is_again=is_again)
        except Exception as error:  # Each transport has its own.
            password = urlsplit(self._broker_url).password
            problem = f"{type(error).__name__}: {error}"
            raise BrokerDown(problem.replace(password, "***") if password else problem) from None

    def close(self) -> None:
        """Let go of what it holds."""
        self._app.close()

    def _publish(self, hints: int, *, is_again: bool) -> None:
        # A connection of its own: pooled ones outlive the broker they led to, and wait for its return.
        with self._app.connection_for_write(transport_options=publishing_options(self._broker_url)) as connection:
            if is_again and waiting_messages(connection, QUEUE):
                if time.monotonic() < self._again_s + _AGAIN_S:
                    return
                hints = 1
            if is_again:
                self._again_s = time.monotonic()
            for _ in range(hints):
                self._app.send_task(
                    RUN_SHARDS,
                    args=[self._message],
                    queue=QUEUE,
                    retry=False,
                    connection=connection,
                    ignore_result=True,
                )


def serve_hints(
    broker_url: str,
    on_hint: Callable[[RunAddress], None],
    *,
    name: str,
    threads: int,
    log_level: str,
    on_stop: Callable[[], None],
) -> None:
    """Call `on_hint` for each message, in so many threads, until SIGTERM. A broker that is away is waited for.

    `on_stop` is called when it is told to stop: every `on_hint` has to return soon then.
    """
    app = _app(broker_url)

    def run_shards(message: dict[str, str]) -> None:
        read = _Message.model_validate(message)
        on_hint(RunAddress(read.platform_url, read.job_id, read.token))

    def stop(**_: object) -> None:
        on_stop()

    app.task(name=RUN_SHARDS)(run_shards)
    worker_shutting_down.connect(stop, weak=False)
    # Threads, that one event loop serves all of them and a message's wait leaves the broker's connection alone.
    worker = app.Worker(
        queues=[QUEUE], pool="threads", concurrency=threads, loglevel=log_level, hostname=f"{name}@%h",
        without_gossip=True, without_mingle=True,
    )  # fmt: skip
    worker.start()


def _app(broker_url: str) -> Celery:
    app = Celery("rft.rollouts", broker=broker_url, set_as_current=False)
    app.conf.update(
        broker_transport_options=transport_options(broker_url),
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # What Redis refuses (no replicas, no memory, cannot save) counts as an error of the channel, and passes.
        broker_channel_error_retry=True,
        task_ignore_result=True,
        task_acks_late=False,
        task_publish_retry=False,
        task_serializer="json",
        accept_content=["json"],
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=is_redis(broker_url),
        # After an outage it sets the prefetch count again from the pool's threads, which wait for the answer on the
        # connection that the consumer reads: on AMQP either then takes the other's, and both wait for ever.
        worker_enable_prefetch_count_reduction=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
    )
    return app
