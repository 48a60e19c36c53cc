"""Groups of equal rewards are replaced by further rows: only those, only so often, and never because of failures."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import pytest

from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.group import Group
from rft.core.messages import Message, Role, ToolCall, ToolResult
from rft.rollouts.executor import StepRollouts, run_step
from rft.rollouts.group import StepRow
from rft.rollouts.refills import is_silent, with_refills
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers import ScriptedSampler, tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time
from rft.testing.samplers_tokenizer import ByteTokenizer
from tests.shared.by_hand import group_of, trace_of
from tests.unit.rollouts.conftest import MakeSetup, make_row
from tests.unit.rollouts.test_missing_tools import answered, not_found
from tests.unit.rollouts.test_trials import Book, outcomes

Rewards = Sequence[float | None]
TRACE = trace_of([1], ("sampled", [2]))
SILENT, TELLING = [0.5, 0.5], [0.0, 1.0]


def group(row: int, rewards: Rewards) -> Group:
    return group_of([TRACE] * len(rewards), rewards, row_index=row)


def lost_group(row: int) -> Group:
    """The platform could not finish it."""
    whole = group(row, SILENT)
    failure = Failure(stage=Stage.SAMPLER, code=FailureCode.SAMPLER_ERROR, message="The sampler failed: boom")
    return replace(whole, rollouts=tuple(replace(rollout, outcome=failure) for rollout in whole.rollouts))


def step_row(index: int) -> StepRow:
    return StepRow(
        DatasetRow(index=index, messages=(Message(role=Role.USER, content="?"),), tools=(), item={}), epoch=0
    )


def refilled(
    first: Sequence[Group], later: Mapping[int, Group], *, rounds: int, spare: Sequence[int]
) -> tuple[StepRollouts, list[list[int]]]:
    """What came of it, and the rows of each further round."""
    taken: list[list[int]] = []

    async def roll_out(rows: Sequence[StepRow], so_far: Sequence[Group]) -> StepRollouts:
        assert {one.row_index for one in so_far} == {one.row_index for one in first} | {*chain.from_iterable(taken)}
        taken.append([place.row.index for place in rows])
        return StepRollouts([later[index] for index in taken[-1]], [])

    done = with_refills(
        StepRollouts([*first], []),
        rounds=rounds,
        spare=[step_row(index) for index in spare],
        failure_share=0.25,
        roll_out=roll_out,
    )
    return asyncio.run(done), taken


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        (SILENT, True),
        (TELLING, False),
        ([0.5, 0.5, None], False),
        ([0.5, None, None], False),
        ([None, None], False),
        ([1.0, 1.0, 1.0 + 1e-12], True),
    ],
)
def test_a_group_is_silent_where_all_are_graded_and_equally(rewards: Rewards, expected: bool) -> None:
    assert is_silent(group(0, rewards)) is expected


def test_each_silent_group_is_made_good_for_by_a_row_in_the_order_of_the_spare_ones() -> None:
    first = [group(0, SILENT), group(1, TELLING), group(2, SILENT), group(3, [0.5, 0.5, None])]
    later = {9: group(9, TELLING), 7: group(7, SILENT), 8: group(8, TELLING), 6: group(6, TELLING)}
    done, taken = refilled(first, later, rounds=3, spare=[9, 7, 8, 6])
    assert taken == [[9, 7], [8]]
    assert [one.row_index for one in done.groups] == [0, 1, 2, 3, 9, 7, 8]
    assert (done.resampled, done.unused) == (6, [])


@pytest.mark.parametrize(("rounds", "spare", "expected"), [(0, 9, []), (2, 9, [[0, 1], [2, 3]]), (9, 3, [[0, 1], [2]])])
def test_rounds_end_where_they_are_to_and_where_there_are_no_more_rows(
    rounds: int, spare: int, expected: list[list[int]]
) -> None:
    later = {index: group(index, SILENT) for index in range(9)}
    done, taken = refilled([group(10, SILENT), group(11, SILENT)], later, rounds=rounds, spare=range(spare))
    assert taken == expected
    assert done.resampled == 2 * sum(map(len, expected))


def test_a_step_with_signal_everywhere_takes_no_further_rows() -> None:
    done, taken = refilled([group(0, TELLING)], {}, rounds=8, spare=[1, 2])
    assert (taken, done.resampled) == ([], 0)


def test_a_round_of_which_the_platform_lost_too_much_is_counted_and_not_used_and_ends_it() -> None:
    first = [group(0, SILENT), group(1, SILENT)]
    done, taken = refilled(first, {5: group(5, TELLING), 6: lost_group(6)}, rounds=8, spare=[5, 6, 7])
    assert taken == [[5, 6]]
    assert [one.row_index for one in done.groups] == [0, 1]
    assert [one.row_index for one in done.unused] == [5, 6]
    assert [one.row_index for one in done.all_groups] == [0, 1, 5, 6]
    assert done.resampled == 4


SPARE = make_row(9)


def whole_step(
    rows: Sequence[DatasetRow], setup: RolloutSetup, book: Book, *, number: int = 2, spare: DatasetRow = SPARE
) -> StepRollouts:
    """Four rollouts of each row, and of one further row: all rewards are equal."""
    one_round = partial(
        run_step, setup=setup, job_id="ftjob-1", job_seed=5, step=number, group_size=4, replacement_share=0.0,
        on_rollout=book.note,
    )  # fmt: skip

    async def main() -> StepRollouts:
        return await with_refills(
            await one_round([StepRow(row, 0) for row in rows]),
            rounds=1,
            spare=[StepRow(spare, 0)],
            failure_share=0.25,
            roll_out=lambda rows, so_far: one_round(rows, so_far=so_far),
        )

    return run_in_virtual_time(main())


def is_spare(trace: FinishedTrace) -> bool:
    return "Question 9?" in trace.messages[1].content


@pytest.mark.parametrize("code", [FailureCode.SERVER_ERROR, FailureCode.REJECTED, FailureCode.GRADER_ERROR])
def test_a_further_row_that_can_never_be_graded_costs_its_group_and_not_the_job(
    rows: list[DatasetRow], make_setup: MakeSetup, code: FailureCode
) -> None:
    """Four of twenty rollouts: the same row in a batch would be borne, too."""

    async def score(trace: FinishedTrace, trace_id: str) -> float | Failure:
        broken = Failure(stage=Stage.GRADER, code=code, message="grader answered 500", endpoint="grader")
        return broken if is_spare(trace) else 1.0

    book = Book()
    done = whole_step(rows, make_setup(["4."], grader=FunctionGrader(score), hold=book.hold()), book)
    assert outcomes(done) == [1.0] * 16 + [None] * 4
    assert (book.kinds, done.replaced) == ([], [])


def test_what_a_tool_does_not_find_for_a_further_row_is_the_models_mistake_where_it_answers_the_others(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    async def answer(call: ToolCall, trace_id: str) -> ToolResult:
        return not_found(call) if "9" in call.arguments else answered(call)

    def script(request: object, prompt: str) -> str:
        asked = 9 if "Question 9?" in prompt else 1
        return "4." if "<tool_response>" in prompt else tool_call_text("search", f'{{"q": {asked}}}')

    book, sampler = Book(), ScriptedSampler(ByteTokenizer(), script)
    done = whole_step(rows, make_setup(sampler, tools=FunctionTools(answer), hold=book.hold()), book)
    assert outcomes(done) == [1.0] * 20
    assert book.kinds == []


def test_failures_of_a_further_round_are_counted_with_those_before_it(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    """Four of sixteen are borne, and four more of four are too many for a step of twenty."""
    graded: list[str] = []

    async def score(trace: FinishedTrace, trace_id: str) -> float | Failure:
        graded.append(trace_id)
        is_failing = "Question 3?" in trace.messages[1].content or (is_spare(trace) and len(graded) <= 20)
        down = Failure(stage=Stage.GRADER, code=FailureCode.SERVER_ERROR, message="answered 503", endpoint="grader")
        return down if is_failing else 1.0

    book = Book()
    done = whole_step(rows, make_setup(["4."], grader=FunctionGrader(score), hold=book.hold()), book)
    assert outcomes(done) == [1.0] * 12 + [None] * 4 + [1.0] * 4
    assert [kind for _, kind in book.kinds] == ["hold_began", "hold_ended"]


def test_a_row_draws_anew_each_time_it_is_a_further_one(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    """Not what it draws in its own turn of the same epoch, nor what it drew as a further row of another step."""

    def seeds(step: int, batch: Sequence[DatasetRow], spare: DatasetRow) -> set[int]:
        done = whole_step(batch, make_setup(["4."]), Book(), number=step, spare=spare)
        return {one.key.seed for group in done.groups for one in group.rollouts if group.row_index == 0}

    further = [seeds(step, rows[1:], rows[0]) for step in (2, 3, 2)]
    own_turn = seeds(4, rows[:1], SPARE)
    assert len(own_turn | further[0] | further[1]) == 4 + 4 + 4
    assert further[0] == further[2], "a resumed run draws the same"
