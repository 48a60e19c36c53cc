"""Shards whose giving-out is heard late, when workers have run them: each is run once."""

import asyncio
from collections.abc import Sequence

from rft.rollouts.shards.inbox import InboxDown
from rft.rollouts.shards.inbox_wire import SealedShard
from rft.testing.memory_inbox import MemoryInbox
from rft.testing.samplers_time import run_in_virtual_time
from tests.unit.rollouts.shard_cluster import ROWS, TURNS, Cluster, MakeSetup, outcomes, slow_tools


class LostAnswer(MemoryInbox):
    """The first answer is lost, after all was done."""

    is_lost: bool = True

    async def give_out(self, shards: Sequence[SealedShard]) -> None:
        await super().give_out(shards)
        if self.is_lost:
            self.is_lost = False
            await asyncio.sleep(30.0)
            raise InboxDown("no answer")


def test_a_shard_that_ended_before_it_was_known_to_be_out_is_not_run_again(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        tools = slow_tools(lambda call: 1.0)
        cluster = Cluster(make_setup(TURNS, tools=tools), workers=2, inbox=LostAnswer())
        assert len(outcomes(await cluster.step(ROWS[:4]))) == 32
        await asyncio.sleep(60.0)
        assert not cluster.inbox.shards, "the step's last one, whose call was sent again"
        await cluster.sessions[0].work()
        assert len(tools.calls) == len(cluster.inbox.handed_over) == 32

    run_in_virtual_time(scenario())


def test_it_is_not_run_again_beside_others_that_are_out(make_setup: MakeSetup) -> None:
    """The trainer, at work on the others, has said that it is over, so that the second call finds it no more."""

    async def scenario() -> None:
        tools = slow_tools(lambda call: 1.0 if call <= 16 else 60.0)
        cluster = Cluster(make_setup(TURNS, tools=tools), workers=2, inbox=LostAnswer())
        early = asyncio.create_task(cluster.step(ROWS[:2]))
        await asyncio.sleep(0.5)
        await cluster.sessions[0].work()  # As one with room would, without a message.
        await asyncio.sleep(27.0)
        late = asyncio.create_task(cluster.step(ROWS[2:4]))
        assert outcomes(await early).total() + outcomes(await late).total() == 32
        await asyncio.sleep(60.0)
        assert len(tools.calls) == len(cluster.inbox.handed_over) == 32
        assert not cluster.inbox.shards

    run_in_virtual_time(scenario())
