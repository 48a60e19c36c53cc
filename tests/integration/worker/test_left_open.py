"""A job that is over tells customers' servers which rollouts its killed trainer left open; nothing else comes of it."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import TupleRow

from rft.core.ids import trace_id
from rft.platform.jobs.service import cancel_job
from rft.platform.queue.messages import RUN_JOB
from rft.platform.store.database import Database
from rft.platform.store.unit_of_work import unit_of_work
from rft.platform.worker.reconciler import reconcile_once
from rft.platform.worker.run_job import run_job
from rft.platform.worker.validate_job import validate_job
from rft.run_directory import layout
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.faults import Fault as HttpFault
from rft.testing.faults import HttpAnswer, ReceivedCall
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.worker.running import cancel
from tests.integration.worker.scripted_trainer import Fault, Plan
from tests.integration.worker.workbench import AT_ONCE, Workbench
from tests.shared.waiting import until

HOST = "/host?key=s3cr3t-of-a-query"
LEFT = [trace_id(uuid4()), trace_id(uuid4())]
FOREVER = Fault(launch=0, step=2, how="hang")


class Host(ScriptedEndpoint):
    """Makes a machine for every rollout, and frees it when it hears of the end."""

    is_away = False

    async def answer(self, call: ReceivedCall) -> HttpAnswer | HttpFault:
        status = 503 if self.is_away else 200
        return HttpAnswer(status, b"{}") if call.path == "/host" else await super().answer(call)


@pytest.fixture
async def host() -> AsyncIterator[LoopbackEndpoint]:
    async with LoopbackEndpoint(Host(ScriptedTools({}), ScriptedGrader(0.5))) as endpoint:
        yield endpoint


async def job_with_host(bench: Workbench, host: LoopbackEndpoint) -> str:
    tool = {"name": "search", "server_url": host.tool_url, "callback_url": host.base_url + HOST}
    job_id = await bench.new_job(tools=[tool])
    assert await validate_job(job_id, bench.context()) == "queued"
    return job_id


def heard(host: LoopbackEndpoint) -> list[dict[str, Any]]:
    for call in host.endpoint.calls:
        assert (call.path, call.query) == ("/host", HOST.partition("?")[2])
        assert call.headers["authorization"] == "Bearer tool-secret-value"
    return [json.loads(call.body) for call in host.endpoint.calls]


def leave_open(bench: Workbench, job_id: str) -> None:
    """As a trainer does that was killed after it had told their beginnings."""
    journal = bench.run_dir(job_id) / layout.OPEN_ROLLOUTS
    journal.write_text("".join(f"+{one}\n" for one in LEFT))


def assert_told(bench: Workbench, job_id: str, host: LoopbackEndpoint) -> None:
    ends = {"type": "rollout.ended", "outcome": "cancelled", "reward": None, "failure_code": None, "tools": ["search"]}
    assert sorted(heard(host), key=lambda body: LEFT.index(body["trace_id"])) == [
        {**ends, "trace_id": one, "job_id": job_id} for one in LEFT
    ]
    assert (bench.run_dir(job_id) / layout.OPEN_ROLLOUTS).read_text() == "", "nothing is open any more"


async def test_after_a_cancelled_job_whose_trainer_had_to_be_killed(bench: Workbench, host: LoopbackEndpoint) -> None:
    job_id = await job_with_host(bench, host)
    bench.plan(Plan(faults=(FOREVER,), is_deaf=True))
    task = asyncio.create_task(run_job(job_id, bench.context()))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    leave_open(bench, job_id)
    cancelled = await cancel(bench, job_id)
    assert await task == "cancelled"
    assert_told(bench, job_id, host)
    over = {"lease_owner": None, "lease_until": None, "may_have_open_rollouts": False}
    assert await bench.job(job_id) == cancelled | over


async def test_after_a_job_whose_trainer_died_too_often(bench: Workbench, host: LoopbackEndpoint) -> None:
    bench.changed_settings["max_launches_without_progress"] = 1
    job_id = await job_with_host(bench, host)
    bench.plan(Plan(faults=(Fault(launch=0, step=2, how="hold_kill"),)))
    task = asyncio.create_task(run_job(job_id, bench.context()))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    leave_open(bench, job_id)
    (bench.control / "go-on").touch()
    assert await task == "failed"
    assert_told(bench, job_id, host)


async def test_after_a_job_of_whose_failure_the_database_s_answer_was_lost(
    bench: Workbench, host: LoopbackEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.changed_settings["max_launches_without_progress"] = 1
    job_id = await job_with_host(bench, host)
    bench.plan(Plan(faults=(Fault(launch=0, step=2, how="hold_kill"),)))
    whole, lost = Database.transaction, list[str]()

    @asynccontextmanager
    async def transaction(database: Database) -> AsyncGenerator[psycopg.AsyncConnection[TupleRow]]:
        async with whole(database) as connection:
            yield connection
            cursor = await connection.execute("select id from jobs where id = %s and status = 'failed'", (job_id,))
            has_failed = await cursor.fetchone() is not None
        if has_failed and not lost:
            lost.append(job_id)
            raise psycopg.OperationalError("the connection broke before the commit was answered")

    monkeypatch.setattr(Database, "transaction", transaction)
    task = asyncio.create_task(run_job(job_id, bench.context()))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    leave_open(bench, job_id)
    (bench.control / "go-on").touch()
    assert await task == "over"
    assert lost == [job_id]
    assert_told(bench, job_id, host)
    assert (await bench.job(job_id))["error"]["code"] == "trainer_crashed"


async def test_after_a_job_that_fails_because_its_workers_died(bench: Workbench, host: LoopbackEndpoint) -> None:
    job_id = await lost_job(bench, host)
    query = "update jobs set lease_until = clock_timestamp(), launches_without_progress = 1000 where id = %s"
    await bench.do(query, job_id)
    assert await run_job(job_id, bench.context()) == "failed"
    assert_told(bench, job_id, host)
    assert (await bench.job(job_id))["error"]["code"] == "trainer_crashed"
    assert len(bench.launches) == 1


async def lost_job(bench: Workbench, host: LoopbackEndpoint) -> str:
    """Its worker is gone in the middle of a step, its trainer with it; the lease still stands."""
    job_id = await job_with_host(bench, host)
    bench.plan(Plan(faults=(FOREVER,)))
    task = asyncio.create_task(run_job(job_id, bench.context()))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    leave_open(bench, job_id)
    bench.enqueued.clear()
    return job_id


async def reconcile(bench: Workbench) -> None:
    await reconcile_once(bench.database, AT_ONCE, reconcile_s=600, enqueuer=bench.enqueued.append)


async def cancelled_and_messages_answered(bench: Workbench, job_id: str) -> None:
    """As the customer cancels; then a worker gets each message."""
    async with unit_of_work(bench.database, bench.enqueued.append) as uow:
        await cancel_job(uow, job_id)
    cancelled = await bench.job(job_id)
    await answer(bench)
    told = {"may_have_open_rollouts": False} if cancelled["lease_owner"] is None else {}
    assert await bench.job(job_id) == cancelled | told


async def answer(bench: Workbench) -> None:
    while bench.enqueued:
        message = bench.enqueued.pop()
        assert message.task_name == RUN_JOB
        await run_job(message.job_id, bench.context())


async def end_lease(bench: Workbench, job_id: str) -> None:
    await bench.do("update jobs set lease_until = clock_timestamp() where id = %s", job_id)


async def test_after_a_job_that_is_cancelled_while_it_is_queued_again(bench: Workbench, host: LoopbackEndpoint) -> None:
    job_id = await lost_job(bench, host)
    await end_lease(bench, job_id)
    await reconcile(bench)
    assert (await bench.job(job_id))["status"] == "queued"
    bench.enqueued.clear()
    await cancelled_and_messages_answered(bench, job_id)
    assert_told(bench, job_id, host)
    assert len(bench.launches) == 1


async def test_after_a_job_that_is_cancelled_before_the_loss_of_its_worker_is_known(
    bench: Workbench, host: LoopbackEndpoint
) -> None:
    job_id = await lost_job(bench, host)
    await cancelled_and_messages_answered(bench, job_id)
    assert heard(host) == [], "its worker may still do it"
    await end_lease(bench, job_id)
    await reconcile(bench)
    await answer(bench)
    assert_told(bench, job_id, host)
    await reconcile(bench)
    assert bench.enqueued == []


async def test_after_a_job_that_is_cancelled_while_it_is_paused(bench: Workbench, host: LoopbackEndpoint) -> None:
    job_id = await lost_job(bench, host)
    await bench.do("update jobs set status = 'paused', lease_owner = null, lease_until = null where id = %s", job_id)
    await cancelled_and_messages_answered(bench, job_id)
    assert_told(bench, job_id, host)


async def test_after_a_job_that_is_cancelled_while_its_next_worker_waits_for_a_disk(
    bench: Workbench, host: LoopbackEndpoint
) -> None:
    job_id = await lost_job(bench, host)
    await end_lease(bench, job_id)
    bench.changed_settings["min_free_bytes"] = 1 << 60
    task = asyncio.create_task(run_job(job_id, bench.context()))

    async def is_held() -> bool:
        return (await bench.job(job_id))["hold"] is not None

    await until(is_held, "the job to wait for room")
    await cancel(bench, job_id)
    assert await task == "cancelled"
    assert_told(bench, job_id, host)


async def test_a_cancelled_job_that_never_ran_has_no_message(bench: Workbench, host: LoopbackEndpoint) -> None:
    job_id = await job_with_host(bench, host)
    bench.enqueued.clear()
    async with unit_of_work(bench.database, bench.enqueued.append) as uow:
        await cancel_job(uow, job_id)
    assert bench.enqueued == []


async def test_a_teller_that_fails_changes_nothing_of_the_ending(
    bench: Workbench, host: LoopbackEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = await job_with_host(bench, host)
    bench.plan(Plan(faults=(FOREVER,), is_deaf=True))
    task = asyncio.create_task(run_job(job_id, bench.context()))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    leave_open(bench, job_id)
    (bench.run_dir(job_id) / layout.SPEC).write_text("no specification")
    await cancel(bench, job_id)
    assert await task == "cancelled"
    assert (await bench.job(job_id))["status"] == "cancelled"
    assert heard(host) == []
    assert "not every end of a rollout was told: their teller exited with status 2" in caplog.text
    left = (bench.run_dir(job_id) / layout.OPEN_ROLLOUTS).read_text()
    assert all(one in left for one in LEFT)


async def after(bench: Workbench, job_id: str, minutes: int) -> list[str]:
    """The jobs of a reconciler's messages, as if so much time had passed since the end and the last message."""
    await bench.do(
        "update jobs set finished_at = finished_at - make_interval(mins => %s),"
        " enqueued_at = enqueued_at - make_interval(mins => %s) where id = %s",
        minutes,
        minutes,
        job_id,
    )
    await reconcile(bench)
    found = [message.job_id for message in bench.enqueued]
    bench.enqueued.clear()
    return found


async def test_ends_that_were_not_told_are_told_later_and_less_and_less_often_for_a_day(
    bench: Workbench, host: LoopbackEndpoint
) -> None:
    """Their teller failed, or died, or its message was lost."""
    job_id = await lost_job(bench, host)
    await end_lease(bench, job_id)
    await cancel(bench, job_id)
    assert await after(bench, job_id, 0) == [], "the message of its cancellation may be under way"
    assert await after(bench, job_id, 61) == [job_id]
    assert await after(bench, job_id, 25) == [], "86 minutes after the end, the last was at 61"
    assert await after(bench, job_id, 40) == [job_id]
    assert await run_job(job_id, bench.context(is_stopping=lambda: True)) == "was over"
    assert heard(host) == [], "the worker was shut down before it had told them"
    assert await run_job(job_id, bench.context()) == "was over"
    assert_told(bench, job_id, host)
    assert await after(bench, job_id, 10 * 60) == []
    leave_open(bench, job_id)
    await bench.do("update jobs set may_have_open_rollouts = true where id = %s", job_id)
    assert await after(bench, job_id, 60) == [job_id]
    assert await after(bench, job_id, 24 * 60) == [], "whoever was away for a day is not told any more"


async def test_ends_that_the_customers_server_did_not_take_are_told_later(
    bench: Workbench, host: LoopbackEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await lost_job(bench, host)
    await end_lease(bench, job_id)
    await cancel(bench, job_id)
    bench.changed_settings |= {"max_retries": 1, "retry_first_wait_s": 0.01}
    monkeypatch.setattr(Host, "is_away", True)
    assert await run_job(job_id, bench.context()) == "was over"
    assert {json.loads(call.body)["trace_id"] for call in host.endpoint.calls} == {*LEFT}
    assert all(one in (bench.run_dir(job_id) / layout.OPEN_ROLLOUTS).read_text() for one in LEFT)
    assert await after(bench, job_id, 60) == [job_id]
    monkeypatch.undo()
    host.endpoint.calls.clear()
    assert await run_job(job_id, bench.context()) == "was over"
    assert_told(bench, job_id, host)
    assert await after(bench, job_id, 10 * 60) == []


async def test_a_failed_job_whose_worker_died_before_it_told_the_ends(bench: Workbench, host: LoopbackEndpoint) -> None:
    job_id = await lost_job(bench, host)
    await bench.do(
        "update jobs set status = 'failed', finished_at = clock_timestamp(), lease_owner = null, lease_until = null,"
        " enqueued_at = clock_timestamp() where id = %s",
        job_id,
    )
    assert await after(bench, job_id, 1) == [], "its own worker may still do it"
    assert await after(bench, job_id, 60) == [job_id]
    assert await run_job(job_id, bench.context()) == "was over"
    assert_told(bench, job_id, host)


async def test_a_job_without_open_rollouts_starts_nobody(bench: Workbench, host: LoopbackEndpoint) -> None:
    job_id = await job_with_host(bench, host)
    assert await run_job(job_id, bench.context()) == "over"
    assert "tell_left_open" not in (bench.run_dir(job_id) / layout.LOG).read_text()
    assert heard(host) == []
    assert not (await bench.job(job_id))["may_have_open_rollouts"]
