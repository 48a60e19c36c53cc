"""A conversation that ended is never run again because its grader failed: only the grade is tried again."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import TokenUsage
from rft.core.messages import ToolCall
from rft.core.rollout import Rollout
from rft.core.spec import HoldRule
from rft.rollouts.hold import HoldExpired, UnrecoverableRound
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers import tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock
from tests.shared.examples import examples
from tests.unit.rollouts.test_group_grader import DOWN as JUDGE_DOWN
from tests.unit.rollouts.test_group_grader import FirstIsBest
from tests.unit.rollouts.test_host import Host
from tests.unit.rollouts.test_trials import Book, outcomes, step

MakeSetup = Callable[..., RolloutSetup]
TURNS = [tool_call_text("search", '{"q": 1}'), tool_call_text("search", '{"q": 2}'), "The answer is 4."]
NEEDED = 16 * 2
"""Tool calls of a whole step."""


class Grader(FunctionGrader):
    """Says nothing until that moment, and nothing to those whose turn `is_unlucky` says it is."""

    def __init__(
        self,
        up_s: float = 0.0,
        code: FailureCode = FailureCode.SERVER_ERROR,
        is_unlucky: Callable[[int], bool] = lambda number: False,
        takes_s: float = 0.0,
    ) -> None:
        self.gradings: list[str] = []

        async def grade(trace: FinishedTrace, trace_id: str) -> float | Failure:
            self.gradings.append(trace_id)
            number = len(self.gradings)
            await asyncio.sleep(takes_s)
            if virtual_clock() < up_s or is_unlucky(number):
                usage = {"judge": TokenUsage(prompt_tokens=3)}
                return Failure(stage=Stage.GRADER, code=code, message="it is down", endpoint="grader", usage=usage)
            return 1.0

        super().__init__(grade)


async def find(call: ToolCall, trace_id: str) -> str:
    return "here"


def test_a_grader_that_is_down_for_a_while_costs_not_one_further_tool_call(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    book, tools, host = Book(), FunctionTools(find), Host()
    setup = make_setup(TURNS, tools=tools, grader=Grader(20.0), hold=book.hold(), host=host)
    done = step(rows, setup, book, replacement_share=0.25)
    assert outcomes(done) == [1.0] * 16
    assert len(tools.calls) == NEEDED
    assert book.kinds == [(0.0, "hold_began"), (30.0, "hold_ended")]
    assert (len(book.ended), done.replaced) == (16, []), "each rollout ended once, graded"
    assert {rollout.key.attempt for _, rollout in book.ended} == {0}
    assert Counter(trace_id for trace_id, _ in host.began) == Counter(trace_id for trace_id, _ in host.ends)
    assert len(host.began) == 16, "what the host made for a rollout is kept until its grade"


def test_the_time_held_is_not_the_rollouts_time_and_the_time_of_all_gradings_is(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    book = Book()
    done = step(rows[:1], make_setup(TURNS, grader=Grader(5.0, takes_s=1.0), hold=book.hold()), book)
    gradings = Counter(rollout.grading_s for group in done.groups for rollout in group.rollouts)
    assert gradings == {2.0: 3, 3.0: 1}, "one of them was on trial once in vain"
    assert all(r.duration_s == r.grading_s for group in done.groups for r in group.rollouts)


def test_tokens_that_a_judge_used_in_vain_stay_told(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book = Book()
    grader = Grader(is_unlucky=lambda number: number <= 4)
    done = step(rows[:1], make_setup(TURNS, grader=grader, hold=book.hold()), book)
    spent = [r.outcome.usage["judge"].prompt_tokens for group in done.groups for r in group.rollouts]
    assert spent == [3] * 4


def test_a_replacement_of_a_missing_grade_is_another_grading(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book, tools = Book(), FunctionTools(find)
    grader = Grader(is_unlucky=lambda number: number in (3, 9))
    done = step(rows, make_setup(TURNS, tools=tools, grader=grader), book, replacement_share=0.25)
    assert outcomes(done) == [1.0] * 16
    assert (len(tools.calls), len(grader.gradings), done.replaced) == (NEEDED, 18, [])


def test_a_grade_that_is_missing_for_good_takes_one_replacement_and_leaves_the_others_theirs(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    book, tools = Book(), FunctionTools(find)
    hated: list[str] = []

    async def grade(trace: FinishedTrace, trace_id: str) -> float | Failure:
        hated.extend([trace_id] if not hated else [])
        if trace_id in hated:
            return Failure(stage=Stage.GRADER, code=FailureCode.INVALID_SCORE, message="NaN", endpoint="grader")
        return 1.0

    grader = FunctionGrader(grade)
    done = step(rows, make_setup(TURNS, tools=tools, grader=grader, hold=book.hold()), book, replacement_share=0.25)
    assert outcomes(done).count(None) == 1
    assert (len(tools.calls), done.replaced) == (NEEDED, [])
    failed = [rollout for _, rollout in book.ended if rollout.reward is None]
    assert [rollout.trace_id for rollout in failed] == hated
    assert all(rollout.stop_reason is not None for rollout in failed)


def test_a_group_whose_verdict_failed_is_only_ranked_again(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book, tools, host = Book(), FunctionTools(find), Host()
    judge = FirstIsBest([JUDGE_DOWN] * 6)
    setup = make_setup(TURNS, tools=tools, group_grader=judge, hold=book.hold(), host=host)
    done = step(rows, setup, book)
    assert [group.rewards_G for group in done.groups] == [[1.0, 0.75, 0.5, 0.25]] * 4
    assert len(tools.calls) == NEEDED
    assert (len(book.ended), done.replaced) == (16, [])
    assert len(host.began) == len(host.ends) == 16
    assert {len(trace_ids) for _, trace_ids in judge.asked} == {4}


def test_rollouts_still_without_grade_are_told_as_failed_when_the_hold_has_no_end(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    book, tools, host = Book(), FunctionTools(find), Host()
    setup = make_setup(TURNS, tools=tools, grader=Grader(1e9), hold=book.hold(), host=host)
    with pytest.raises(HoldExpired):
        step(rows, setup, book)
    assert len(tools.calls) == NEEDED
    assert len({rollout.trace_id for _, rollout in book.ended}) == len(book.ended) == 16
    assert all(isinstance(outcome, Failure) for _, outcome in host.ends)
    assert len(host.ends) == 16


def test_a_grader_that_breaks_on_the_answer_itself_is_not_asked_again(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    book, host = Book(), Host()
    grader = Grader(1e9, FailureCode.GRADER_ERROR)
    with pytest.raises(UnrecoverableRound, match="grader_error"):
        step(rows, make_setup(TURNS, grader=grader, hold=book.hold(), host=host), book)
    assert (len(grader.gradings), len(host.ends)) == (16, 16)


@pytest.mark.parametrize("is_ranked", [False, True])
def test_a_round_given_up_while_held_lets_the_host_free_everything(
    rows: list[DatasetRow], make_setup: MakeSetup, is_ranked: bool
) -> None:
    book, host = Book(), Host()

    async def main() -> None:
        judge = FirstIsBest([JUDGE_DOWN] * 99) if is_ranked else None
        setup = make_setup(TURNS, grader=Grader(1e9, takes_s=1.0), group_grader=judge, hold=book.hold(), host=host)
        running = asyncio.create_task(book.round(rows, setup))
        await asyncio.sleep(40.0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())
    assert Counter(trace_id for trace_id, _ in host.began) == Counter(trace_id for trace_id, _ in host.ends)
    assert all(outcome is None for _, outcome in host.ends)
    assert book.ended == []


@settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(unlucky=st.sets(st.integers(1, 90), max_size=80), share=st.floats(0.05, 0.9), replaced=st.floats(0.0, 0.5))
def test_whatever_gradings_fail_each_conversation_is_run_once_and_ends_once(
    rows: list[DatasetRow], make_setup: MakeSetup, unlucky: set[int], share: float, replaced: float
) -> None:
    book, tools, host = Book(), FunctionTools(find), Host()
    hold = book.hold(HoldRule(excluded_share=share, max_s=1e6, max_trial_s=60.0))
    grader = Grader(is_unlucky=lambda number: number in unlucky)
    setup = make_setup(TURNS, tools=tools, grader=grader, hold=hold, host=host)
    done = step(rows, setup, book, replacement_share=replaced)
    assert outcomes(done).count(None) <= share * 16
    assert len(tools.calls) == NEEDED
    seated: list[Rollout] = [rollout for group in done.groups for rollout in group.rollouts]
    assert {id(rollout) for rollout in seated} == {id(rollout) for _, rollout in book.ended}
    assert len(book.ended) == len(host.ends) == 16
