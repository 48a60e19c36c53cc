"""What a rollout worker takes, keeps and hands over, and what becomes of what it cannot."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from rft.core.base import JsonObject
from rft.core.errors import SamplerError
from rft.core.events import RolloutBegan
from rft.core.failure import Failure
from rft.core.grade import Grade
from rft.core.progress import StageCounts
from rft.core.rollout import RolloutKey, Split
from rft.engines.vllm.named_versions import NamedVersions
from rft.rollouts.hold import UnrecoverableRound
from rft.rollouts.live import LiveConversation, LiveRollouts
from rft.rollouts.lost_rounds import RoundLost
from rft.rollouts.sampler import Sample, SampleRequest
from rft.rollouts.setup import RolloutSetup
from rft.rollouts.shards import handing_over
from rft.rollouts.shards.inbox import InboxDown
from rft.rollouts.shards.inbox_wire import SHARD_LEASE_S, SealedShard
from rft.rollouts.shards.wire import LARGEST, Settled, Shard, ShardRollout
from rft.rollouts.shards.worker import RunSession
from rft.testing.memory_inbox import MemoryWorkerInbox
from rft.testing.samplers import ScriptedSampler, tool_call_text
from rft.testing.samplers_slots import DelegatingEngine
from rft.testing.samplers_time import run_in_virtual_time
from tests.unit.rollouts.conftest import nothing_to_close
from tests.unit.rollouts.shard_cluster import (
    GROUP,
    ROWS,
    TURNS,
    Cluster,
    MakeSetup,
    SmallInbox,
    outcomes,
    slow_tools,
)
from tests.unit.rollouts.test_host import Host


def test_a_worker_with_room_takes_what_no_message_told_it_of(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 8.0)), workers=1)
        cluster.hints.workers = [cluster.sessions[0].work, *[nothing_to_close] * 5]
        assert len(outcomes(await cluster.step())) == 96, "six shards, and one message"
        assert asyncio.get_running_loop().time() < 8.0 + 2.0
        await asyncio.sleep(0.1)
        assert all(session.is_idle for session in cluster.sessions)

    run_in_virtual_time(scenario())


def test_a_worker_without_room_leaves_the_rest_to_others(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 8.0)), workers=1)
        cluster.sessions[0].most_rollouts = 2 * LARGEST
        cluster.hints.workers = [cluster.sessions[0].work, *[nothing_to_close] * 5]
        step = asyncio.create_task(cluster.step())
        await asyncio.sleep(7.0)
        assert sum(kept.worker is None for kept in cluster.inbox.shards.values()) == 1, "five shards are 80 rollouts"
        assert len(outcomes(await step)) == 96

    run_in_virtual_time(scenario())


def test_a_worker_that_leaves_in_good_order_is_not_waited_for(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 4.0)), workers=3)
        step = asyncio.create_task(cluster.step(ROWS[:4]))
        await asyncio.sleep(2.0)
        await cluster.sessions[0].aclose()
        done = await step
        assert len(outcomes(done)) == 32
        assert asyncio.get_running_loop().time() < SHARD_LEASE_S

    run_in_virtual_time(scenario())


def test_a_rollout_is_handed_over_once_its_end_was_told(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS), ends_take_s=3.0)
        step = asyncio.create_task(cluster.step(ROWS[:1]))
        await asyncio.sleep(2.5)
        assert not cluster.inbox.handed_over, "its trainer would close the run, and with it what is open"
        assert len(outcomes(await step)) == GROUP

    run_in_virtual_time(scenario())


class StuckOnce(MemoryWorkerInbox):
    """Its first beat goes to an address that is gone, and waits for its answer as long as a call may."""

    stuck: int = 1

    async def beat(self, shards: Mapping[str, StageCounts], *, is_leaving: bool = False) -> Sequence[str]:
        if self.stuck:
            self.stuck -= 1
            await asyncio.sleep(30.0)
            raise InboxDown("no answer")
        return await super().beat(shards, is_leaving=is_leaving)


def test_a_beat_that_is_never_answered_keeps_none_of_the_next_ones_back(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 3 * SHARD_LEASE_S)), workers=1)
        cluster.sessions[0].inbox = StuckOnce(cluster.inbox, cluster.sessions[0].worker)
        assert len(outcomes(await cluster.step(ROWS[:1]))) == GROUP
        assert cluster.sessions[0].shards_run == 1, "it was never given out again"

    run_in_virtual_time(scenario())


def test_jobs_take_turns_at_the_threads_of_a_worker(make_setup: MakeSetup) -> None:
    """One that always has a shard more keeps no other waiting."""

    async def scenario() -> None:
        ours, other = [Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 2.0)), workers=1) for _ in range(2)]
        thread = asyncio.Lock()
        for cluster in (ours, other):
            cluster.sessions[0].most_rollouts = 0
            cluster.hints.workers = [in_turn(thread, cluster.sessions[0])]
        first = asyncio.create_task(ours.step(ROWS[:6]))
        await asyncio.sleep(1.0)
        waiting = asyncio.create_task(other.step(ROWS[:1]))
        await asyncio.sleep(1.0)
        ahead = asyncio.create_task(ours.step(ROWS[6:]))
        await waiting
        assert not ahead.done()
        assert len(outcomes(await first) + outcomes(await ahead)) == 96

    run_in_virtual_time(scenario())


def in_turn(thread: asyncio.Lock, session: RunSession) -> Callable[[], Coroutine[None, None, None]]:
    async def work() -> None:
        async with thread:
            await session.work()

    return work


def test_workers_that_cannot_run_the_job_say_why(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS), problem=FileNotFoundError("no folder /models/tiny here"))
        with pytest.raises((RoundLost, UnrecoverableRound), match="cannot run this job: no folder /models/tiny here"):
            await cluster.step(ROWS[:1])

    run_in_virtual_time(scenario())


class BrokenLive(LiveRollouts):
    """Raises what no part of a rollout may raise."""

    @contextmanager
    def conversation(self, trace_id: str, conversation: LiveConversation) -> Generator[None]:
        raise KeyError(trace_id)
        yield


def test_an_exception_of_ours_in_a_worker_fails_its_rollout_and_does_not_repeat_it_for_ever(
    make_setup: MakeSetup,
) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS), live=BrokenLive)
        with pytest.raises((RoundLost, UnrecoverableRound), match="broke: KeyError"):
            await cluster.step(ROWS[:1])
        assert len(cluster.began) == len(cluster.inbox.handed_over)
        assert sorted(cluster.taken) == sorted(cluster.inbox.handed_over)
        settled = [Settled.model_validate_json(one.body) for one in cluster.inbox.rollouts.values()]
        assert all(one.attempts for one in settled), "what was tried for it is known all the same"

    run_in_virtual_time(asyncio.wait_for(scenario(), 600.0))


def test_attempts_of_a_rollout_that_is_broken_off_are_not_kept_for_ever(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 4.0)), workers=1)
        (session,) = cluster.sessions
        await cluster.inbox.give_out([sealed("one", "two", version=1)])
        work = asyncio.create_task(session.work())
        await asyncio.sleep(2.0)
        await session.aclose()
        await work
        assert sorted(cluster.taken) == ["one", "two"]
        assert not cluster.inbox.handed_over

    run_in_virtual_time(scenario())


def test_many_large_rollouts_are_handed_over_in_several_deliveries(
    make_setup: MakeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing_over, "CALL_BYTES", 300_000)

    async def scenario() -> None:
        cluster = Cluster(make_setup([tool_call_text("search", '{"q": 1}'), "a" * 2000]), workers=1, most_bytes=301_000)
        assert len(outcomes(await cluster.step())) == 96
        (end,) = cluster.ends
        assert isinstance(end, SmallInbox)
        assert max(map(len, end.deliveries)) > 1
        assert not end.refused

    run_in_virtual_time(scenario())


def test_a_rollout_that_no_delivery_can_carry_is_the_platforms_failure(
    make_setup: MakeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing_over, "LARGEST_ROLLOUT_BYTES", 20_000)
    monkeypatch.setattr(handing_over, "CALL_BYTES", 20_000)

    async def scenario() -> None:
        cluster = Cluster(make_setup([tool_call_text("search", '{"q": 1}'), "a" * 8000]), workers=1, most_bytes=20_200)
        with pytest.raises((RoundLost, UnrecoverableRound), match=r"could not hand it over: it has [\d,]+ bytes, more"):
            await cluster.step(ROWS[:1])
        (end,) = cluster.ends
        assert isinstance(end, SmallInbox)
        assert not end.refused

    run_in_virtual_time(scenario())


def test_a_refused_delivery_costs_only_the_rollouts_that_are_refused_alone(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        setup = make_setup([tool_call_text("search", '{"q": 1}'), "a" * 500])
        cluster = Cluster(setup, workers=1, most_bytes=40_000)  # As a proxy between worker and platform may have it.
        assert len(outcomes(await cluster.step())) == 96
        (end,) = cluster.ends
        assert isinstance(end, SmallInbox)
        assert end.refused
        assert len(cluster.began) == 96, "nothing began anew"

    run_in_virtual_time(scenario())


def test_a_worker_that_can_hand_nothing_over_gives_its_shard_back(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS), workers=2)
        narrow = SmallInbox(cluster.inbox, "worker-0", most_bytes=10)
        cluster.ends[0], cluster.sessions[0] = narrow, RunSession(narrow.worker, narrow, cluster.open_run)
        cluster.hints.workers = [session.work for session in cluster.sessions]
        done = await cluster.step(ROWS[:4])
        assert len(outcomes(done)) == 32
        assert all(isinstance(rollout.outcome, Grade) for group in done.groups for rollout in group.rollouts)
        assert {notice.code for notice in cluster.notices} == {"rollout_worker_lost"}
        assert cluster.sessions[0].shards_run == 1, "it takes no more for a minute"

    run_in_virtual_time(scenario())


def test_only_a_launch_that_counts_is_accepted(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster, accepted = Cluster(make_setup(TURNS), workers=2), list[str]()
        for session in cluster.sessions:
            session.on_accepted = lambda session=session: accepted.append(session.worker)
        await cluster.sessions[0].work()
        await cluster.sessions[0].work()
        cluster.inbox.is_stale = True
        await cluster.sessions[1].work()
        assert accepted == ["worker-0"]

    run_in_virtual_time(scenario())


class Holder(DelegatingEngine):
    """Keeps versions as a worker's engine does: nobody's are forgotten at once."""

    def __init__(self, setup: RolloutSetup) -> None:
        assert isinstance(setup.sampler, ScriptedSampler)
        super().__init__(setup.sampler)
        self.versions = NamedVersions()

    async def sample(self, request: SampleRequest) -> Sample:
        assert request.policy_version is not None
        self.rollout_began(request.rollout_id, request.policy_version)
        return await super().sample(request)

    def rollout_began(self, rollout_id: str, version: int) -> None:
        if not self.versions.use.hold(rollout_id, version):
            raise SamplerError(f"policy version {version} is not served any more")

    def rollout_ended(self, rollout_id: str) -> None:
        self.versions.use.release(rollout_id)
        for version in self.versions.use.unused:
            self.versions.use.forget(version)


class SlowStart(Host):
    """One rollout's beginning takes long to tell."""

    def __init__(self, slow: str) -> None:
        super().__init__()
        self.slow = slow

    async def started(self, *, item: JsonObject, trace_id: str) -> Failure | None:
        self.takes_s = 10.0 if trace_id == self.slow else 0.0
        return await super().started(item=item, trace_id=trace_id)


def sealed(*trace_ids: str, version: int) -> SealedShard:
    """A shard of one row's rollouts."""
    rollouts = [
        ShardRollout(0, RolloutBegan(make_key(index), trace_id, version)) for index, trace_id in enumerate(trace_ids)
    ]
    shard = Shard(rows=(ROWS[0],), rollouts=tuple(rollouts), is_grading=True, adapter=f"v{version}")
    return SealedShard(id=f"shard-{version}", body=shard.model_dump_json())


def make_key(index: int) -> RolloutKey:
    return RolloutKey(job_id="ftjob-1", job_seed=5, split=Split.TRAIN, step=2, epoch=0, row_index=0, index=index)


def test_a_worker_keeps_a_version_from_when_its_rollouts_were_given_to_it(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS), workers=1)
        holder = Holder(cluster.setup)
        cluster.setup = replace(cluster.setup, sampler=holder, host=SlowStart("old"))
        cluster.name_version = holder.versions.name
        (session,) = cluster.sessions
        await cluster.inbox.give_out([sealed("old", version=1)])
        first = asyncio.create_task(session.work())
        await asyncio.sleep(1.0)
        await cluster.inbox.give_out([sealed("new", version=2)])
        await asyncio.sleep(5.0)
        assert set(cluster.inbox.handed_over) == {"new"}
        assert holder.versions.use.live == {1, 2}
        await first
        settled = [Settled.model_validate_json(one.body).rollout for one in cluster.inbox.rollouts.values()]
        assert [isinstance(one.outcome, Grade) for one in settled if one is not None] == [True, True], settled
        assert holder.versions.use.held == frozenset()

    run_in_virtual_time(scenario())


def test_a_rollout_whose_task_never_began_holds_no_version(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS), workers=1)
        holder = Holder(cluster.setup)
        cluster.setup = replace(cluster.setup, sampler=holder)
        (session,) = cluster.sessions

        def name(version: int, adapter: str | None) -> None:
            holder.versions.name(version, adapter)
            asyncio.get_running_loop().call_soon(session._drop, f"shard-{version}")  # pyright: ignore[reportPrivateUsage]

        cluster.name_version = name
        await cluster.inbox.give_out([sealed("one", "two", version=1)])
        await session.work()
        assert not cluster.inbox.handed_over
        assert holder.versions.use.held == frozenset()

    run_in_virtual_time(scenario())
