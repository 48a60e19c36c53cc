"""A workbench over a fresh database; a Celery worker process where a test asks for one."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
from celery import Celery

from rft.platform.api.key_repository import create_key
from rft.platform.queue.messages import TaskMessage
from rft.platform.queue.publishing import Enqueuer
from rft.platform.store.database import Database
from rft.platform.store.stop_tasks import stop_tasks
from rft.platform.worker.reconciler import reconcile_forever
from tests.integration.worker.scripted_trainer import Plan
from tests.integration.worker.workbench import Workbench
from tests.integration.worker.worker_process import WorkerProcess
from tests.shared.running_api import ReceivedMessages, Served


@pytest.fixture
async def bench(migrated_url: str, tmp_path: Path) -> AsyncIterator[Workbench]:
    """The worker's surroundings, its trainer planned to run three steps."""
    async with Database(migrated_url) as database:
        bench = Workbench(tmp_path, migrated_url, database)
        bench.plan(Plan())
        yield bench


@pytest.fixture
async def http(bench: Workbench) -> AsyncIterator[httpx.AsyncClient]:
    """A caller with a key, of the API beside the worker: on the same database and data directory."""
    async with await psycopg.AsyncConnection.connect(bench.database_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    with Served(bench.settings, ReceivedMessages()) as port:
        url = f"http://127.0.0.1:{port}/v1/fine_tuning/jobs"
        async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
            yield client


@pytest.fixture
def worker_log(tmp_path: Path) -> Path:
    """Where worker processes write."""
    return tmp_path / "worker.log"


@pytest.fixture
def start_worker(bench: Workbench, broker_url: str, worker_log: Path) -> Iterator[Callable[[], WorkerProcess]]:
    """Starts real Celery workers; all are gone after the test."""
    workers: list[WorkerProcess] = []

    def start() -> WorkerProcess:
        workers.append(WorkerProcess(bench, broker_url, worker_log))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()


@pytest.fixture
async def enqueuer(bench: Workbench, broker_url: str) -> AsyncIterator[Enqueuer]:
    """Publishes messages on the test's broker."""
    app = Celery("tests", broker=broker_url, set_as_current=False)

    def enqueue(message: TaskMessage) -> None:
        app.send_task(message.task_name, args=[message.job_id], queue=message.queue, ignore_result=True)

    yield enqueue
    app.close()


@pytest.fixture
async def reconciler(bench: Workbench, enqueuer: Enqueuer) -> AsyncIterator[None]:
    """As it runs in the API."""
    async with Database(bench.database_url, max_connections=2) as database:
        task = asyncio.create_task(reconcile_forever(database, settings=bench.settings, enqueuer=enqueuer))
        yield
        await stop_tasks(task)
