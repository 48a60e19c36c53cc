"""A real worker gets the message; killed in the middle, the next one goes on with what it has not finished."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from rft.platform.evals.reconciling import reconcile_eval_runs
from rft.platform.lifecycle.expired_leases import ExpiredLeases
from rft.platform.queue.messages import RUN_EVAL
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.evals.stage import Gate, Stage, gated_rows, inline
from tests.integration.worker.workbench import Workbench
from tests.integration.worker.worker_process import WorkerProcess
from tests.shared.running_api import collect
from tests.shared.waiting import PATIENCE_S, until

pytestmark = pytest.mark.slow
CODE: Any = {"type": "python", "name": "code", "source": "def grade(sample, item):\n    return 1.0\n"}


@pytest.fixture
def bench(stage: Stage, migrated_url: str, tmp_path: Path) -> Workbench:
    """With the home and the database of the API."""
    return Workbench(tmp_path, migrated_url, stage.context.database)


@pytest.fixture
def worker(bench: Workbench, broker_url: str, tmp_path: Path) -> Iterator[WorkerProcess]:
    """A real Celery worker of the platform."""
    process = WorkerProcess(bench, broker_url, tmp_path / "worker.log")
    yield process
    process.end()


@pytest.fixture
async def gate() -> AsyncIterator[tuple[Gate, str]]:
    """The grader and its address."""
    gate = Gate()
    async with LoopbackEndpoint(gate) as served:
        yield gate, served.grader_url
        gate.opened.set()


def send(broker_url: str, run_id: str) -> None:
    with Celery("tests", broker=broker_url, set_as_current=False) as app:
        app.send_task(RUN_EVAL, args=[run_id], queue="control", ignore_result=True)


async def test_a_worker_killed_in_the_middle_loses_and_doubles_nothing(
    stage: Stage, bench: Workbench, worker: WorkerProcess, broker_url: str, gate: tuple[Gate, str], tmp_path: Path
) -> None:
    grader, url = gate
    eval_id = await stage.make({"type": "endpoint", "name": "gate", "url": url}, CODE)
    run_id = (await stage.client.evals.runs.create(eval_id, data_source=inline(*gated_rows()))).id
    send(broker_url, run_id)

    async def is_half_done() -> bool:
        assert worker.process.poll() is None, (tmp_path / "worker.log").read_text()
        return len(await collect(stage.items(eval_id, run_id))) == 3

    await until(is_half_done, "the free items to be finished")
    before = {item.id: item.to_dict() for item in await collect(stage.items(eval_id, run_id))}
    worker.kill()

    leases = ExpiredLeases(patience_s=0.0)

    async def is_enqueued() -> bool:
        async with stage.context.database.transaction() as connection:
            return bool(await reconcile_eval_runs(connection, leases, unheard_s=0.0))

    await until(is_enqueued, "the reconciler to notice")
    grader.opened.set()
    another = WorkerProcess(bench, broker_url, tmp_path / "another.log")
    try:
        send(broker_url, run_id)

        async def is_completed() -> bool:
            assert another.process.poll() is None, (tmp_path / "another.log").read_text()
            return (await stage.client.evals.runs.retrieve(run_id, eval_id=eval_id)).status == "completed"

        await until(is_completed, "the run to be completed")
        assert await asyncio.to_thread(another.stop, PATIENCE_S) == 0
    finally:
        another.end()
    after = {item.id: item.to_dict() for item in await collect(stage.items(eval_id, run_id))}
    assert len(after) == 6
    assert {key: after[key] for key in before} == before
    assert [item["status"] for item in after.values()] == ["pass"] * 6
