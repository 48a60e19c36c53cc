"""Groups become rows; nothing is lost and nothing failed gets in."""

import pytest

from rft.core.group import advantages_G
from rft.trainer.samples import TrainingRow, training_rows
from tests.shared.by_hand import group_of, trace_of


def test_a_row_holds_exactly_the_tokens_of_its_trace() -> None:
    trace = trace_of([1, 2, 3], ("sampled", [4, 5]), ("tool", [6, 7, 8]), ("sampled", [9]))
    [row, _] = training_rows([group_of([trace, trace_of([1], ("sampled", [2]))], [1.0, 0.0])])
    assert (*row.prompt_ids, *row.completion_ids_T) == tuple(trace.token_ids)
    assert row.mask_T == (True, True, False, False, False, True)
    assert row.logprobs_T == (-1.0, -1.0, 0.0, 0.0, 0.0, -1.0)
    assert row.sampled_tokens == 3
    assert row.tokens == 9


def test_failed_rollouts_and_silent_groups_leave_no_row() -> None:
    traces = [trace_of([1], ("sampled", [i + 2])) for i in range(4)]
    groups = [
        group_of(traces, [1.0, None, 0.0, 0.5]),
        group_of(traces, [0.5, 0.5, None, 0.5], row_index=1),
        group_of(traces, [None, None, None, 1.0], row_index=2),
    ]
    rows = training_rows(groups)
    assert [row.completion_ids_T for row in rows] == [(2,), (4,), (5,)]
    assert [row.advantage for row in rows] == [a for a in advantages_G([1.0, 0.0, 0.5]) if a is not None]


def test_a_graded_rollout_without_a_sampled_token_shapes_the_mean_but_is_no_row() -> None:
    empty, good = trace_of([1]), trace_of([1], ("sampled", [2]))
    [row] = training_rows([group_of([empty, good], [0.0, 1.0])])
    assert row.advantage == pytest.approx(advantages_G([0.0, 1.0])[1])


def test_rows_of_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        TrainingRow((1,), (2, 3), (True,), (-1.0, -1.0), 0.1)
    with pytest.raises(ValueError, match="at least one sampled token"):
        TrainingRow((1,), (2,), (False,), (0.0,), 0.1)
