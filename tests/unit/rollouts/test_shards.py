"""Rollouts given out to workers: each ends once, whoever dies, and outages are waited for and told."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.attempt import Attempt
from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.errors import RftError, RunAborted, SamplerError
from rft.core.events import Notice, RolloutBegan
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.messages import ToolCall
from rft.core.rollout import RolloutKey, Split
from rft.engines.vllm.named_versions import NamedVersions
from rft.rollouts.executor import StepRollouts, run_step
from rft.rollouts.group import StepRow
from rft.rollouts.hold import UnrecoverableRound
from rft.rollouts.live import LiveRollouts
from rft.rollouts.lost_rounds import RoundLost
from rft.rollouts.sampler import Sample, SampleRequest
from rft.rollouts.setup import Prompts, RolloutSetup
from rft.rollouts.shards import handing_over
from rft.rollouts.shards.executor import ShardedExecutor
from rft.rollouts.shards.inbox_wire import SHARD_LEASE_S, Delivery, SealedShard, SettledRollout
from rft.rollouts.shards.told import NO_WORKER_S, ShardNotices
from rft.rollouts.shards.wire import LARGEST, SMALLEST, Settled, Shard, ShardRollout, shard_sizes
from rft.rollouts.shards.worker import OpenedRun, RunSession
from rft.testing.memory_inbox import CalledWorkers, MemoryInbox, MemoryWorkerInbox
from rft.testing.samplers import ScriptedSampler, tool_call_text
from rft.testing.samplers_gateways import FunctionTools
from rft.testing.samplers_slots import DelegatingEngine
from rft.testing.samplers_time import run_in_virtual_time
from tests.unit.rollouts.conftest import make_row, nothing_to_close
from tests.unit.rollouts.test_host import Host

MakeSetup = Callable[..., RolloutSetup]
TURNS = [tool_call_text("search", '{"q": 1}'), "The answer is 4."]
ROWS = [make_row(index) for index in range(12)]
GROUP = 8
ATTEMPT = Attempt(1.5, "", Stage.TOOL, "search", "call_1", 1, None, 200, 0.25, 0.0, 10, 20)


class SmallInbox(MemoryWorkerInbox):
    """Refuses what is too large, as the platform does and any proxy before it may do."""

    def __init__(self, inbox: MemoryInbox, worker: str, most_bytes: int) -> None:
        super().__init__(inbox, worker)
        self.most_bytes = most_bytes
        self.deliveries: list[Sequence[SettledRollout]] = []
        self.refused: list[int] = []
        """Bytes of each."""

    async def deliver(self, rollouts: Sequence[SettledRollout]) -> Sequence[str]:
        size = len(Delivery(worker=self.worker, rollouts=tuple(rollouts)).model_dump_json().encode())
        if size > self.most_bytes:
            self.refused.append(size)
            raise RftError(f"the platform answered 413 to {size} bytes")
        self.deliveries.append(rollouts)
        return await super().deliver(rollouts)


@dataclass(slots=True)
class Hall:
    """A trainer and its workers in one loop."""

    setup: RolloutSetup
    workers: int = 4
    inbox: MemoryInbox = field(default_factory=MemoryInbox)
    notices: list[Notice] = field(default_factory=list[Notice])
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    began: list[RolloutBegan] = field(default_factory=list[RolloutBegan])
    ends_take_s: float = 0.0
    """How long it takes to tell customers' servers of ends."""
    problem: Exception | None = None
    """Why no worker can open the run."""
    most_bytes: int | None = None
    """What a delivery may have."""
    name_version: Callable[[int, str | None], None] = lambda version, adapter: None
    ends: list[MemoryWorkerInbox] = field(init=False)
    sessions: list[RunSession] = field(init=False)
    hints: CalledWorkers = field(init=False)
    executor: ShardedExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.ends = [self._end(f"worker-{number}") for number in range(self.workers)]
        self.sessions = [RunSession(end.worker, end, self.open_run) for end in self.ends]
        self.hints = CalledWorkers([session.work for session in self.sessions])
        told = ShardNotices(self.notices.append)
        self.executor = ShardedExecutor(self.inbox, self.hints, told, self.attempts.append)

    def _end(self, worker: str) -> MemoryWorkerInbox:
        return (
            self.inbox.of_worker(worker) if self.most_bytes is None else SmallInbox(self.inbox, worker, self.most_bytes)
        )

    async def open_run(self, announced: str) -> OpenedRun:
        if self.problem is not None:
            raise self.problem
        there = replace(self.setup, prompts=Prompts(), live=LiveRollouts())
        return OpenedRun(
            there,
            name_version=self.name_version,
            take_attempts=lambda id_: (replace(ATTEMPT, trace_id=id_),),
            aclose=nothing_to_close,
            ends_told=lambda: asyncio.sleep(self.ends_take_s),
        )

    async def step(self, rows: Sequence[DatasetRow] = ROWS) -> StepRollouts:
        async def tell(began: RolloutBegan) -> None:
            self.began.append(began)

        return await run_step(
            [StepRow(row, epoch=0) for row in rows],
            setup=replace(self.setup, executor=self.executor, on_begun=tell),
            job_id="ftjob-1",
            job_seed=5,
            step=2,
            group_size=GROUP,
            replacement_share=0.0,
            on_rollout=lambda rollout, _: None,
        )

    def kill(self, number: int) -> None:
        """It says nothing any more, and nothing that it runs goes on."""
        self.ends[number].is_silent = True
        self.sessions[number].is_over = True
        self.hints.workers = [work for work in self.hints.workers if work != self.sessions[number].work]
        for tasks in self.sessions[number]._shards.values():  # pyright: ignore[reportPrivateUsage]
            for task in tasks:
                task.cancel()


def slow_tools(seconds: Callable[[int], float]) -> FunctionTools:
    async def answer(call: ToolCall, trace_id: str) -> str:
        await asyncio.sleep(seconds(len(tools.calls)))
        return "here"

    tools = FunctionTools(answer)
    return tools


def outcomes(done: StepRollouts) -> Counter[str]:
    return Counter(rollout.trace_id for group in done.groups for rollout in group.rollouts)


@given(st.integers(0, 20_000))
def test_a_burst_is_cut_into_shards_of_nearly_equal_size(rollouts: int) -> None:
    sizes = shard_sizes(rollouts)
    assert sum(sizes) == rollouts
    assert all(size <= LARGEST for size in sizes)
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert min(sizes, default=SMALLEST) >= min(SMALLEST, rollouts)


def test_rollouts_are_shared_out_and_come_back_whole(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        hall = Hall(make_setup(TURNS))
        here = await run_step(
            [StepRow(row, epoch=0) for row in ROWS], setup=hall.setup, job_id="ftjob-1", job_seed=5, step=2,
            group_size=GROUP, replacement_share=0.0, on_rollout=lambda rollout, _: None,
        )  # fmt: skip
        done = await hall.step()
        for there, local in zip(done.groups, here.groups, strict=True):
            for given_out, run_here in zip(there.rollouts, local.rollouts, strict=True):
                assert replace(given_out, trace_id="") == replace(
                    run_here, trace_id="", trace=given_out.trace, messages=given_out.messages
                )
                assert given_out.trace.token_ids == run_here.trace.token_ids
                assert given_out.trace.logprobs_T == run_here.trace.logprobs_T
        assert {began.trace_id for began in hall.began} == set(outcomes(done)) == set(hall.inbox.handed_over)
        assert Counter(attempt.trace_id for attempt in hall.attempts) == outcomes(done)
        assert hall.hints.hints == len(shard_sizes(96))
        assert not hall.notices

    run_in_virtual_time(scenario())


def test_what_dead_workers_had_not_handed_over_begins_anew_under_new_ids(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        host = Host()
        hall = Hall(make_setup(TURNS, tools=slow_tools(lambda call: 1.0 + call % 7), host=host))
        step = asyncio.create_task(hall.step())
        await asyncio.sleep(3.5)
        kept = set(hall.inbox.handed_over)
        hall.kill(0)
        hall.kill(1)
        started_s = asyncio.get_running_loop().time()
        done = await step
        took_s = asyncio.get_running_loop().time() - started_s
        assert outcomes(done).total() == 96 == len(outcomes(done)), "each rollout ended once"
        assert all(isinstance(rollout.outcome, Grade) for group in done.groups for rollout in group.rollouts)
        assert kept
        assert kept <= set(outcomes(done)), "what was handed over is kept"
        assert len(hall.inbox.handed_over) == 96, "nothing was done twice"
        anew = hall.began[96:]
        assert anew
        assert len({began.trace_id for began in hall.began}) == 96 + len(anew)
        first = {began.key: began.trace_id for began in hall.began[:96]}
        ended_in_vain = {trace_id for trace_id, outcome in host.ends if outcome is None}
        assert {first[began.key] for began in anew} <= ended_in_vain
        assert took_s <= SHARD_LEASE_S + 1.0 + 7.5 + 1.0, "detection and one longest rollout"
        codes = Counter(notice.code for notice in hall.notices)
        assert codes == {"rollout_worker_lost": 4}, hall.notices

    run_in_virtual_time(scenario())


def test_a_worker_that_was_only_silent_counts_no_more(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        hall = Hall(make_setup(TURNS, tools=slow_tools(lambda call: 12.0)), workers=3)
        hall.ends[0].is_silent = True
        done = await hall.step(ROWS[:4])
        assert len(outcomes(done)) == 32
        assert len(hall.inbox.handed_over) == 32
        assert len(hall.began) == 48, "one of two shards began anew"

    run_in_virtual_time(scenario())


def test_a_worker_with_room_takes_what_no_message_told_it_of(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        hall = Hall(make_setup(TURNS, tools=slow_tools(lambda call: 8.0)), workers=1)
        hall.hints.workers = [hall.sessions[0].work, *[nothing_to_close] * 5]
        assert len(outcomes(await hall.step())) == 96, "six shards, and one message"
        assert asyncio.get_running_loop().time() < 8.0 + 2.0
        assert all(session.is_idle for session in hall.sessions)

    run_in_virtual_time(scenario())


def test_a_worker_without_room_leaves_the_rest_to_others(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        hall = Hall(make_setup(TURNS, tools=slow_tools(lambda call: 8.0)), workers=1)
        hall.sessions[0].most_rollouts = 2 * LARGEST
        hall.hints.workers = [hall.sessions[0].work, *[nothing_to_close] * 5]
        step = asyncio.create_task(hall.step())
        await asyncio.sleep(7.0)
        assert sum(kept.worker is None for kept in hall.inbox.shards.values()) == 1, "five shards are 80 rollouts"
        assert len(outcomes(await step)) == 96

    run_in_virtual_time(scenario())


def test_a_worker_that_leaves_in_good_order_is_not_waited_for(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        hall = Hall(make_setup(TURNS, tools=slow_tools(lambda call: 4.0)), workers=3)
        step = asyncio.create_task(hall.step(ROWS[:4]))
        await asyncio.sleep(2.0)
        await hall.sessions[0].aclose()
        done = await step
        assert len(outcomes(done)) == 32
        assert asyncio.get_running_loop().time() < SHARD_LEASE_S

    run_in_virtual_time(scenario())


def test_a_rollout_is_handed_over_once_its_end_was_told(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        hall = Hall(make_setup(TURNS), ends_take_s=3.0)
        step = asyncio.create_task(hall.step(ROWS[:1]))
        await asyncio.sleep(2.5)
        assert not hall.inbox.handed_over, "its trainer would close the run, and with it what is open"
        assert len(outcomes(await step)) == GROUP

    run_in_virtual_time(scenario())


def test_a_step_that_is_given_up_is_given_up_by_its_workers(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        hall = Hall(make_setup(TURNS, tools=slow_tools(lambda call: 1000.0)))
        step = asyncio.create_task(hall.step())
        await asyncio.sleep(2.0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        await hall.executor.aclose()
        assert not hall.inbox.shards
        await asyncio.sleep(3.0)
        assert all(session.is_idle for session in hall.sessions)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(scenario())


def test_a_launch_that_was_taken_over_stops_everywhere(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        hall = Hall(make_setup(TURNS, tools=slow_tools(lambda call: 1000.0)))
        step = asyncio.create_task(hall.step())
        await asyncio.sleep(2.0)
        hall.inbox.is_stale = True
        with pytest.raises(RunAborted, match="another launch"):
            await step
        await asyncio.sleep(3.0)
        assert all(session.is_over and session.is_idle for session in hall.sessions)

    run_in_virtual_time(scenario())


def test_a_broker_that_is_gone_for_a_minute_is_waited_for(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        hall = Hall(make_setup(TURNS))
        hall.hints.is_down = True
        step = asyncio.create_task(hall.step())
        await asyncio.sleep(60.0)
        assert not hall.inbox.handed_over
        assert not step.done()
        hall.hints.is_down = False
        assert len(outcomes(await step)) == 96
        assert Counter(notice.code for notice in hall.notices if notice.code != "no_rollout_worker") == {
            "broker_down": 1, "broker_up": 1, "rollout_workers_back": 1
        }  # fmt: skip
        assert "cannot be reached; the job waits and goes on by itself" in hall.notices[0].message

    run_in_virtual_time(scenario())


def test_an_inbox_that_is_down_is_waited_for_by_both_sides(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        hall = Hall(make_setup(TURNS, tools=slow_tools(lambda call: 3.0)))
        step = asyncio.create_task(hall.step())
        await asyncio.sleep(1.0)
        hall.inbox.is_down = True
        await asyncio.sleep(7.0)
        hall.inbox.is_down = False
        assert len(outcomes(await step)) == 96 == len(hall.began), "nothing began anew"
        assert [notice.code for notice in hall.notices] == ["inbox_down", "inbox_up"]

    run_in_virtual_time(scenario())


def test_that_nobody_works_is_said(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        hall = Hall(make_setup(TURNS))
        workers, hall.hints.workers = hall.hints.workers, [nothing_to_close]
        step = asyncio.create_task(hall.step())
        await asyncio.sleep(NO_WORKER_S + 6.0)
        (notice,) = hall.notices
        assert notice.code == "no_rollout_worker"
        assert "rft worker --queue rollouts" in notice.message
        hall.hints.workers = workers
        assert len(outcomes(await step)) == 96, "lost messages are sent again"

    run_in_virtual_time(scenario())


def test_workers_that_cannot_run_the_job_say_why(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        hall = Hall(make_setup(TURNS), problem=FileNotFoundError("no folder /models/tiny here"))
        with pytest.raises((RoundLost, UnrecoverableRound), match="cannot run this job: no folder /models/tiny here"):
            await hall.step(ROWS[:1])

    run_in_virtual_time(scenario())


def test_many_large_rollouts_are_handed_over_in_several_deliveries(
    make_setup: MakeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing_over, "DELIVERY_BYTES", 300_000)

    async def scenario() -> None:
        hall = Hall(make_setup([tool_call_text("search", '{"q": 1}'), "a" * 2000]), workers=1, most_bytes=301_000)
        assert len(outcomes(await hall.step())) == 96
        (end,) = hall.ends
        assert isinstance(end, SmallInbox)
        assert max(map(len, end.deliveries)) > 1
        assert not end.refused

    run_in_virtual_time(scenario())


def test_a_rollout_that_no_delivery_can_carry_is_the_platforms_failure(
    make_setup: MakeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing_over, "LARGEST_ROLLOUT_BYTES", 20_000)
    monkeypatch.setattr(handing_over, "DELIVERY_BYTES", 20_000)

    async def scenario() -> None:
        hall = Hall(make_setup([tool_call_text("search", '{"q": 1}'), "a" * 8000]), workers=1, most_bytes=20_200)
        with pytest.raises((RoundLost, UnrecoverableRound), match=r"could not hand it over: it has [\d,]+ bytes, more"):
            await hall.step(ROWS[:1])
        (end,) = hall.ends
        assert isinstance(end, SmallInbox)
        assert not end.refused

    run_in_virtual_time(scenario())


def test_a_refused_delivery_costs_only_the_rollouts_that_are_refused_alone(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        setup = make_setup([tool_call_text("search", '{"q": 1}'), "a" * 500])
        hall = Hall(setup, workers=1, most_bytes=40_000)  # As a proxy between worker and platform may have it.
        assert len(outcomes(await hall.step())) == 96
        (end,) = hall.ends
        assert isinstance(end, SmallInbox)
        assert end.refused
        assert len(hall.began) == 96, "nothing began anew"

    run_in_virtual_time(scenario())


def test_a_worker_that_can_hand_nothing_over_gives_its_shard_back(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        hall = Hall(make_setup(TURNS), workers=2)
        hall.ends[0] = hall.sessions[0].inbox = SmallInbox(hall.inbox, "worker-0", most_bytes=10)
        done = await hall.step(ROWS[:4])
        assert len(outcomes(done)) == 32
        assert all(isinstance(rollout.outcome, Grade) for group in done.groups for rollout in group.rollouts)
        assert {notice.code for notice in hall.notices} == {"rollout_worker_lost"}
        assert hall.sessions[0].shards_run == 1, "it takes no more for a minute"

    run_in_virtual_time(scenario())


def test_only_a_launch_that_counts_is_accepted(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        hall, accepted = Hall(make_setup(TURNS), workers=2), list[str]()
        for session in hall.sessions:
            session.on_accepted = lambda session=session: accepted.append(session.worker)
        await hall.sessions[0].work()
        await hall.sessions[0].work()
        hall.inbox.is_stale = True
        await hall.sessions[1].work()
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
        hall = Hall(make_setup(TURNS), workers=1)
        holder = Holder(hall.setup)
        hall.setup = replace(hall.setup, sampler=holder, host=SlowStart("old"))
        hall.name_version = holder.versions.name
        (session,) = hall.sessions
        await hall.inbox.give_out([sealed("old", version=1)])
        first = asyncio.create_task(session.work())
        await asyncio.sleep(1.0)
        await hall.inbox.give_out([sealed("new", version=2)])
        await asyncio.sleep(5.0)
        assert set(hall.inbox.handed_over) == {"new"}
        assert holder.versions.use.live == {1, 2}
        await first
        settled = [Settled.model_validate_json(one.body).rollout for one in hall.inbox.rollouts.values()]
        assert [isinstance(one.outcome, Grade) for one in settled if one is not None] == [True, True], settled
        assert holder.versions.use.held == frozenset()

    run_in_virtual_time(scenario())


def test_a_rollout_whose_task_never_began_holds_no_version(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        hall = Hall(make_setup(TURNS), workers=1)
        holder = Holder(hall.setup)
        hall.setup = replace(hall.setup, sampler=holder)
        (session,) = hall.sessions

        def name(version: int, adapter: str | None) -> None:
            holder.versions.name(version, adapter)
            asyncio.get_running_loop().call_soon(session._drop, f"shard-{version}")  # pyright: ignore[reportPrivateUsage]

        hall.name_version = name
        await hall.inbox.give_out([sealed("one", "two", version=1)])
        await session.work()
        assert not hall.inbox.handed_over
        assert holder.versions.use.held == frozenset()

    run_in_virtual_time(scenario())


def test_what_telling_a_beginning_raises_stops_the_step(make_setup: MakeSetup) -> None:
    async def full(began: RolloutBegan) -> None:
        raise OSError(28, "No space left on device")

    async def scenario() -> None:
        hall = Hall(make_setup(TURNS))
        setup = replace(hall.setup, executor=hall.executor, on_begun=full)
        with pytest.raises(OSError, match="No space"):
            await run_step(
                [StepRow(ROWS[0], epoch=0)], setup=setup, job_id="ftjob-1", job_seed=5, step=2, group_size=2,
                replacement_share=0.0, on_rollout=lambda rollout, _: None,
            )  # fmt: skip
        assert not hall.inbox.shards

    run_in_virtual_time(scenario())


def test_a_settled_rollout_is_the_same_after_its_way_as_json(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        failure = Failure(stage=Stage.TOOL, code=FailureCode.TIMEOUT, message="too slow", endpoint="search")

        async def fail(call: ToolCall, trace_id: str) -> Failure:
            return failure

        for setup in (make_setup(TURNS), make_setup(TURNS, tools=FunctionTools(fail))):
            done = await Hall(setup).step(ROWS[:1])
            for rollout in done.groups[0].rollouts:
                settled = Settled(rollout=rollout, attempts=(ATTEMPT,))
                assert Settled.model_validate_json(settled.model_dump_json()) == settled

    run_in_virtual_time(scenario())
