"""A run that a worker has nothing to do for is closed."""

import asyncio

import pytest

from rft.rollouts.shards.http_inbox import RunAddress
from rft.rollouts.shards.worker import OpenedRun
from rft.testing.memory_inbox import MemoryInbox, MemoryWorkerInbox
from rft.trainer import rollout_worker
from rft.trainer.rollout_worker import RolloutWorker, WorkerConfig
from tests.shared.waiting import until
from tests.unit.rollouts.conftest import nothing_to_close
from tests.unit.rollouts.shard_cluster import TURNS, MakeSetup, slow_tools
from tests.unit.rollouts.test_shard_workers import sealed

ADDRESS = RunAddress("http://127.0.0.1:9", "ftjob-1", "token")


@pytest.mark.lengthy
async def test_a_run_is_closed_whose_last_shard_came_without_a_message(
    make_setup: MakeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox, closed, setup = MemoryInbox(), list[int](), make_setup(TURNS, tools=slow_tools(lambda call: 2.5))

    async def open_run(*_: object, **__: object) -> OpenedRun:
        async def aclose() -> None:
            closed.append(1)

        return OpenedRun(setup, lambda version, adapter: None, lambda trace_id: (), aclose, nothing_to_close)

    def end(*_: object) -> MemoryWorkerInbox:
        return inbox.of_worker("worker")

    monkeypatch.setattr(rollout_worker, "_IDLE_S", 0.5)
    monkeypatch.setattr(rollout_worker, "open_worker_run", open_run)
    monkeypatch.setattr(rollout_worker, "HttpWorkerInbox", end)
    worker = RolloutWorker(WorkerConfig(broker_url=""))
    try:
        await inbox.give_out([sealed("one", version=1)])
        message = asyncio.create_task(asyncio.to_thread(worker.work, ADDRESS))
        await until(lambda: inbox.shards["shard-1"].worker is not None, "the message's shard to be taken")
        await inbox.give_out([sealed("two", version=2)])
        await message
        assert inbox.shards["shard-2"].worker is not None, "it took the other one beside it"
        assert not closed
        await asyncio.sleep(4.0)
        assert sorted(inbox.handed_over) == ["one", "two"]
        assert closed == [1]
        await inbox.give_out([sealed("three", version=3)])
        await asyncio.to_thread(worker.work, ADDRESS)
        assert inbox.handed_over[-1] == "three", "it is opened again by its next shard"
    finally:
        await asyncio.to_thread(worker.close)
    assert closed == [1, 1]
