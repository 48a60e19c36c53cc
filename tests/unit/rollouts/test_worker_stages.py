"""What rollouts at workers do now is seen where the run is followed."""

import asyncio

from rft.core.progress import RoundProgress, StageCounts
from rft.rollouts.live import LiveRollouts
from rft.rollouts.shards.inbox_wire import BEAT_S, SHARD_LEASE_S
from rft.rollouts.shards.worker_stages import WorkerStages
from rft.testing.memory_inbox import MemoryInbox
from rft.testing.samplers_time import run_in_virtual_time
from tests.unit.rollouts.shard_cluster import GROUP, ROWS, TURNS, Cluster, MakeSetup, slow_tools

EVERY = len(ROWS) * GROUP
TOOL_S, SOON_S = 20.0, 3 * BEAT_S


def test_a_round_at_workers_is_seen_as_one_in_this_process(make_setup: MakeSetup) -> None:
    """One that falls silent has none under way, and what it had begins again at the other."""

    async def scenario() -> tuple[RoundProgress | None, ...]:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: TOOL_S)), workers=2)
        followed = WorkerStages(cluster.inbox)
        cluster.setup.live.elsewhere = followed.now
        followed.start()
        step = asyncio.create_task(cluster.step())
        await asyncio.sleep(SOON_S)
        begun = cluster.setup.live.progress()
        cluster.kill(0)
        await asyncio.sleep(SHARD_LEASE_S + SOON_S)
        without_one = cluster.setup.live.progress()
        await step
        await asyncio.sleep(SOON_S)
        assert followed.now() == StageCounts()
        await followed.aclose()
        return begun, without_one

    begun, without_one = run_in_virtual_time(scenario())
    assert begun is not None
    assert (begun.rollouts, begun.calling, begun.sampling) == (EVERY, {"search": EVERY}, 0)
    assert without_one is not None
    assert without_one.calling == {"search": EVERY}


def test_nothing_is_seen_while_the_inbox_is_away_and_again_when_it_is_back() -> None:
    async def scenario() -> None:
        inbox = BusyInbox()
        followed = WorkerStages(inbox)
        followed.start()
        await asyncio.sleep(SOON_S)
        assert followed.now() == BUSY
        inbox.is_down = True
        await asyncio.sleep(SOON_S)
        assert followed.now() == StageCounts()
        inbox.is_down = False
        await asyncio.sleep(SOON_S)
        assert followed.now() == BUSY
        inbox.is_stale = True  # Another launch follows: nothing is asked any more, and nothing breaks.
        await asyncio.sleep(SOON_S)
        asked = inbox.asked
        await asyncio.sleep(SOON_S)
        assert inbox.asked == asked
        await followed.aclose()

    run_in_virtual_time(scenario())


def test_closed_before_it_was_started_it_says_nothing() -> None:
    followed = WorkerStages(MemoryInbox())
    asyncio.run(followed.aclose())
    assert LiveRollouts(elsewhere=followed.now).progress() is None


BUSY = StageCounts(sampling=3, calling={"search": 2}, waiting_for_engine=1)


class BusyInbox(MemoryInbox):
    """One whose workers are at something."""

    asked = 0

    async def stages(self) -> StageCounts:
        self.asked += 1
        self.check()
        return BUSY
