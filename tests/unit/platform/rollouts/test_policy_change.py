"""Two policies on the same rows."""

import pytest

from rft.core.rollout import Split
from rft.core.step_record import RolloutStats
from rft.platform.rollouts.policy_change import GradedRollout, policy_change
from tests.shared.train_events import step_done


def graded(row: int, reward: float, *, calls: int = 2, trace: str = "trace_a", **by_tool: int) -> GradedRollout:
    return GradedRollout(row, trace, reward, calls, 100 * calls, 0.5 * calls, by_tool)


def stats(*, excluded: int = 1) -> RolloutStats:
    known = step_done(1, 4).train
    assert known is not None
    return known.model_copy(update={"excluded": excluded})


def test_only_rows_that_both_have_are_compared() -> None:
    change = policy_change(
        (0, [graded(1, 0.0), graded(2, 1.0), graded(3, 0.0)], None),
        (8, [graded(2, 1.0, calls=1), graded(3, 1.0, calls=4, trace="trace_b"), graded(4, 1.0)], None),
        Split.VALID,
    )
    assert [(row.row_index, row.after.reward - row.before.reward) for row in change.data] == [(2, 0.0), (3, 1.0)]
    assert [row.after.tool_calls - row.before.tool_calls for row in change.data] == [-1, 2]
    assert change.data[1].after.trace_id == "trace_b"
    assert change.reward is not None
    assert (change.reward.better, change.reward.worse, change.reward.same) == (1, 0, 1)
    assert change.reward.difference == pytest.approx(0.5)
    assert (change.left_out_before.rows, change.left_out_after.rows) == (1, 1)
    assert change.left_out_after.excluded_rollouts is None, "nothing is known of the step"


def test_what_is_not_compared_is_told_of_either_side() -> None:
    before, after = (0, [graded(1, 0.0), graded(2, 0.5)], stats(excluded=3)), (8, [graded(1, 1.0)], stats())
    change = policy_change(before, after, Split.VALID)
    assert (change.left_out_before.rows, change.left_out_before.excluded_rollouts) == (1, 3)
    assert (change.left_out_after.rows, change.left_out_after.excluded_rollouts) == (0, 1)


def test_several_rollouts_of_a_row_are_one_row() -> None:
    change = policy_change(
        (0, [graded(1, 0.0, calls=1), graded(1, 1.0, calls=4)], None), (8, [graded(1, 1.0)], None), Split.VALID
    )
    (row,) = change.data
    assert (row.before.rollouts, row.before.reward, row.before.tool_calls) == (2, 0.5, 2.5)
    assert (row.before.completion_tokens, row.before.duration_s) == (250, 1.25)


def test_calls_by_tool_are_those_of_the_rows_compared_each_counting_the_same() -> None:
    before = [graded(1, 0.0, cat=3, search=2), graded(2, 0.0, search=1), graded(3, 0.0, cat=9, list=9)]
    after = [graded(1, 1.0, search=4), graded(1, 0.0), graded(1, 0.5, search=2), graded(2, 1.0, search=2)]
    change = policy_change((0, before, stats()), (8, after, None), Split.VALID)
    assert [(tool.name, tool.before, tool.after) for tool in change.tools] == [("cat", 1.5, 0.0), ("search", 1.5, 2.0)]


def test_without_a_row_that_both_have_there_is_nothing_to_tell() -> None:
    change = policy_change((0, [], None), (8, [graded(1, 1.0, search=1)], stats()), Split.VALID)
    assert (change.reward, change.data, change.tools) == (None, [], [])
