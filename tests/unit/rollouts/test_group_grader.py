"""A grader that judges whole groups: all converse, one verdict, and a verdict that failed excludes the group."""

import asyncio
import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.events import RolloutBegan
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade, TokenUsage
from rft.core.messages import ToolCall
from rft.core.rollout import Rollout
from rft.core.spec import HoldRule
from rft.egress.limits import BreakerChange
from rft.rollouts.deadlines import Deadlines
from rft.rollouts.executor import StepRollouts, run_step
from rft.rollouts.group import StepRow
from rft.rollouts.hold import FailingEndpoint, Hold
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers import tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock

MakeSetup = Callable[..., RolloutSetup]
TURNS = [tool_call_text("search", '{"q": 1}'), "The answer is 4."]
DOWN = Failure(stage=Stage.GRADER, code=FailureCode.TIMEOUT, message="the judge is silent", endpoint="ruler")


@dataclass(slots=True)
class FirstIsBest:
    """Ranks traces by their place, after two seconds; the given verdicts come first."""

    verdicts: list[Failure | Exception | list[Grade]] = field(default_factory=list[Failure | Exception | list[Grade]])
    asked: list[tuple[float, list[str]]] = field(default_factory=list[tuple[float, list[str]]])

    async def rank(
        self, traces: Sequence[FinishedTrace], *, item: JsonObject, trace_ids: Sequence[str]
    ) -> list[Grade] | Failure:
        assert item["messages"]
        assert all(trace.messages[-1].content == "The answer is 4." for trace in traces)
        assert {trace.prompt_messages for trace in traces} == {2}
        self.asked.append((virtual_clock(), list(trace_ids)))
        await asyncio.sleep(2.0)
        verdict = self.verdicts.pop(0) if self.verdicts else None
        if isinstance(verdict, Exception):
            raise verdict
        if verdict is not None:
            return verdict
        return [Grade(reward=1.0 - place / len(traces), grader="ruler") for place in range(len(traces))]


async def never(trace: FinishedTrace, trace_id: str) -> float:
    raise AssertionError("single rollouts are not graded")


def step(
    rows: list[DatasetRow],
    setup: RolloutSetup,
    ended: list[Rollout] | None = None,
    *,
    replacement_share: float = 0.0,
) -> StepRollouts:
    return run_in_virtual_time(
        run_step(
            [StepRow(row, 0) for row in rows],
            setup=setup,
            job_id="ftjob-1",
            job_seed=5,
            step=2,
            group_size=4,
            replacement_share=replacement_share,
            on_rollout=lambda rollout, _: None if ended is None else ended.append(rollout),
        )
    )


def failing_tools(*numbers: int) -> FunctionTools:
    async def answer(call: ToolCall, trace_id: str) -> str | Failure:
        if len(tools.calls) in numbers:
            return Failure(stage=Stage.TOOL, code=FailureCode.SERVER_ERROR, message="down", endpoint="search")
        await asyncio.sleep(1.0)
        return "here"

    tools = FunctionTools(answer)
    return tools


def test_one_verdict_per_group_gives_every_rollout_its_grade(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    judge, ended = FirstIsBest(), list[Rollout]()
    setup = make_setup(TURNS, tools=failing_tools(), grader=FunctionGrader(never), group_grader=judge)
    done = step(rows, setup, ended)
    assert [group.rewards_G for group in done.groups] == [[1.0, 0.75, 0.5, 0.25]] * 4
    ids = [[rollout.trace_id for rollout in group.rollouts] for group in done.groups]
    assert sorted(asked for _, asked in judge.asked) == sorted(ids)
    assert len(ended) == 16
    assert {(r.grading_s, r.tools_s, r.duration_s) for r in ended} == {(2.0, 1.0, 3.0)}


def test_a_group_waits_for_its_slowest_and_for_no_other_group(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    judge = FirstIsBest()

    async def slow(call: ToolCall, trace_id: str) -> str:
        is_first = tools.calls[0][1] == trace_id
        await asyncio.sleep(30.0 if is_first else 1.0)
        return "here"

    tools = FunctionTools(slow)
    done = step(rows, make_setup(TURNS, tools=tools, group_grader=judge))
    assert sorted(at for at, _ in judge.asked) == [1.0, 1.0, 1.0, 30.0]
    durations = sorted(rollout.duration_s for group in done.groups for rollout in group.rollouts)
    assert durations == [3.0] * 15 + [32.0], "waiting for a slower one is nobody's time"


def test_a_rollout_that_failed_is_left_out_of_the_verdict(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    judge = FirstIsBest()
    done = step(rows[:1], make_setup(TURNS, tools=failing_tools(2), group_grader=judge))
    assert done.groups[0].rewards_G == [1.0, None, pytest.approx(2 / 3), pytest.approx(1 / 3)]
    assert len(judge.asked[0][1]) == 3


def test_one_that_failed_is_replaced_before_the_verdict(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    judge = FirstIsBest()
    done = step(rows[:1], make_setup(TURNS, tools=failing_tools(2), group_grader=judge), replacement_share=0.25)
    assert done.groups[0].rewards_G == [1.0, 0.75, 0.5, 0.25]
    assert [rollout.key.attempt for rollout in done.groups[0].rollouts] == [0, 1, 0, 0]
    assert judge.asked[0][1] == [rollout.trace_id for rollout in done.groups[0].rollouts]
    assert len(done.replaced) == 1


def test_where_nobody_finished_nobody_is_asked(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    judge = FirstIsBest()
    done = step(rows[:1], make_setup(TURNS, tools=failing_tools(1, 2, 3, 4), group_grader=judge))
    assert done.groups[0].rewards_G == [None] * 4
    assert judge.asked == []


def test_a_verdict_that_failed_excludes_the_whole_group_and_no_other(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    spent = {"judge-1": TokenUsage(prompt_tokens=100)}
    judge = FirstIsBest([DOWN.model_copy(update={"usage": spent})])
    setup = make_setup(TURNS, tools=failing_tools(), group_grader=judge)
    done = step(rows, setup, replacement_share=1.0)
    lost = [group for group in done.groups if group.rewards_G == [None] * 4]
    assert len(lost) == 1
    first, *others = [rollout.outcome for rollout in lost[0].rollouts]
    assert (first.usage, others) == (spent, [DOWN] * 3), "one call: its tokens are told once"
    assert done.replaced == [], "its retries are spent; running the rollouts again heals nothing"


@pytest.mark.parametrize("verdict", [KeyError("oops"), [Grade(reward=1.0, grader="ruler")]])
def test_a_verdict_of_another_shape_is_our_failure(
    rows: list[DatasetRow], make_setup: MakeSetup, verdict: Exception | list[Grade]
) -> None:
    judge = FirstIsBest([verdict])
    setup = make_setup(TURNS, tools=failing_tools(), group_grader=judge, platform_failure_share=1.0)
    done = step(rows[:1], setup)
    for rollout in done.groups[0].rollouts:
        assert isinstance(rollout.outcome, Failure)
        assert rollout.outcome.code is FailureCode.INTERNAL_ERROR


def test_a_held_round_is_ranked_again_as_a_whole(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    """Two of four rollouts fail at first: they are run again, and one verdict judges them and those graded before."""
    spent = {"judge-1": TokenUsage(prompt_tokens=100)}
    judge, ended = FirstIsBest([[ranked(1.0).model_copy(update={"usage": spent}), ranked(0.5)]]), list[Rollout]()
    hold = Hold(HoldRule(), tell=lambda event: None, blame=no_breaker, deadlines=Deadlines())
    setup = make_setup(TURNS, tools=failing_tools(1, 2), group_grader=judge, hold=hold)
    done = step(rows[:1], setup, ended)
    first, second = (asked for _, asked in judge.asked)
    assert [len(first), len(second)] == [2, 4]
    assert second[2:] == first, "the graded ones are shown again"
    assert done.groups[0].rewards_G == [1.0, 0.75, 0.5, 0.25]
    assert [rollout.key.attempt for rollout in done.groups[0].rollouts] == [1, 1, 0, 0]
    told = [(rollout.trace_id, rollout.reward) for rollout in ended if rollout.reward is not None]
    assert told[:2] == [(first[0], 1.0), (first[1], 0.5)]
    assert told[2:4] == [(first[0], 0.5), (first[1], 0.25)], "before the group is whole: a kill leaves no two verdicts"
    assert told[4:] == [(second[0], 1.0), (second[1], 0.75)]
    outcome = done.groups[0].rollouts[2].outcome
    assert isinstance(outcome, Grade)
    assert outcome.usage == spent, "what the verdict cost that counts no more"


def test_a_second_verdict_that_failed_leaves_the_first_one(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    judge, ended = FirstIsBest([[ranked(1.0), ranked(0.5)], DOWN]), list[Rollout]()
    hold = Hold(HoldRule(), tell=lambda event: None, blame=no_breaker, deadlines=Deadlines())
    done = step(rows[:1], make_setup(TURNS, tools=failing_tools(1, 2), group_grader=judge, hold=hold), ended)
    assert [len(asked) for _, asked in judge.asked] == [2, 4, 4]
    assert done.groups[0].rewards_G == [1.0, 0.75, 0.5, 0.25]
    assert [rollout.reward for rollout in ended if rollout.reward is not None] == [1.0, 0.5, 0.5, 0.25, 1.0, 0.75]


@pytest.mark.parametrize("is_first", [True, False])
def test_what_stops_the_step_comes_out_as_it_was_raised(
    rows: list[DatasetRow], make_setup: MakeSetup, is_first: bool
) -> None:
    """A full disk is known by its number, in a round's first pass and where a held one is filled again."""

    async def full(began: RolloutBegan) -> None:
        if is_first or began.key.attempt:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

    hold = Hold(HoldRule(), tell=lambda event: None, blame=no_breaker, deadlines=Deadlines())
    setup = make_setup(TURNS, tools=failing_tools(1, 2), group_grader=FirstIsBest(), hold=hold, on_begun=full)
    with pytest.raises(OSError, match="quota") as raised:
        step(rows[:1], setup)
    assert raised.value.errno == errno.EDQUOT


def ranked(reward: float) -> Grade:
    return Grade(reward=reward, grader="ruler")


def no_breaker(change: BreakerChange) -> FailingEndpoint:
    raise AssertionError(f"there is no breaker here: {change}")
