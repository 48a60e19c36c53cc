"""Given-out rollouts in trouble: none is waited for without end or a word, and none is run for ever."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from itertools import pairwise

import pytest

from rft.core.attempt import Attempt
from rft.core.errors import RunPaused
from rft.core.events import Notice, StillWaiting
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.messages import ToolCall
from rft.rollouts.shards.inbox import InboxDown, refused
from rft.rollouts.shards.inbox_wire import SealedShard, SettledRollout
from rft.rollouts.shards.orders import MOST_DEAD
from rft.rollouts.shards.told import ShardNotices
from rft.rollouts.shards.worker import RunSession
from rft.rollouts.shards.worker_load import WorkerLoad
from rft.testing.memory_inbox import MemoryInbox, MemoryWorkerInbox
from rft.testing.samplers_gateways import FunctionTools
from rft.testing.samplers_time import run_in_virtual_time
from tests.unit.rollouts.conftest import nothing_to_close
from tests.unit.rollouts.shard_cluster import GROUP, ROWS, TURNS, Cluster, MakeSetup, NarrowInbox, outcomes, slow_tools
from tests.unit.rollouts.test_shard_workers import sealed

FULL = OSError(28, "No space left on device")


@pytest.mark.parametrize("what", ["a call", "a lost worker"])
def test_a_disk_that_is_full_while_news_is_taken_in_ends_the_step(make_setup: MakeSetup, what: str) -> None:
    """What is being taken in is in no shard any more, so that nobody else would end it."""

    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 30.0)), workers=2)

        def add(attempt: Attempt) -> None:
            cluster.attempts.append(attempt)
            if len(cluster.attempts) == GROUP:
                raise FULL

        def tell(event: Notice | StillWaiting) -> None:
            if isinstance(event, Notice):
                raise FULL

        if what == "a call":
            cluster.executor.on_attempt = add
        else:
            cluster.executor.notices = ShardNotices(tell)
        step = asyncio.create_task(cluster.step(ROWS[:1]))
        await asyncio.sleep(3.0)
        if what == "a lost worker":
            cluster.kill(0)
        with pytest.raises(OSError, match="No space") if what == "a call" else nullcontext():
            async with asyncio.timeout(120.0):
                await step

    run_in_virtual_time(scenario())


class OtherRelease(MemoryInbox):
    """Its workers hand over what this release does not know."""

    def put(self, rollout: SettledRollout) -> None:
        strange = '{"rollout": null, "verdict": 1}' if len(self.handed_over) == 2 else rollout.body
        super().put(rollout.model_copy(update={"body": strange}))


def test_what_cannot_be_read_is_the_platforms_failure_and_no_end_of_the_run(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        done = await Cluster(make_setup(TURNS), inbox=OtherRelease()).step(ROWS[:1])
        failures = [one.outcome for one in done.groups[0].rollouts if isinstance(one.outcome, Failure)]
        (failure,) = failures
        assert (failure.stage, failure.code) == (Stage.PLATFORM, FailureCode.INTERNAL_ERROR)
        assert "cannot be read" in failure.message

    run_in_virtual_time(scenario())


@pytest.mark.parametrize(("workers", "kills_after_s", "others_take_s"), [(4, 0.0, 5.0), (1, 10.0, 30.0)])
def test_a_rollout_that_kills_each_worker_is_not_given_out_for_ever_and_takes_no_other_with_it(
    make_setup: MakeSetup, workers: int, kills_after_s: float, others_take_s: float
) -> None:
    async def scenario() -> None:
        sessions, calls = dict[int, RunSession](), 0

        async def answer(call: ToolCall, trace_id: str) -> str:
            nonlocal calls
            key = next(began.key for began in cluster.began if began.trace_id == trace_id)
            if (key.row_index, key.index) != (1, 3):
                await asyncio.sleep(others_take_s)
                return "here"
            await asyncio.sleep(kills_after_s)
            calls += 1
            for session in sessions.values():
                if any(trace_id in ids for ids in session._rollouts.values()):  # pyright: ignore[reportPrivateUsage]
                    kill(session)
            await asyncio.sleep(1e9)
            return "never"

        async def work(number: int) -> None:
            """As a supervisor does: another process in the place of each that died."""
            if number not in sessions or sessions[number].is_over:
                end = cluster.inbox.of_worker(f"worker-{number}-{calls}")
                sessions[number] = RunSession(end.worker, end, cluster.open_run)
            await sessions[number].work()

        cluster = Cluster(make_setup(TURNS, tools=FunctionTools(answer)))
        cluster.hints.workers = [partial(work, number) for number in range(workers)]
        done = await cluster.step()
        (lost,) = [one for group in done.groups for one in group.rollouts if isinstance(one.outcome, Failure)]
        assert calls == MOST_DEAD
        assert (lost.key.row_index, lost.key.index) == (1, 3)
        assert isinstance(lost.outcome, Failure)
        assert lost.outcome.stage is Stage.PLATFORM
        assert f"{MOST_DEAD} rollout workers fell silent while they ran it" in lost.outcome.message
        assert outcomes(done).total() == len(ROWS) * GROUP

    run_in_virtual_time(scenario())


def test_what_may_take_its_worker_with_it_runs_beside_nothing_else(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 10.0)), workers=1)
        (session,) = cluster.sessions
        alone = [sealed(name, version=1).model_copy(update={"id": name, "is_alone": True}) for name in ("a", "b")]
        usual = sealed("usual", version=1)
        await cluster.inbox.give_out([*alone, usual])
        messages = [asyncio.create_task(session.work()) for _ in range(4)]
        await asyncio.sleep(5.0)
        assert [shard.worker for shard in cluster.inbox.shards.values()] == [session.worker, None, None]
        await asyncio.gather(*messages)
        assert cluster.inbox.handed_over == ["a", "b", "usual"], "the next ones without a message"

    run_in_virtual_time(scenario())


def test_a_process_that_other_jobs_keep_busy_runs_what_is_to_be_alone_all_the_same(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        load, busy, waiting = (
            WorkerLoad(),
            Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 60.0))),
            MemoryInbox(),
        )
        sessions = [
            RunSession("worker", inbox.of_worker("worker"), busy.open_run, load=load) for inbox in (busy.inbox, waiting)
        ]
        messages = list[asyncio.Task[None]]()
        for number in range(20):
            await busy.inbox.give_out([sealed(f"busy-{number}", version=number)])
            if number == 2:
                await waiting.give_out([sealed("alone", version=1).model_copy(update={"is_alone": True})])
            messages += [asyncio.create_task(session.work()) for session in sessions]
            await asyncio.sleep(30.0)
        assert waiting.handed_over == ["alone"]
        assert len(busy.inbox.handed_over) > 5, "and the other job goes on"
        for session in sessions:
            await session.aclose()
        await asyncio.gather(*messages)

    run_in_virtual_time(scenario())


def test_a_worker_that_cannot_run_a_job_leaves_what_is_to_be_alone_to_others(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS), workers=1, problem=OSError("no base model here"))
        names = ("a", "b", "c")
        await cluster.inbox.give_out(
            [sealed(name, version=1).model_copy(update={"id": name, "is_alone": True}) for name in names]
        )
        await cluster.sessions[0].work()
        assert cluster.inbox.handed_over == ["a"]
        assert [shard.worker for shard in cluster.inbox.shards.values()][1:] == [None, None]

    run_in_virtual_time(scenario())


def test_a_session_that_is_closed_while_it_waits_to_ask_takes_nothing(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS), workers=1)
        (session,) = cluster.sessions
        await cluster.inbox.give_out([sealed("one", version=1)])
        async with session.load.taking:  # Another job's session asks.
            message = asyncio.create_task(session.work())
            await asyncio.sleep(1.0)
            await session.aclose()
        await message
        assert [shard.worker for shard in cluster.inbox.shards.values()] == [None]

    run_in_virtual_time(scenario())


def kill(session: RunSession) -> None:
    """It says nothing any more, and nothing that it runs goes on."""
    assert isinstance(session.inbox, MemoryWorkerInbox)
    session.inbox.is_silent = session.is_over = True
    for task in session._shards.values():  # pyright: ignore[reportPrivateUsage]
        task.cancel()


def test_workers_that_were_shut_down_are_held_against_no_rollout(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 30.0)), workers=1)
        step = asyncio.create_task(cluster.step(ROWS[:1]))
        for number in range(2 * MOST_DEAD):
            await asyncio.sleep(5.0)
            end = cluster.inbox.of_worker(f"next-{number}")
            session = RunSession(end.worker, end, cluster.open_run)
            cluster.hints.workers = [session.work]
            await cluster.sessions[-1].aclose()
            cluster.sessions.append(session)
        done = await step
        assert all(isinstance(rollout.outcome, Grade) for rollout in done.groups[0].rollouts)

    run_in_virtual_time(scenario())


class NothingGoesOut(MemoryInbox):
    """Takes no shards, as over a database whose disk is full; all other calls get through."""

    async def give_out(self, shards: Sequence[SealedShard]) -> None:
        raise InboxDown("the platform answered 503")


def test_one_call_that_gets_through_does_not_hide_the_outage_of_another(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS), inbox=NothingGoesOut())
        step = asyncio.create_task(cluster.step(ROWS[:1]))
        began_s = asyncio.get_running_loop().time()
        await asyncio.sleep(3600.0)
        assert [notice.code for notice in cluster.notices] == ["inbox_down"]
        times_s = [began_s, *cluster.wrote_at_s, asyncio.get_running_loop().time()]
        assert max(later - earlier for earlier, later in pairwise(times_s)) <= 60.0
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        await cluster.executor.aclose()

    run_in_virtual_time(scenario())


def test_a_refused_shard_goes_out_in_smaller_ones(make_setup: MakeSetup) -> None:
    """A proxy on the way may bear less than we give at once."""
    rows = [row.model_copy(update={"item": {**row.item, "state": "s" * 900_000}}) for row in ROWS[:4]]

    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS), inbox=NarrowInbox())
        assert len(outcomes(await cluster.step(rows))) == len(rows) * GROUP
        assert not cluster.notices

    run_in_virtual_time(scenario())


def test_a_shard_that_may_have_arrived_before_it_was_refused_begins_anew(make_setup: MakeSetup) -> None:
    """Or two workers would run the same rollouts under the same ids."""

    class Moody(MemoryInbox):
        tries = 0

        async def give_out(self, shards: Sequence[SealedShard]) -> None:
            self.tries += 1
            if self.tries == 2:
                raise refused("the platform answered 403: maintenance")
            await super().give_out(shards)
            if self.tries == 1:
                raise InboxDown("the reply was lost")

    async def scenario() -> None:
        calls: list[str] = []

        async def answer(call: ToolCall, trace_id: str) -> str:
            calls.append(trace_id)
            await asyncio.sleep(20.0)
            return "here"

        cluster = Cluster(make_setup(TURNS, tools=FunctionTools(answer)), inbox=Moody())
        step = asyncio.create_task(cluster.step(ROWS[:1]))
        await asyncio.sleep(0.1)
        await asyncio.gather(*(session.work() for session in cluster.sessions[:1]), return_exceptions=True)
        assert len(outcomes(await step)) == GROUP
        assert len(cluster.began) == 2 * GROUP
        assert max(Counter(calls).values()) == 1
        assert not cluster.inbox.shards, "the first one is given up"

    run_in_virtual_time(scenario())


def test_an_inbox_that_refuses_a_single_rollout_pauses_the_run(make_setup: MakeSetup) -> None:
    class Refusing(MemoryInbox):
        async def give_out(self, shards: Sequence[SealedShard]) -> None:
            raise refused("the platform answered 403: maintenance")

    async def scenario() -> None:
        with pytest.raises(RunPaused, match="403: maintenance") as paused:
            await Cluster(make_setup(TURNS), inbox=Refusing()).step(ROWS[:1])
        assert paused.value.code == "inbox_refused"

    run_in_virtual_time(scenario())


def test_what_the_inbox_has_forgotten_begins_anew(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 3.0)))
        workers, cluster.hints.workers = cluster.hints.workers, [nothing_to_close]
        step = asyncio.create_task(cluster.step(ROWS[:2]))
        await asyncio.sleep(2.0)
        cluster.inbox.shards.clear()
        cluster.hints.workers = workers
        assert len(outcomes(await step)) == 2 * GROUP
        assert [notice.code for notice in cluster.notices] == ["rollouts_forgotten"]
        assert len(cluster.began) == 4 * GROUP

    run_in_virtual_time(scenario())


def test_a_run_whose_rollouts_take_long_writes_that_it_lives(make_setup: MakeSetup) -> None:
    async def scenario() -> None:
        cluster = Cluster(make_setup(TURNS, tools=slow_tools(lambda call: 3000.0)))
        began_s = asyncio.get_running_loop().time()
        await cluster.step(ROWS[:1])
        times_s = [began_s, *cluster.wrote_at_s, asyncio.get_running_loop().time()]
        assert times_s[-1] > began_s + 2900.0
        assert max(later - earlier for earlier, later in pairwise(times_s)) <= 60.0
        assert not cluster.notices

    run_in_virtual_time(scenario())
