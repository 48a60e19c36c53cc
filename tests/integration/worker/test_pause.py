"""The customer pauses a job and resumes it: the machine is free meanwhile, and no step is lost or done twice."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rft.platform.checkpoints.service import list_checkpoints
from rft.platform.jobs import service
from rft.platform.jobs.repository import JobRow
from rft.platform.lifecycle.owner import is_alive
from rft.platform.models.service import find_model, list_models
from rft.platform.queue.messages import RUN_JOB, TaskMessage
from rft.platform.store.unit_of_work import unit_of_work
from rft.platform.worker.reconciler import reconcile_once
from rft.platform.worker.run_job import run_job
from tests.integration.worker.ingesting import leased
from tests.integration.worker.scripted_trainer import Fault, Plan
from tests.integration.worker.workbench import AT_ONCE, Workbench
from tests.shared.waiting import until


@asynccontextmanager
async def hanging_run(bench: Workbench, job_id: str, *, is_deaf: bool = False) -> AsyncGenerator["asyncio.Task[str]"]:
    """A runner whose trainer hangs in the middle of step 2."""
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),), is_deaf=is_deaf))
    task = asyncio.create_task(run_job(job_id, bench.context()))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    yield task


async def pause(bench: Workbench, job_id: str) -> JobRow:
    async with unit_of_work(bench.database, bench.enqueued.append) as uow:
        return await service.pause_job(uow, job_id)


async def resume(bench: Workbench, job_id: str) -> JobRow:
    async with unit_of_work(bench.database, bench.enqueued.append) as uow:
        return await service.resume_job(uow, job_id)


async def coded(bench: Workbench, job_id: str) -> list[dict[str, Any]]:
    """Data of the events that tell of pauses."""
    query = "select data from job_events where job_id = %s and data->>'code' = 'paused' order by seq"
    rows = await bench.all(query, job_id)
    return [row["data"] for row in rows]


@pytest.mark.parametrize("is_deaf", [False, True])
async def test_a_running_job_is_paused_and_goes_on_at_the_same_step(bench: Workbench, is_deaf: bool) -> None:
    job_id = await bench.queued_job()
    async with hanging_run(bench, job_id, is_deaf=is_deaf) as task:
        asked = await pause(bench, job_id)
        assert (asked.status, asked.is_pause_requested) == ("running", True)
        assert (await pause(bench, job_id)).is_pause_requested
        assert await task == "paused"
    job = await bench.job(job_id)
    assert (job["status"], job["lease_owner"], job["lease_until"], job["hold"]) == ("paused", None, None, None)
    assert (job["is_pause_requested"], job["finished_at"], job["launches_without_progress"]) == (False, None, 0)
    assert not is_alive(bench.launches[-1])
    told = await bench.messages(job_id)
    assert sum("Pause requested" in message for message in told) == 1, "asking twice is told once"
    assert told[-1] == "The job is paused. The checkpoint of step 1 can be used; resume the job to go on"
    assert await coded(bench, job_id) == [{"code": "paused", "step": 1}]
    bench.enqueued.clear()
    resumed = await resume(bench, job_id)
    assert (resumed.status, bench.enqueued) == ("queued", [TaskMessage(RUN_JOB, job_id)])
    assert await run_job(job_id, bench.context()) == "over"
    assert (await bench.job(job_id))["status"] == "succeeded"
    await bench.assert_every_step_once(job_id, steps=3)
    assert "Training resumed from the checkpoint of step 1" in await bench.messages(job_id)


async def test_a_paused_job_offers_its_latest_checkpoint_as_a_model(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    async with hanging_run(bench, job_id) as task:
        await pause(bench, job_id)
        await task
    async with unit_of_work(bench.database) as uow:
        page = await list_checkpoints(uow, bench.settings, job_id, after=None, limit=10)
        newest = page.data[0]
        assert newest.step_number == 1
        name = newest.fine_tuned_model_checkpoint
        assert (await find_model(uow, bench.settings, name)).id == name
        assert name in [model.id for model in await list_models(uow, bench.settings)]


async def test_a_paused_job_frees_its_machine_and_wakes_who_waits(bench: Workbench) -> None:
    job_id, waiting = await bench.queued_job(), await bench.queued_job()
    bench.enqueued.clear()
    async with hanging_run(bench, job_id) as task:
        await pause(bench, job_id)
        await task
    assert bench.enqueued == [TaskMessage(RUN_JOB, waiting)]
    assert await run_job(job_id, bench.context()) == "not_runnable"
    bench.plan(Plan())
    assert await run_job(waiting, bench.context()) == "over"


async def test_a_queued_job_is_paused_at_once_and_nobody_rings_for_it(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    for _ in range(2):
        assert (await pause(bench, job_id)).status == "paused"
        assert await run_job(job_id, bench.context()) == "not_runnable"
        assert await reconcile_once(bench.database, AT_ONCE, reconcile_s=0, enqueuer=bench.enqueued.append) == []
        assert (await bench.job(job_id))["status"] == "paused"
        assert (await resume(bench, job_id)).status == "queued"
    paused = "The job is paused. Nothing is trained yet; resume the job to go on"
    resumed = "The job is resumed; it is queued to go on from the beginning"
    assert (await bench.messages(job_id))[-4:] == [paused, resumed] * 2
    assert await run_job(job_id, bench.context()) == "over"


async def test_a_worker_that_dies_while_it_is_to_pause_leaves_a_paused_job(bench: Workbench) -> None:
    seen, unseen = await leased(bench), await leased(bench)
    for ingest in (seen, unseen):
        await pause(bench, ingest.lease.id)
        await bench.do("update jobs set lease_until = clock_timestamp() where id = %s", ingest.lease.id)
    assert await run_job(seen.lease.id, bench.context()) == "paused"
    assert await reconcile_once(bench.database, AT_ONCE, reconcile_s=0, enqueuer=bench.enqueued.append) == []
    for ingest in (seen, unseen):
        job = await bench.job(ingest.lease.id)
        assert (job["status"], job["is_pause_requested"], job["lease_owner"]) == ("paused", False, None)
        assert await coded(bench, ingest.lease.id) == [{"code": "paused", "step": None}]


async def test_a_worker_that_shuts_down_does_not_forget_the_request(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    bench.changed_settings = {"heartbeat_s": 3.9}
    stopping = asyncio.Event()
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),)))
    task = asyncio.create_task(run_job(job_id, bench.context(is_stopping=stopping.is_set)))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    await bench.do("update jobs set is_pause_requested = true where id = %s", job_id)
    stopping.set()
    assert await task in ("given back", "paused")
    await reconcile_once(bench.database, AT_ONCE, reconcile_s=0, enqueuer=bench.enqueued.append)
    job = await bench.job(job_id)
    assert (job["status"], job["is_pause_requested"]) == ("paused", False)


async def test_cancelling_beats_pausing(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    async with hanging_run(bench, job_id) as task:
        await pause(bench, job_id)
        async with unit_of_work(bench.database) as uow:
            await service.cancel_job(uow, job_id)
        await task
    await reconcile_once(bench.database, AT_ONCE, reconcile_s=0, enqueuer=bench.enqueued.append)
    job = await bench.job(job_id)
    assert (job["status"], job["is_pause_requested"], job["lease_owner"]) == ("cancelled", False, None)
