"""A step: everything at once, failed rollouts replaced within limits."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from rft.chat.hermes import HermesChatFormat
from rft.core.dataset import DatasetRow
from rft.core.failure import FAULTS, Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.messages import Message, ToolCall, ToolSchema
from rft.core.rollout import Rollout, Split, StopReason
from rft.rollouts.executor import StepRollouts, run_evaluation, run_step
from rft.rollouts.group import StepRow
from rft.rollouts.loop import run_rollout
from rft.rollouts.replacements import is_worth_replacing
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers import tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time
from rft.testing.samplers_tokenizer import ByteTokenizer

MakeSetup = Callable[..., RolloutSetup]
HERE = pytest.mark.parametrize("rollouts_run", ["here"], indirect=True)
"""What holds of rollouts in the caller's own loop alone."""
SEARCH = tool_call_text("search", '{"q": 1}')
TURNS = [SEARCH, "The answer is 4."]


def ignore(rollout: Rollout, was_replaced: bool) -> None:
    del rollout, was_replaced


def step(
    rows: list[DatasetRow],
    setup: RolloutSetup,
    *,
    group_size: int = 4,
    replacement_share: float = 0.0,
    on_rollout: Callable[[Rollout, bool], None] = ignore,
) -> StepRollouts:
    return run_in_virtual_time(
        run_step(
            [StepRow(row, epoch=row.index % 2) for row in rows],
            setup=setup,
            job_id="ftjob-1",
            job_seed=5,
            step=2,
            group_size=group_size,
            replacement_share=replacement_share,
            on_rollout=on_rollout,
        )
    )


class FailingTools(FunctionTools):
    """The first `failures` calls fail."""

    def __init__(self, failures: int, code: FailureCode = FailureCode.SERVER_ERROR, stage: Stage = Stage.TOOL) -> None:
        async def answer(call: ToolCall, trace_id: str) -> str | Failure:
            if len(self.calls) <= failures:
                return Failure(stage=stage, code=code, message="down", endpoint="search")
            return "here"

        super().__init__(answer)


def test_groups_come_back_in_order_with_their_keys(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    done = step(rows, make_setup(TURNS))
    assert [group.row_index for group in done.groups] == [0, 1, 2, 3]
    keys = [rollout.key for group in done.groups for rollout in group.rollouts]
    assert [(key.row_index, key.epoch, key.index) for key in keys] == [
        (row, row % 2, index) for row in range(4) for index in range(4)
    ]
    assert {(key.split, key.step, key.attempt) for key in keys} == {(Split.TRAIN, 2, 0)}
    assert len({key.seed for key in keys}) == 16
    assert len({rollout.trace_id for group in done.groups for rollout in group.rollouts}) == 16
    assert done.replaced == []


class CountingFormat(HermesChatFormat):
    """Counts the prompts it renders."""

    def __init__(self) -> None:
        super().__init__(ByteTokenizer())
        self.rendered = Counter[str]()

    def prompt_ids(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[int]:
        self.rendered[messages[-1].content] += 1
        return super().prompt_ids(messages, tools)


@HERE
def test_the_prompt_of_a_group_is_rendered_once_also_for_replacements(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    chat_format = CountingFormat()
    setup = make_setup(TURNS, tools=FailingTools(2), prints=chat_format)
    done = step(rows, setup, group_size=8, replacement_share=0.5)
    assert len(done.replaced) == 2
    assert chat_format.rendered == {f"Question {index}?": 1 for index in range(4)}
    prompts = [{rollout.trace.prompt_ids for rollout in group.rollouts} for group in done.groups]
    assert prompts == [{tuple(HermesChatFormat.prompt_ids(chat_format, row.messages, row.tools))} for row in rows]
    step(rows, setup)
    assert set(chat_format.rendered.values()) == {2}, "nothing of a round is kept beyond it"


def test_all_rollouts_of_a_step_are_under_way_at_once(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    everyone_here = asyncio.Barrier(16)

    async def meet(call: ToolCall, trace_id: str) -> str:
        await everyone_here.wait()
        return "met"

    assert len(step(rows, make_setup(TURNS, tools=FunctionTools(meet))).groups) == 4


def test_a_slow_tool_delays_its_own_rollout_only(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    slow: list[str] = []

    async def one_is_slow(call: ToolCall, trace_id: str) -> str:
        slow.append(trace_id)
        await asyncio.sleep(500 if trace_id == slow[0] else 1)
        return "here"

    ended: list[Rollout] = []
    step(
        rows,
        make_setup([SEARCH, SEARCH, "The answer is 4."], tools=FunctionTools(one_is_slow)),
        on_rollout=lambda rollout, _: ended.append(rollout),
    )
    assert [rollout.duration_s for rollout in ended] == [pytest.approx(2.0)] * 15 + [pytest.approx(1000.0)]
    assert ended[-1].trace_id == slow[0]


@pytest.mark.parametrize(
    ("code", "has_same_seed"), [(FailureCode.SERVER_ERROR, True), (FailureCode.OVERSIZE_REQUEST, False)]
)
def test_a_failed_rollout_is_replaced_in_its_slot(
    rows: list[DatasetRow], make_setup: MakeSetup, code: FailureCode, has_same_seed: bool
) -> None:
    """The same conversation anew where an endpoint failed it; what is wrong with itself would only come again."""
    ended: list[tuple[Rollout, bool]] = []
    done = step(
        rows,
        make_setup(TURNS, tools=FailingTools(1, code)),
        replacement_share=0.1,
        on_rollout=lambda rollout, was_replaced: ended.append((rollout, was_replaced)),
    )
    assert [len(group.rollouts) for group in done.groups] == [4] * 4
    (failed,) = done.replaced
    slot = done.groups[failed.key.row_index].rollouts[failed.key.index]
    assert isinstance(failed.outcome, Failure)
    assert (failed.reward, slot.reward) == (None, 1.0)
    assert (failed.key.attempt, slot.key.attempt) == (0, 1)
    assert slot.trace_id != failed.trace_id
    assert (slot.key.seed == failed.key.seed) == has_same_seed
    assert Counter(was_replaced for _, was_replaced in ended) == {True: 1, False: 16}
    assert [rollout for rollout, was_replaced in ended if was_replaced] == [failed]


@pytest.mark.parametrize(("share", "allowed"), [(0.0, 0), (0.05, 1), (0.125, 2), (0.25, 4), (0.5, 8)])
def test_replacements_stay_within_their_share(
    rows: list[DatasetRow], make_setup: MakeSetup, share: float, allowed: int
) -> None:
    done = step(rows, make_setup(TURNS, tools=FailingTools(8)), replacement_share=share)
    assert len(done.replaced) == allowed
    failed = [rollout for group in done.groups for rollout in group.rollouts if rollout.reward is None]
    assert len(failed) == 8 - allowed


def test_nothing_is_replaced_any_more_once_half_of_the_step_failed(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    tools = FailingTools(1000)
    done = step(rows, make_setup(TURNS, tools=tools), replacement_share=1.0)
    assert len(done.replaced) == 8
    assert len(tools.calls) == 24  # 16 slots and 8 vain attempts, not 32.
    assert all(reward is None for group in done.groups for reward in group.rewards_G)


WORTH_IT = {code: True for code in FailureCode} | {
    FailureCode.BLOCKED_ADDRESS: False,
    FailureCode.UNAUTHORIZED: False,
    FailureCode.ENDPOINT_NOT_FOUND: False,
    FailureCode.CANCELLED: False,
    FailureCode.INTERNAL_ERROR: False,
}


@pytest.mark.parametrize("code", list(FAULTS))
def test_only_what_chance_may_change_is_worth_replacing(code: FailureCode) -> None:
    assert is_worth_replacing(Failure(stage=Stage.TOOL, code=code, message="")) is WORTH_IT[code]


def test_our_own_bugs_are_not_replaced(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    async def bug(trace: FinishedTrace, trace_id: str) -> float:
        raise KeyError("oops")

    setup = make_setup(TURNS, grader=FunctionGrader(bug), platform_failure_share=1.0)
    done = step(rows[:1], setup, replacement_share=1.0)
    assert done.replaced == []
    codes = [rollout.outcome.code for rollout in done.groups[0].rollouts if isinstance(rollout.outcome, Failure)]
    assert codes == [FailureCode.INTERNAL_ERROR] * 4


def test_an_evaluation_replaces_nothing(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    ended: list[bool] = []
    done = run_in_virtual_time(
        run_evaluation(
            rows,
            setup=make_setup(TURNS, tools=FailingTools(1)),
            job_id="ftjob-1",
            job_seed=5,
            step=7,
            samples=2,
            on_rollout=lambda _, was_replaced: ended.append(was_replaced),
        )
    )
    assert ended == [False] * 8
    keys = [rollout.key for group in done.groups for rollout in group.rollouts]
    assert {(key.split, key.step, key.epoch, key.attempt) for key in keys} == {(Split.VALID, 7, 7, 0)}
    assert sum(rollout.reward is None for group in done.groups for rollout in group.rollouts) == 1
    assert done.replaced == []


def test_one_rollout_replays_alone_as_it_was_in_its_step(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    setup = make_setup(TURNS)
    wanted = step(rows, setup).groups[2].rollouts[3]
    again = run_in_virtual_time(
        run_rollout(rows[2], wanted.key, make_setup(TURNS, draw_trace_id=lambda: wanted.trace_id))
    )
    assert (again.trace, again.messages, again.outcome) == (wanted.trace, wanted.messages, wanted.outcome)


@HERE
def test_cancelling_a_step_leaves_no_rollout_behind(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    ended: list[Rollout] = []

    async def hang(call: ToolCall, trace_id: str) -> str:
        await asyncio.sleep(600)
        return "late"

    async def main() -> None:
        running = asyncio.create_task(
            run_step(
                [StepRow(row, 0) for row in rows],
                setup=make_setup(TURNS, tools=FunctionTools(hang)),
                job_id="ftjob-1",
                job_seed=5,
                step=2,
                group_size=4,
                replacement_share=1.0,
                on_rollout=lambda rollout, _: ended.append(rollout),
            )
        )
        await asyncio.sleep(1)
        assert len(asyncio.all_tasks()) > 16
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())
    assert ended == []


def test_cancelling_wins_over_a_failure_of_the_same_moment(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    """A tool that answers its cancellation with a failure must not start a replacement."""
    calls: list[str] = []

    async def fail_when_cancelled(call: ToolCall, trace_id: str) -> Failure:
        calls.append(trace_id)
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(600)
        return Failure(stage=Stage.TOOL, code=FailureCode.SERVER_ERROR, message="down", endpoint="search")

    async def main() -> None:
        running = asyncio.create_task(
            run_step(
                [StepRow(rows[0], 0)],
                setup=make_setup(TURNS, tools=FunctionTools(fail_when_cancelled)),
                job_id="ftjob-1",
                job_seed=5,
                step=2,
                group_size=4,
                replacement_share=1.0,
                on_rollout=ignore,
            )
        )
        await asyncio.sleep(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())
    assert len(calls) == 4


def test_a_failed_call_leaves_no_trace_of_cancellation(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    """Or the replacement's own deadline would be taken for a cancellation from outside (as with TaskGroup on 3.11)."""

    async def main() -> None:
        setup = make_setup(TURNS, tools=FailingTools(1))
        places = [StepRow(rows[0], 0)]
        await run_step(
            places,
            setup=setup,
            job_id="ftjob-1",
            job_seed=5,
            step=2,
            group_size=2,
            replacement_share=1.0,
            on_rollout=count,
        )
        assert current().cancelling() == 0

    def current() -> asyncio.Task[object]:
        task = asyncio.current_task()
        assert task is not None
        return task

    def count(rollout: Rollout, was_replaced: bool) -> None:
        counts.append(current().cancelling())

    counts: list[int] = []
    run_in_virtual_time(main())
    assert counts == [0, 0, 0]


def test_an_exception_of_the_callback_stops_the_step(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    class Full(Exception):
        pass

    def disk_full(rollout: Rollout, was_replaced: bool) -> None:
        raise Full

    with pytest.raises(Full):
        step(rows, make_setup(TURNS), on_rollout=disk_full)


def test_each_outcome_is_graded_or_failed_never_both(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    done = step(rows, make_setup(TURNS, tools=FailingTools(5)))
    for rollout in (rollout for group in done.groups for rollout in group.rollouts):
        assert (rollout.reward is None) == isinstance(rollout.outcome, Failure)
        assert (rollout.stop_reason is StopReason.COMPLETED) != isinstance(rollout.outcome, Failure)
