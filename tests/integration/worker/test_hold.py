"""A run that waits for an endpoint: the job is paused, its worker stays, and nothing is lost."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from rft.core.events import RunStarted
from rft.platform.api.errors import BadRequest
from rft.platform.jobs import service
from rft.platform.lifecycle.job_lease import Refusal, take
from rft.platform.lifecycle.owner import is_alive
from rft.platform.queue.messages import RUN_JOB, TaskMessage
from rft.platform.store.unit_of_work import unit_of_work
from rft.platform.worker.reconciler import reconcile_once
from rft.platform.worker.run_job import run_job
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.scripted_trainer import Fault, Plan
from tests.integration.worker.workbench import AT_ONCE, Workbench
from tests.shared.train_events import hold_began, hold_ended, logged
from tests.shared.waiting import until


@asynccontextmanager
async def held_run(bench: Workbench, job_id: str, how: str = "hold") -> AsyncGenerator["asyncio.Task[str]"]:
    """A runner whose trainer is held in the middle of step 2."""
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how=how),)))
    task = asyncio.create_task(run_job(job_id, bench.context()))
    await until(lambda: has_status(bench, job_id, "paused"), "the job to be held")
    yield task


async def has_status(bench: Workbench, job_id: str, status: str) -> bool:
    return (await bench.job(job_id))["status"] == status


def go_on(bench: Workbench) -> None:
    (bench.control / "go-on").touch()


async def test_a_held_job_is_paused_with_its_reason_and_goes_on_by_itself(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    async with held_run(bench, job_id) as task:
        job = await bench.job(job_id)
        assert job["hold"] == hold_began(2).model_dump(mode="json", exclude={"type"}) | {"since": job["hold"]["since"]}
        assert job["hold"]["since"] == pytest.approx(time.time(), abs=600)
        assert job["lease_owner"] is not None
        assert is_alive(bench.launches[-1])
        beat = job["lease_until"]
        await until(lambda: later_beat(bench, job_id, beat), "a heartbeat of a held job")
        go_on(bench)
        assert await task == "over"
    job = await bench.job(job_id)
    assert (job["status"], job["hold"], len(bench.launches)) == ("succeeded", None, 1)
    await bench.assert_every_step_once(job_id, steps=3)
    events = await bench.all(
        "select level, message, data from job_events where job_id = %s and data->>'code' like '%%h%%ld%%' order by seq",
        job_id,
    )
    assert [(event["level"], event["data"]["code"]) for event in events] == [("warn", "held"), ("info", "hold_ended")]
    assert "tool 'search' answered none of the last 8 calls" in events[0]["message"]
    assert events[1]["data"]["held_s"] == 12.4


async def later_beat(bench: Workbench, job_id: str, than: object) -> bool:
    return bool(await bench.all("select 1 from jobs where id = %s and lease_until > %s", job_id, than))


async def test_a_held_job_keeps_its_slot(bench: Workbench) -> None:
    held, waiting = await bench.queued_job(), await bench.queued_job()
    async with held_run(bench, held) as task:
        assert await run_job(waiting, bench.context()) == Refusal.NO_SLOT
        assert await run_job(held, bench.context()) == Refusal.NOT_RUNNABLE
        go_on(bench)
        await task


@pytest.mark.parametrize(("ask", "ended"), [(service.cancel_job, "cancelled"), (service.pause_job, "paused")])
async def test_a_held_job_is_cancelled_and_paused_like_a_running_one(bench: Workbench, ask: object, ended: str) -> None:
    job_id = await bench.queued_job()
    async with held_run(bench, job_id) as task:
        async with unit_of_work(bench.database) as uow:
            await (service.cancel_job if ask is service.cancel_job else service.pause_job)(uow, job_id)
        assert await task == ended
    job = await bench.job(job_id)
    assert (job["status"], job["hold"], job["lease_owner"], job["is_pause_requested"]) == (ended, None, None, False)
    assert not is_alive(bench.launches[-1])


async def test_a_held_job_resumes_by_itself_and_says_so(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    async with held_run(bench, job_id) as task:
        async with unit_of_work(bench.database, bench.enqueued.append) as uow:
            with pytest.raises(BadRequest, match="waits for tool 'search' and resumes by itself"):
                await service.resume_job(uow, job_id)
        go_on(bench)
        await task


async def test_a_run_that_gives_up_while_held_fails_the_job(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    async with held_run(bench, job_id, "hold_fail") as task:
        go_on(bench)
        assert await task == "over"
    job = await bench.job(job_id)
    assert (job["status"], job["hold"], job["error"]["code"]) == ("failed", None, "endpoint_down")


async def test_a_trainer_that_dies_while_held_is_started_again(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    async with held_run(bench, job_id, "hold_kill") as task:
        go_on(bench)
        assert await task == "over"
    job = await bench.job(job_id)
    assert (job["status"], job["hold"], len(bench.launches)) == ("succeeded", None, 2)
    await bench.assert_every_step_once(job_id, steps=3)


async def test_a_new_trainer_waits_for_nobody(bench: Workbench) -> None:
    ingest = await leased(bench)
    events = [RunStarted(resumed_from_step=None, total_steps=3, pid=1), hold_began(1)]
    assert (await store(bench, ingest, logged(events))).is_held is True
    assert await has_status(bench, ingest.lease.id, "paused")
    again = [RunStarted(resumed_from_step=None, total_steps=3, pid=2)]
    assert (await store(bench, ingest, logged(again, after=2))).is_held is False
    job = await bench.job(ingest.lease.id)
    assert (job["status"], job["hold"]) == ("running", None)
    assert (await store(bench, ingest, logged([hold_began(1), hold_ended(1)], after=3))).is_held is False
    assert await has_status(bench, ingest.lease.id, "running")


async def test_a_held_job_whose_worker_fell_silent_is_queued_again_or_taken(bench: Workbench) -> None:
    queued, taken = await leased(bench), await leased(bench)
    for ingest in (queued, taken):
        await store(bench, ingest, logged([hold_began(0)]))
        await bench.do("update jobs set lease_until = clock_timestamp() where id = %s", ingest.lease.id)
    async with bench.database.connection() as connection:
        lease = await take(connection, taken.lease.id, owner="other/1/x", ttl_s=60, slots=1)
    assert not isinstance(lease, Refusal)
    assert lease.token == taken.lease.token + 1
    enqueued = await reconcile_once(bench.database, AT_ONCE, reconcile_s=1000, enqueuer=bench.enqueued.append)
    assert enqueued == [TaskMessage(RUN_JOB, queued.lease.id)]
    found = [await bench.job(ingest.lease.id) for ingest in (queued, taken)]
    assert [(job["status"], job["hold"]) for job in found] == [("queued", None), ("running", None)]
