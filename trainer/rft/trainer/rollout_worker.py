"""`python -m rft.trainer.rollout_worker`: runs rollouts that trainers give out; its configuration as JSON on stdin.

One event loop for the life of the process, and a thread for each message of the queue that waits for it. What a worker
knows of customers' secrets is nothing: the gateway services make the calls.
"""

import asyncio
import faulthandler
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress

from pydantic import ValidationError

from rft.core.base import Record
from rft.core.gc_tuning import collect_rarely
from rft.core.open_files import allow_many_open_files
from rft.rollouts.celery_executor import serve_hints
from rft.rollouts.shards.http_inbox import HttpWorkerInbox, RunAddress, open_inbox_http
from rft.rollouts.shards.wire import LARGEST
from rft.rollouts.shards.worker import OpenedRun, RunSession
from rft.rollouts.shards.worker_load import WorkerLoad
from rft.trainer.worker_run import open_worker_run

log = logging.getLogger(__name__)
_IDLE_S = 300.0
"""A run that gave nothing out for so long, or twice as long, is closed; it is opened again by its next shard."""
_CLOSE_S = 20.0
_EXIT_S = 30.0
"""After SIGTERM. Celery ends what it has with the broker first, and waits for a broker that fell silent for ever."""


class WorkerConfig(Record):
    """What the process is told; the operator's own secrets are among it, so it comes over a pipe."""

    broker_url: str
    gateway_token: str | None = None
    vllm_api_key: str | None = None
    threads: int = 4
    """Shards that are run at a time."""
    log_level: str = "INFO"


class RolloutWorker:
    """All runs that this process works for. Its loop runs in a thread of its own."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self.name = f"{socket.gethostname()}/{os.getpid()}-{secrets.token_hex(3)}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rollouts", daemon=True)
        self._thread.start()
        self._http = open_inbox_http()
        self._load = WorkerLoad()
        self._sessions: dict[RunAddress, RunSession] = {}
        self._closing: set[asyncio.Future[None]] = set()
        self._working: set[asyncio.Task[None]] = set()
        self._stopping: Future[None] | None = None
        self._is_over = False

    def work(self, address: RunAddress) -> None:
        """Run a shard of the run, if it has one to give out."""
        if self._stopping is None:
            with suppress(CancelledError):
                asyncio.run_coroutine_threadsafe(self._work(address), self._loop).result()

    def stop(self) -> None:
        """Begin to break off what runs, and let others have it at once. Safe in a signal handler."""
        if self._stopping is None:
            self._stopping = asyncio.run_coroutine_threadsafe(self._stop(), self._loop)

    def close(self) -> None:
        """End the loop, once all is broken off."""
        self.stop()
        assert self._stopping is not None
        self._stopping.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _work(self, address: RunAddress) -> None:
        task = asyncio.current_task()
        if task is None or self._is_over:
            return
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        session = self._sessions.get(address)
        if session is None:
            earlier = [other for other in self._sessions if other.job_id == address.job_id]
            session = self._sessions[address] = self._session(address, earlier)
            self._close_once_idle(address, session)
        await session.work()

    def _session(self, address: RunAddress, earlier: Sequence[RunAddress]) -> RunSession:
        """`earlier`: of the job's other launches. They are over once this one counts; a late message's never does."""

        async def open_run(announced: str) -> OpenedRun:
            config = self._config
            return await open_worker_run(
                announced, gateway_token=config.gateway_token, vllm_api_key=config.vllm_api_key
            )

        most = self._config.threads * LARGEST
        inbox = HttpWorkerInbox(address, self._http, self.name)
        return RunSession(
            self.name, inbox, open_run, most, load=self._load, on_accepted=lambda: self._close_all(earlier)
        )

    def _close_all(self, addresses: Sequence[RunAddress]) -> None:
        for address in addresses:
            session = self._sessions.pop(address, None)
            if session is not None:
                self._close(session)

    def _close(self, session: RunSession) -> None:
        closing = asyncio.ensure_future(session.aclose())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _close_once_idle(self, address: RunAddress, session: RunSession) -> None:
        """Looked at again and again: its last shard may be one that no message told it of."""
        shards_run = session.shards_run if session.is_idle else None

        def look() -> None:
            if self._sessions.get(address) is not session:
                return
            if session.is_idle and session.shards_run == shards_run:
                del self._sessions[address]
                self._close(session)
            else:
                self._close_once_idle(address, session)

        asyncio.get_running_loop().call_later(_IDLE_S, look)

    async def _stop(self) -> None:
        self._is_over = True
        sessions, self._sessions = list(self._sessions.values()), {}
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await asyncio.gather(*(session.aclose() for session in sessions), *self._closing)
        for task in self._working:  # A platform that is away would be waited for.
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        await self._http.aclose()


def _exit_anyway() -> None:
    """Says where it hangs. Nothing is lost: the sessions gave back what they had, and messages are only hints."""
    log.warning("the connection to the queue did not end within %.0f s of SIGTERM: leaving without", _EXIT_S)
    faulthandler.dump_traceback()
    os._exit(0)


def main() -> int:
    """0 after SIGTERM, 2 when it could not begin."""
    try:
        config = WorkerConfig.model_validate_json(sys.stdin.buffer.read())
    except ValidationError:
        log.error("standard input is not the JSON of the worker's configuration")  # Never quoted: it holds secrets.
        return 2
    logging.basicConfig(level=config.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    collect_rarely()
    allow_many_open_files()
    worker = RolloutWorker(config)
    log.info("rollout worker %s", worker.name)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def stop() -> None:
        worker.stop()
        last_resort = threading.Timer(_EXIT_S, _exit_anyway)
        last_resort.daemon = True
        last_resort.start()

    try:
        serve_hints(
            config.broker_url, worker.work, name=f"rollouts-{os.getpid()}", threads=config.threads,
            log_level=config.log_level, on_stop=stop,
        )  # fmt: skip
    finally:
        worker.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
