"""Rollouts given out to workers: each ends once, whoever dies, and outages are waited for and told."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.errors import RunAborted
from rft.core.events import RolloutBegan
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.messages import ToolCall
from rft.rollouts.executor import run_step
from rft.rollouts.group import StepRow
from rft.rollouts.shards import executor
from rft.rollouts.shards.inbox_wire import SHARD_LEASE_S, InboxNews
from rft.rollouts.shards.told import NO_WORKER_S
from rft.rollouts.shards.wire import LARGEST, SMALLEST, Settled, shard_sizes
from rft.testing.memory_inbox import MemoryInbox
from rft.testing.samplers_gateways import FunctionTools
from rft.testing.samplers_time import run_in_virtual_time
from tests.unit.rollouts.conftest import nothing_to_close
from tests.unit.rollouts.shard_cluster import (
    ATTEMPT,
    GROUP,
    ROWS,
    TURNS,
    Cluster,
    MakeSetup,
    NarrowInbox,
    outcomes,
    slow_tools,
)
from tests.unit.rollouts.test_host import Host


@given(st.integers(0, 20_000))
def test_a_burst_is_cut_into_shards_of_nearly_equal_size(rollouts: int) -> None:
    sizes = shard_sizes(rollouts)
    assert sum(sizes) == rollouts
    assert all(size <= LARGEST for size in sizes)
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert min(sizes, default=SMALLEST) >= min(SMALLEST, rollouts)


def test_rollouts_are_shared_out_and_come_back_whole(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS))
        here = await run_step(
            [StepRow(row, epoch=0) for row in ROWS], setup=cluster.setup, job_id="ftjob-1", job_seed=5, step=2,
            group_size=GROUP, replacement_share=0.0, on_rollout=lambda rollout, _: None,
        )  # fmt: skip
        done = await cluster.step()
        for there, local in zip(done.groups, here.groups, strict=True):
            for given_out, run_here in zip(there.rollouts, local.rollouts, strict=True):
                assert replace(given_out, trace_id="") == replace(
                    run_here, trace_id="", trace=given_out.trace, messages=given_out.messages
                )
                assert given_out.trace.token_ids == run_here.trace.token_ids
                assert given_out.trace.logprobs_T == run_here.trace.logprobs_T
        assert {began.trace_id for began in cluster.began} == set(outcomes(done)) == set(cluster.inbox.handed_over)
        assert Counter(attempt.trace_id for attempt in cluster.attempts) == outcomes(done)
        assert cluster.hints.hints == len(shard_sizes(96))
        assert not cluster.notices

    run_in_virtual_time(scenario())


def test_what_dead_workers_had_not_handed_over_begins_anew_under_new_ids(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        host = Host()
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 1.0 + call % 7), host=host))
        step = asyncio.create_task(cluster.step())
        await asyncio.sleep(3.5)
        kept = set(cluster.inbox.handed_over)
        cluster.kill(0)
        cluster.kill(1)
        started_s = asyncio.get_running_loop().time()
        done = await step
        took_s = asyncio.get_running_loop().time() - started_s
        assert outcomes(done).total() == 96 == len(outcomes(done)), "each rollout ended once"
        assert all(isinstance(rollout.outcome, Grade) for group in done.groups for rollout in group.rollouts)
        assert kept
        assert kept <= set(outcomes(done)), "what was handed over is kept"
        assert len(cluster.inbox.handed_over) == 96, "nothing was done twice"
        anew = cluster.began[96:]
        assert anew
        assert len({began.trace_id for began in cluster.began}) == 96 + len(anew)
        first = {began.key: began.trace_id for began in cluster.began[:96]}
        ended_in_vain = {trace_id for trace_id, outcome in host.ends if outcome is None}
        assert {first[began.key] for began in anew} <= ended_in_vain
        assert took_s <= SHARD_LEASE_S + 1.0 + 7.5 + 1.0, "detection and one longest rollout"
        codes = Counter(notice.code for notice in cluster.notices)
        assert codes == {"rollout_worker_lost": 4}, cluster.notices

    run_in_virtual_time(scenario())


def test_a_worker_that_was_only_silent_counts_no_more(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 12.0)), workers=3)
        cluster.ends[0].is_silent = True
        done = await cluster.step(ROWS[:4])
        assert len(outcomes(done)) == 32
        assert len(cluster.inbox.handed_over) == 32
        assert len(cluster.began) == 48, "one of two shards began anew"

    run_in_virtual_time(scenario())


def test_a_step_that_is_given_up_is_given_up_by_its_workers(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 1000.0)))
        step = asyncio.create_task(cluster.step())
        await asyncio.sleep(2.0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        await cluster.executor.aclose()
        assert not cluster.inbox.shards
        await asyncio.sleep(3.0)
        assert all(session.is_idle for session in cluster.sessions)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(scenario())


class SlowToDrop(MemoryInbox):
    """Takes a second until it drops what was read."""

    async def read(
        self, *, seen: Sequence[int], over: Sequence[str], out: Sequence[str] = (), wait_s: float
    ) -> InboxNews:
        if seen or over:
            await asyncio.sleep(1.0)
        return await super().read(seen=seen, over=over, out=out, wait_s=wait_s)


@pytest.mark.parametrize("state", ["s" * 900_000, "s" * 1_200_000, '"' * 240_000], ids=["large", "larger", "escaped"])
def test_large_rows_go_out_in_smaller_shards(
    make_setup: MakeSetup, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(executor, "CALL_BYTES", 1_000_000)
    rows = [row.model_copy(update={"item": {**row.item, "state": state}}) for row in ROWS[:8]]

    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS), inbox=NarrowInbox())
        assert len(outcomes(await cluster.step(rows))) == len(rows) * GROUP == len(cluster.began)
        assert not cluster.notices
        assert cluster.hints.hints == len(rows), "a row's rollouts stay together: it would not be smaller"

    run_in_virtual_time(scenario())


def test_a_run_that_ends_with_its_last_rollout_leaves_nothing_in_the_inbox(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS), inbox=SlowToDrop())
        await cluster.step()
        assert cluster.inbox.rollouts, "it does not know yet that its last ones were read"
        await cluster.executor.aclose()
        assert (cluster.inbox.shards, cluster.inbox.rollouts) == ({}, {})

    run_in_virtual_time(scenario())


def test_a_launch_that_was_taken_over_stops_everywhere(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 1000.0)))
        step = asyncio.create_task(cluster.step())
        await asyncio.sleep(2.0)
        cluster.inbox.is_stale = True
        with pytest.raises(RunAborted, match="another launch"):
            await step
        await asyncio.sleep(3.0)
        assert all(session.is_over and session.is_idle for session in cluster.sessions)

    run_in_virtual_time(scenario())


def test_a_broker_that_is_gone_for_a_minute_is_waited_for(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS))
        cluster.hints.is_down = True
        step = asyncio.create_task(cluster.step())
        await asyncio.sleep(60.0)
        assert not cluster.inbox.handed_over
        assert not step.done()
        cluster.hints.is_down = False
        assert len(outcomes(await step)) == 96
        assert Counter(notice.code for notice in cluster.notices if notice.code != "no_rollout_worker") == {
            "broker_down": 1, "broker_up": 1, "rollout_workers_back": 1
        }  # fmt: skip
        assert "cannot be reached; the job waits and goes on by itself" in cluster.notices[0].message

    run_in_virtual_time(scenario())


def test_an_inbox_that_is_down_is_waited_for_by_both_sides(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 3.0)))
        step = asyncio.create_task(cluster.step())
        await asyncio.sleep(1.0)
        cluster.inbox.is_down = True
        await asyncio.sleep(7.0)
        cluster.inbox.is_down = False
        assert len(outcomes(await step)) == 96 == len(cluster.began), "nothing began anew"
        assert [notice.code for notice in cluster.notices] == ["inbox_down", "inbox_up"]

    run_in_virtual_time(scenario())


def test_that_nobody_works_is_said(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS))
        workers, cluster.hints.workers = cluster.hints.workers, [nothing_to_close]
        step = asyncio.create_task(cluster.step())
        await asyncio.sleep(NO_WORKER_S + 6.0)
        (notice,) = cluster.notices
        assert notice.code == "no_rollout_worker"
        assert "rft worker --queue rollouts" in notice.message
        cluster.hints.workers = workers
        assert len(outcomes(await step)) == 96, "lost messages are sent again"

    run_in_virtual_time(scenario())


@pytest.mark.lengthy
@pytest.mark.parametrize("away", ["workers", "broker", "inbox"])
def test_a_run_that_waits_for_hours_tells_it_once_and_writes_every_minute_that_it_lives(
    make_setup: MakeSetup, away: str
) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 3.0)))
        workers = cluster.hints.workers
        if away == "workers":
            cluster.hints.workers = [nothing_to_close]
        cluster.hints.is_down, cluster.inbox.is_down = away == "broker", away == "inbox"
        step, began_s = asyncio.create_task(cluster.step()), asyncio.get_running_loop().time()
        await asyncio.sleep(3 * 3600.0)
        codes = {"workers": ["no_rollout_worker"], "broker": ["broker_down", "no_rollout_worker"]}
        assert [notice.code for notice in cluster.notices] == codes.get(away, ["inbox_down"])
        times_s = [began_s, *cluster.wrote_at_s, asyncio.get_running_loop().time()]
        assert max(later - earlier for earlier, later in pairwise(times_s)) <= 60.0
        assert len(cluster.wrote_at_s) <= 3 * 120 + 2
        cluster.hints.is_down = cluster.inbox.is_down = False
        cluster.hints.workers = workers
        assert len(outcomes(await step)) == 96

    run_in_virtual_time(scenario())


def test_what_telling_a_beginning_raises_stops_the_step(make_setup: MakeSetup) -> None:
    async def full(began: RolloutBegan) -> None:
        raise OSError(28, "No space left on device")

    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS))
        setup = replace(cluster.setup, executor=cluster.executor, on_begun=full)
        with pytest.raises(OSError, match="No space"):
            await run_step(
                [StepRow(ROWS[0], epoch=0)], setup=setup, job_id="ftjob-1", job_seed=5, step=2, group_size=2,
                replacement_share=0.0, on_rollout=lambda rollout, _: None,
            )  # fmt: skip
        assert not cluster.inbox.shards

    run_in_virtual_time(scenario())


def test_a_settled_rollout_is_the_same_after_its_way_as_json(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        failure = Failure(stage=Stage.TOOL, code=FailureCode.TIMEOUT, message="too slow", endpoint="search")

        async def fail(call: ToolCall, trace_id: str) -> Failure:
            return failure

        for setup in (make_setup(TURNS), make_setup(TURNS, tools=FunctionTools(fail))):
            done = await Cluster(setup).step(ROWS[:1])
            for rollout in done.groups[0].rollouts:
                settled = Settled(rollout=rollout, attempts=(ATTEMPT,))
                assert Settled.model_validate_json(settled.model_dump_json()) == settled

    run_in_virtual_time(scenario())
