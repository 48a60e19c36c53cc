"""A real worker gets the message and plays the rehearsal; a worker killed in the middle is noticed."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from rft.platform.queue.messages import REHEARSE
from rft.platform.rehearsals.reconciling import reconcile_rehearsals
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.rehearsals.stage import Customer, Platform
from tests.integration.worker.workbench import AT_ONCE, Workbench
from tests.integration.worker.worker_process import WorkerProcess
from tests.shared.waiting import PATIENCE_S, until

pytestmark = pytest.mark.slow


@pytest.fixture
def worker(platform: Platform, migrated_url: str, broker_url: str, tmp_path: Path) -> Iterator[WorkerProcess]:
    """A real Celery worker of the platform."""
    bench = Workbench(tmp_path, migrated_url, platform.database)
    process = WorkerProcess(bench, broker_url, tmp_path / "worker.log")
    yield process
    process.end()


async def status(platform: Platform, rehearsal_id: str) -> str:
    return (await platform.http.get(f"/rehearsals/{rehearsal_id}")).json()["status"]


def stuck_under_load(in_flight: int) -> float:
    return 0.3 if in_flight <= 2 else 60.0


def send(broker_url: str, rehearsal_id: str) -> None:
    with Celery("tests", broker=broker_url, set_as_current=False) as app:
        app.send_task(REHEARSE, args=[rehearsal_id], queue="control", ignore_result=True)


async def test_a_worker_takes_the_message(
    platform: Platform, order: dict[str, Any], worker: WorkerProcess, broker_url: str
) -> None:
    made = (await platform.http.post("/rehearsals", json=order)).json()["id"]
    send(broker_url, made)

    async def is_completed() -> bool:
        assert worker.process.poll() is None
        return await status(platform, made) == "completed"

    await until(is_completed, "the rehearsal to be completed")
    assert worker.stop(PATIENCE_S) == 0


async def test_a_worker_killed_in_the_middle_is_noticed(
    platform: Platform, order: dict[str, Any], worker: WorkerProcess, broker_url: str
) -> None:
    endpoint = Customer(latency_s=stuck_under_load)
    async with LoopbackEndpoint(endpoint) as slow:
        order["method"]["reinforcement"]["tools"][0]["server_url"] = slow.tool_url
        made = (await platform.http.post("/rehearsals", json=order)).json()["id"]
        send(broker_url, made)
        await asyncio.wait_for(endpoint.until(lambda it: it.in_flight >= 8), PATIENCE_S)
        worker.kill()

        async def is_noticed() -> bool:
            async with platform.database.transaction() as connection:
                await reconcile_rehearsals(connection, AT_ONCE, unheard_s=60.0)
            return await status(platform, made) == "failed"

        await until(is_noticed, "the reconciler to notice")
