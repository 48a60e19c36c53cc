"""While a round is rolled out, it can be said where each of its rollouts is."""

import asyncio
from collections.abc import Callable

from rft.core.dataset import DatasetRow
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.messages import ToolCall, ToolResult
from rft.core.progress import RoundProgress
from rft.core.rollout import Rollout, Split
from rft.rollouts.executor import run_step
from rft.rollouts.group import StepRow
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers import tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time

MakeSetup = Callable[..., RolloutSetup]
TURNS = [tool_call_text("search", '{"q": 1}'), "The answer is 4."]
CALL_S, GRADE_S = 10.0, 5.0


async def slow_answer(call: ToolCall, trace_id: str) -> str | Failure | ToolResult:
    del call, trace_id
    await asyncio.sleep(CALL_S)
    return "found"


async def slow_grade(trace: FinishedTrace, trace_id: str) -> float | Failure:
    del trace, trace_id
    await asyncio.sleep(GRADE_S)
    return 1.0


def ignore(rollout: Rollout, was_replaced: bool) -> None:
    del rollout, was_replaced


def looks(setup: RolloutSetup, rows: list[DatasetRow], *times: float) -> list[RoundProgress | None]:
    """What is seen at these times of one step of 2 rollouts a row."""

    async def step() -> list[RoundProgress | None]:
        work = asyncio.create_task(
            run_step(
                [StepRow(row, epoch=0) for row in rows],
                setup=setup,
                job_id="ftjob-1",
                job_seed=5,
                step=2,
                group_size=2,
                replacement_share=0.0,
                on_rollout=ignore,
            )
        )
        seen, now = list[RoundProgress | None](), 0.0
        for time in times:
            await asyncio.sleep(time - now)
            now = time
            seen.append(setup.live.progress())
        await work
        return [*seen, setup.live.progress()]

    return run_in_virtual_time(step())


def test_rollouts_are_counted_where_they_are(make_setup: MakeSetup, rows: list[DatasetRow]) -> None:
    setup = make_setup(TURNS, tools=FunctionTools(slow_answer), grader=FunctionGrader(slow_grade))
    in_tool, in_grader, after = looks(setup, rows, CALL_S / 2, CALL_S + GRADE_S / 2)
    every = 2 * len(rows)
    assert in_tool == RoundProgress(step=2, split=Split.TRAIN, rollouts=every, ended=0, calling={"search": every})
    assert in_grader == RoundProgress(step=2, split=Split.TRAIN, rollouts=every, ended=0, grading=every)
    assert after is None


def test_those_that_ended_are_counted_while_others_go_on(make_setup: MakeSetup, rows: list[DatasetRow]) -> None:
    calls = iter(range(100))

    async def slower_and_slower(call: ToolCall, trace_id: str) -> str | Failure | ToolResult:
        del call, trace_id
        await asyncio.sleep(CALL_S * (1 + next(calls)))
        return "found"

    setup = make_setup(TURNS, tools=FunctionTools(slower_and_slower))
    first, second, _ = looks(setup, rows, CALL_S * 1.5, CALL_S * 3.5)
    assert first is not None
    assert second is not None
    assert (first.ended, second.ended) == (1, 3)
    assert (first.calling, second.calling) == ({"search": 7}, {"search": 5})


def test_calls_that_wait_on_our_side_are_told(make_setup: MakeSetup, rows: list[DatasetRow]) -> None:
    setup = make_setup(TURNS, tools=FunctionTools(slow_answer))
    setup.live.queued = lambda: {"search": 6, "cat": 0}
    seen, _ = looks(setup, rows, CALL_S / 2)
    assert seen is not None
    assert seen.queued == {"search": 6}


def test_rounds_of_later_steps_are_told_beside_the_one_that_is_waited_for(
    make_setup: MakeSetup, rows: list[DatasetRow]
) -> None:
    setup = make_setup(TURNS, tools=FunctionTools(slow_answer), grader=FunctionGrader(slow_grade))

    async def rounds() -> list[RoundProgress | None]:
        def round_of(step: int) -> asyncio.Task[object]:
            return asyncio.create_task(
                run_step(
                    [StepRow(row, epoch=0) for row in rows],
                    setup=setup,
                    job_id="ftjob-1",
                    job_seed=5,
                    step=step,
                    group_size=2,
                    replacement_share=0.0,
                    on_rollout=ignore,
                )
            )

        later = round_of(3)
        await asyncio.sleep(CALL_S / 2)
        waited_for = round_of(2)
        await asyncio.sleep(CALL_S * 0.6)
        seen = [setup.live.progress()]
        await later
        seen.append(setup.live.progress())
        await waited_for
        return [*seen, setup.live.progress()]

    both, alone, after = run_in_virtual_time(rounds())
    every = 2 * len(rows)
    assert both is not None
    assert alone is not None
    assert (both.step, both.rollouts, both.ended) == (2, every, 0)
    assert (both.grading, both.calling) == (every, {"search": every}), "the counts by stage are of all of them"
    assert (both.later_rollouts, both.later_ended) == (every, 0)
    assert (alone.step, alone.later_rollouts) == (2, 0)
    assert after is None
