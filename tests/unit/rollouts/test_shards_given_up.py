"""Shards that are given up before their rollouts began: nothing of them is run."""

import asyncio
from collections.abc import Callable

import pytest

from rft.core.errors import RftError
from rft.rollouts.shards.inbox_wire import Taken
from rft.rollouts.shards.worker import OpenedRun
from rft.testing.memory_inbox import MemoryWorkerInbox
from rft.testing.samplers_time import run_in_virtual_time
from tests.unit.rollouts.shard_cluster import TURNS, Cluster, MakeSetup, slow_tools
from tests.unit.rollouts.test_shard_workers import sealed

_OPENING_S = 20.0


def become_stale(cluster: Cluster) -> None:
    cluster.inbox.is_stale = True


def become_over(cluster: Cluster) -> None:
    cluster.inbox.shards.clear()


@pytest.mark.parametrize("end", [become_stale, become_over])
def test_a_shard_given_up_while_its_run_is_opened_is_not_run(
    make_setup: MakeSetup, end: Callable[[Cluster], None]
) -> None:
    async def scenario() -> None:
        tools = slow_tools(lambda call: 60.0)
        cluster = Cluster(make_setup(TURNS, tools=tools), workers=1)
        (session,) = cluster.sessions
        opened = session.open_run

        async def open_slowly(announced: str) -> OpenedRun:
            await asyncio.sleep(_OPENING_S)
            return await opened(announced)

        session.open_run = open_slowly
        await cluster.inbox.give_out([sealed("one", "two", version=1)])
        work = asyncio.create_task(session.work())
        await asyncio.sleep(1.0)
        end(cluster)
        await work
        assert asyncio.get_running_loop().time() < _OPENING_S, "a thread of the worker is free for others"
        assert session.is_idle
        await asyncio.sleep(2 * _OPENING_S)
        assert tools.calls == []
        if end is become_over:
            await cluster.inbox.give_out([sealed("three", version=2)])
            await session.work()
            assert cluster.inbox.handed_over == ["three"], "the run was opened all the same"

    run_in_virtual_time(scenario())


def test_a_run_whose_opening_failed_after_its_shard_was_given_up_is_opened_anew(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        tools = slow_tools(lambda call: 1.0)
        cluster = Cluster(make_setup(TURNS, tools=tools), workers=1)
        (session,) = cluster.sessions
        opened, openings = session.open_run, list[str]()

        async def open_at_second_try(announced: str) -> OpenedRun:
            openings.append(announced)
            if len(openings) > 1:
                return await opened(announced)
            await asyncio.sleep(_OPENING_S)
            raise RftError("the vLLM server is away")

        session.open_run = open_at_second_try
        await cluster.inbox.give_out([sealed("one", version=1)])
        work = asyncio.create_task(session.work())
        await asyncio.sleep(1.0)
        become_over(cluster)
        await work
        await asyncio.sleep(2 * _OPENING_S)
        await cluster.inbox.give_out([sealed("two", version=2)])
        await session.work()
        assert (len(openings), len(tools.calls)) == (2, 1), "nobody had heard of the failure"
        assert cluster.inbox.handed_over == ["two"]

    run_in_virtual_time(scenario())


class SlowToAnswer(MemoryWorkerInbox):
    """A shard is its own for a while before it hears so."""

    async def take(self, *, is_idle: bool) -> Taken:
        taken = await super().take(is_idle=is_idle)
        await asyncio.sleep(3.0)
        return taken


def test_a_shard_that_reaches_a_worker_that_is_closed_is_not_run(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        tools = slow_tools(lambda call: 1.0)
        cluster = Cluster(make_setup(TURNS, tools=tools), workers=1)
        (session,) = cluster.sessions
        await cluster.inbox.give_out([sealed("one", version=1)])
        await session.work()
        session.inbox = SlowToAnswer(cluster.inbox, session.worker)
        await cluster.inbox.give_out([sealed("two", version=2)])
        work = asyncio.create_task(session.work())
        await asyncio.sleep(1.0)
        await session.aclose()
        await work
        assert (len(tools.calls), cluster.inbox.handed_over) == (1, ["one"]), "its engine is closed"

    run_in_virtual_time(scenario())
