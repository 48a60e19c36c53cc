"""A run whose worker is gone goes on with what it has not finished; what is finished is neither lost nor made twice."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, cast

import psycopg
import pytest

from rft.core.base import JsonObject
from rft.platform.evals.output_item_repository import NewOutputItem, OutputItemRepository
from rft.platform.evals.reconciling import reconcile_eval_runs
from rft.platform.evals.run_repository import RunRepository
from rft.platform.lifecycle import expired_leases
from rft.platform.lifecycle.expired_leases import ExpiredLeases
from rft.platform.lifecycle.lease import LeaseLost, renew
from rft.platform.worker.run_eval import run_eval
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.evals.stage import Gate, Stage, gated_rows, inline
from tests.shared.running_api import collect
from tests.shared.turned_clock import TurnedClock
from tests.shared.waiting import PATIENCE_S, until

AT_ONCE = ExpiredLeases(patience_s=0.0)


@pytest.fixture
async def gate() -> AsyncIterator[tuple[Gate, str]]:
    """The grader and its address."""
    gate = Gate()
    async with LoopbackEndpoint(gate) as served:
        yield gate, served.grader_url
        gate.opened.set()


def _never() -> bool:
    return False


async def begun(
    stage: Stage, url: str, is_stopping: Callable[[], bool] = _never
) -> tuple[str, str, "asyncio.Task[str]"]:
    """A run that has finished all it can: its eval, its id, and its worker."""
    eval_id = await stage.make({"type": "endpoint", "name": "gate", "url": url})
    made = (await stage.client.evals.runs.create(eval_id, data_source=inline(*gated_rows()))).id
    worker = asyncio.create_task(run_eval(made, replace(stage.context, is_stopping=is_stopping)))

    async def is_half_done() -> bool:
        assert not worker.done()
        return len(await collect(stage.items(eval_id, made))) == 3

    await until(is_half_done, "the free items to be finished")
    return eval_id, made, worker


async def kill(worker: "asyncio.Task[str]") -> None:
    """Without a chance to write anything."""
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker


async def end_leases(stage: Stage) -> list[str]:
    """As if time had passed; the runs that are enqueued again."""
    async with stage.context.database.transaction() as connection:
        await connection.execute(
            "update eval_runs set lease_until = clock_timestamp() - interval '1 second' where lease_owner is not null"
        )
        return [message.job_id for message in await reconcile_eval_runs(connection, AT_ONCE, unheard_s=-60.0)]


async def test_a_run_is_left_to_its_worker_when_the_clock_of_the_database_jumps(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or when the machine slept: its lease has run out, and its worker lives."""
    clock, leases = TurnedClock(monkeypatch, expired_leases), ExpiredLeases(patience_s=3.0)
    eval_id = await stage.make()
    run_id = (await stage.client.evals.runs.create(eval_id, data_source=inline(*gated_rows()))).id
    lease = await taken(stage, run_id)

    async def look() -> list[str]:
        clock.turn(2.0)
        async with stage.context.database.transaction() as connection:
            return [message.job_id for message in await reconcile_eval_runs(connection, leases, unheard_s=-60.0)]

    async def jump() -> None:
        async with stage.context.database.transaction() as connection:
            await connection.execute("update eval_runs set lease_until = clock_timestamp() - interval '1 hour'")

    await jump()
    assert [await look(), await look()] == [[], []]
    async with stage.context.database.connection() as connection:
        await renew(connection, lease, ttl_s=60)
    assert await look() == []
    await jump()
    await stage.client.evals.runs.cancel(run_id, eval_id=eval_id)
    assert [await look(), await look()] == [[], []], "its worker ends it in good order"
    assert (await stage.client.evals.runs.retrieve(run_id, eval_id=eval_id)).status == "in_progress"
    await look()
    assert (await stage.client.evals.runs.retrieve(run_id, eval_id=eval_id)).status == "canceled"


async def test_another_worker_finishes_the_rest(stage: Stage, gate: tuple[Gate, str]) -> None:
    grader, url = gate
    eval_id, run_id, worker = await begun(stage, url)
    before = {item.id: item.to_dict() for item in await collect(stage.items(eval_id, run_id))}
    assert await stage.work(run_id) == "not to be run now", "its lease stands"
    going = (await stage.client.evals.runs.retrieve(run_id, eval_id=eval_id)).to_dict()
    figures: Any = going["figures"]
    assert (going["status"], figures["samples"], figures["passed"]["mean"]) == ("in_progress", 3, 1.0)
    [item, *_] = before.values()
    (result,) = cast("list[Any]", item["results"])
    assert result["reply"] == '{"score": 1}'
    sent = json.loads(result["request"])
    assert (sent["item"], "output_text" in sent["sample"]) == (item["datasource_item"], True)
    await kill(worker)
    assert await end_leases(stage) == [run_id]
    grader.opened.set()
    assert await stage.work(run_id) == "completed"
    after = {item.id: item.to_dict() for item in await collect(stage.items(eval_id, run_id))}
    assert len(after) == 6
    assert {key: after[key] for key in before} == before
    assert [grader.asked(f"q{number}") for number in (0, 2, 4)] == [1, 1, 1]
    run = await stage.client.evals.runs.retrieve(run_id, eval_id=eval_id)
    assert (run.status, run.result_counts.total, run.result_counts.passed) == ("completed", 6, 6)


async def test_a_worker_that_shuts_down_leaves_the_rest_to_another(stage: Stage, gate: tuple[Gate, str]) -> None:
    grader, url = gate
    shut_down = asyncio.Event()
    eval_id, run_id, worker = await begun(stage, url, shut_down.is_set)
    shut_down.set()
    assert await asyncio.wait_for(worker, PATIENCE_S) == "left to another worker"
    assert (await stage.client.evals.runs.retrieve(run_id, eval_id=eval_id)).status == "queued"
    grader.opened.set()
    assert await stage.work(run_id) == "completed"
    assert len(await collect(stage.items(eval_id, run_id))) == 6


async def test_a_worker_that_lost_its_lease_writes_nothing(stage: Stage, gate: tuple[Gate, str]) -> None:
    _, url = gate
    eval_id, run_id, worker = await begun(stage, url)
    await kill(worker)
    await end_leases(stage)
    ours = await taken(stage, run_id)
    await end_leases(stage)
    theirs = await taken(stage, run_id)
    item = NewOutputItem(
        id="outputitem_x",
        row_index=1,
        sample_index=0,
        status="pass",
        item={},
        sample={},
        results=(JsonObject(),),
        scores=(1.0,),
        passes=(True,),
        failure_code=None,
        usage={},
        prompt_tokens=0,
        completion_tokens=0,
        tool_calls=0,
        latency_s=None,
    )
    with pytest.raises(LeaseLost):
        async with stage.context.database.transaction() as connection:
            await OutputItemRepository(connection).add(ours, item)
    for _ in range(2):
        async with stage.context.database.transaction() as connection:
            await OutputItemRepository(connection).add(theirs, item)
    assert len(await collect(stage.items(eval_id, run_id))) == 4


async def taken(stage: Stage, run_id: str) -> Any:
    """The lease of a worker that does nothing."""
    async with stage.context.database.transaction() as connection:
        found = await RunRepository(connection).take(run_id, owner="host/1/x-1", ttl_s=60, slots=9)
    assert found is not None
    return found[1]


async def test_a_run_that_no_worker_gets_on_with_has_failed(stage: Stage) -> None:
    eval_id = await stage.make()
    run_id = (await stage.client.evals.runs.create(eval_id, data_source=inline(*gated_rows()))).id
    for _ in range(stage.context.settings.max_launches_without_progress):
        await taken(stage, run_id)
        await end_leases(stage)
    assert await stage.work(run_id) == "failed: interrupted"


async def test_a_run_that_is_cancelled_keeps_what_is_finished(stage: Stage, gate: tuple[Gate, str]) -> None:
    _, url = gate
    eval_id, run_id, worker = await begun(stage, url)
    asked = await stage.client.evals.runs.cancel(run_id, eval_id=eval_id)
    assert (asked.status, asked.model_dump()["is_cancel_requested"]) == ("in_progress", True)
    assert await asyncio.wait_for(worker, PATIENCE_S) == "canceled"
    run: Any = await stage.client.evals.runs.retrieve(run_id, eval_id=eval_id)
    assert (run.status, run.result_counts.total) == ("canceled", 3)
    assert run.to_dict()["figures"]["samples"] == 3
    assert await stage.work(run_id) == "not to be run now"


async def test_a_run_to_be_cancelled_whose_worker_is_gone_is_cancelled(stage: Stage, gate: tuple[Gate, str]) -> None:
    _, url = gate
    eval_id, run_id, worker = await begun(stage, url)
    await kill(worker)
    await stage.client.evals.runs.cancel(run_id, eval_id=eval_id)
    assert await end_leases(stage) == []
    assert (await stage.client.evals.runs.retrieve(run_id, eval_id=eval_id)).status == "canceled"


async def test_a_run_that_is_deleted_ends(stage: Stage, gate: tuple[Gate, str]) -> None:
    _, url = gate
    eval_id, run_id, worker = await begun(stage, url)
    await stage.client.evals.runs.delete(run_id, eval_id=eval_id)
    assert await asyncio.wait_for(worker, PATIENCE_S) == "lease lost"


async def test_only_so_many_runs_are_under_way_at_once(stage: Stage) -> None:
    eval_id = await stage.make()
    made = [(await stage.client.evals.runs.create(eval_id, data_source=inline(*gated_rows()))).id for _ in range(3)]
    async with stage.context.database.transaction() as connection:
        runs = RunRepository(connection)
        got = [await runs.take(run_id, owner="host/1/x-1", ttl_s=60, slots=2) for run_id in made]
    assert [one is not None for one in got] == [True, True, False]
    assert stage.context.settings.eval_slots == 2


async def test_a_run_that_is_cancelled_while_its_worker_shuts_down_is_cancelled(
    stage: Stage, gate: tuple[Gate, str], migrated_url: str
) -> None:
    _, url = gate
    shut_down = asyncio.Event()

    def is_stopping() -> bool:
        if not shut_down.is_set():
            return False
        # The customer's call comes after the worker's last look at what is asked of it.
        with psycopg.connect(migrated_url, options="-c lock_timeout=100ms") as connection:
            try:
                connection.execute("update eval_runs set is_cancel_requested = true")
            except psycopg.errors.LockNotAvailable:  # By a heartbeat that needs this loop to end: at the next look.
                return False
        return True

    eval_id, run_id, worker = await begun(stage, url, is_stopping)
    shut_down.set()
    assert await asyncio.wait_for(worker, PATIENCE_S) == "canceled"
    run = await stage.client.evals.runs.retrieve(run_id, eval_id=eval_id)
    assert (run.status, run.result_counts.total) == ("canceled", 3)


async def test_a_queued_run_that_is_to_be_cancelled_is_cancelled_by_the_reconciler(stage: Stage) -> None:
    eval_id = await stage.make()
    run_id = (await stage.client.evals.runs.create(eval_id, data_source=inline(*gated_rows()))).id
    async with stage.context.database.transaction() as connection:
        await connection.execute("update eval_runs set is_cancel_requested = true where id = %s", (run_id,))
    assert await end_leases(stage) == []
    assert (await stage.client.evals.runs.retrieve(run_id, eval_id=eval_id)).status == "canceled"
