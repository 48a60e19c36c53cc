"""Groups of equal rewards are replaced by further rows: only those, only so often, and never because of failures."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.group import Group
from rft.core.messages import Message, Role
from rft.rollouts.executor import StepRollouts
from rft.rollouts.group import StepRow
from rft.rollouts.refills import is_silent, with_refills
from tests.shared.by_hand import group_of, trace_of

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

    async def roll_out(rows: Sequence[StepRow]) -> StepRollouts:
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
