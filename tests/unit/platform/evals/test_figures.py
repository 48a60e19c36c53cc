"""What the figures of runs say of made-up output items."""

from typing import Any

import pytest

from rft.platform.evals.comparison import compare, compared_rows
from rft.platform.evals.figures import Measured, run_figures


def measured(
    row: int, passed: bool | None, *, item: str | None = None, score: float | None = None, **more: Any
) -> Measured:
    """One sample under one criterion; None: no verdict."""
    status = "error" if passed is None else "pass" if passed else "fail"
    own = None if passed is None else float(passed) if score is None else score
    fields: dict[str, Any] = {
        "row_index": row,
        "item_digest": item or f"item-{row}",
        "status": status,
        "scores": [own],
        "passes": [passed],
        "failure_code": "timeout" if passed is None else None,
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "tool_calls": 1,
        "latency_s": None if passed is None else 2.0,
    }
    return Measured.model_validate(fields | more)


def test_errors_are_beside_the_figures_and_not_in_them() -> None:
    items = [measured(0, True), measured(1, False), measured(2, None), measured(3, None), measured(3, True)]
    told = run_figures(items, ["exact"])
    assert (told.rows, told.rows_without_verdict, told.samples, told.errored) == (3, 1, 3, 2)
    assert told.errored_by_code == {"timeout": 2}
    assert told.passed is not None
    assert told.passed.mean == pytest.approx(2 / 3)
    assert told.passed.low < 2 / 3 < told.passed.high
    assert (told.prompt_tokens, told.completion_tokens) == (50, 20)
    assert told.completion_tokens_per_sample == 4.0


def test_each_row_counts_the_same_however_many_samples_it_has() -> None:
    told = run_figures([measured(0, True), *[measured(1, False)] * 9], ["exact"])
    assert told.passed is not None
    assert told.passed.mean == 0.5


def test_pass_at_k_and_best_of_k_are_over_rows_with_so_many_samples() -> None:
    rows = [[True, False, False, False], [False, False, False, False], [True]]
    told = run_figures([measured(at, one) for at, row in enumerate(rows) for one in row], ["exact"])
    assert told.pass_at_k == {1: pytest.approx((0.25 + 0 + 1) / 3), 2: pytest.approx(0.25), 4: pytest.approx(0.5)}
    assert told.criteria[0].best_of_k == told.pass_at_k
    assert told.variance_within_rows == pytest.approx(0.125)


def test_scores_of_another_scale_have_a_mean_also_where_they_tell_of_no_spread() -> None:
    told = run_figures([measured(at, True, score=5.0) for at in range(3)], ["judge"])
    assert (told.criteria[0].score_mean, told.criteria[0].score) == (5.0, None)


def test_latencies_are_ones_that_occurred() -> None:
    told = run_figures([measured(at, True, latency_s=float(at + 1)) for at in range(20)], ["exact"])
    assert told.latency is not None
    assert (told.latency.p50_s, told.latency.p95_s) == (10.0, 19.0)


def test_a_cost_is_told_when_all_of_it_is_known() -> None:
    priced = [measured(0, True, cost=0.5), measured(1, None, cost=0.25)]
    unasked = measured(2, None, prompt_tokens=0)
    assert run_figures([*priced, unasked], ["exact"]).cost == 0.75
    assert run_figures([*priced, measured(3, True, turns_without_usage=1)], ["exact"]).cost is None
    assert run_figures([measured(0, True)], ["exact"]).cost is None


def test_a_run_without_samples_of_a_model_has_no_latency() -> None:
    told = run_figures([measured(0, True, latency_s=None)], ["exact"])
    assert (told.latency, told.completion_tokens_per_sample) == (None, None)


def test_two_runs_are_compared_on_the_items_of_both_wherever_they_stand() -> None:
    here = [measured(0, True, item="a"), measured(1, True, item="b"), measured(2, False, item="c")]
    there = [measured(0, False, item="b"), measured(1, True, item="a"), measured(2, True, item="d")]
    told = compare(here, there, ["exact"])
    assert told.rows == 2
    assert told.passed is not None
    assert (told.passed.difference, told.passed.better, told.passed.worse, told.passed.same) == (0.5, 1, 0, 1)
    assert (told.only_here, told.only_there, told.without_verdict) == ((2,), (2,), ())
    back = compare(there, here, ["exact"])
    assert back.passed is not None
    assert back.passed.difference == -0.5


def test_items_without_a_verdict_on_either_side_are_named() -> None:
    here = [measured(0, None), measured(1, True), measured(2, True)]
    there = [measured(0, True), measured(1, True), measured(2, None)]
    told = compare(here, there, ["exact"])
    assert (told.rows, told.without_verdict) == (1, (0, 2))
    assert told.passed is not None
    assert told.passed.same == 1


def test_equal_items_of_one_run_are_compared_one_by_one() -> None:
    here = [measured(0, True, item="a"), measured(1, False, item="a")]
    told = compare(here, [measured(0, True, item="a")], ["exact"])
    assert (told.rows, told.only_here) == (1, (1,))


def test_compared_rows_are_those_that_the_counts_count_the_largest_change_first() -> None:
    here = [measured(0, True, item="a"), measured(1, False, item="b"), measured(2, True, item="c")]
    here += [measured(3, True, item="d"), measured(3, False, item="d"), measured(4, None, item="e")]
    there = [measured(at, False, item=item) for at, item in enumerate("edcba")]
    told = compare(here, there, ["exact"]).passed
    rows = compared_rows(here, there, criteria=1, by=None)
    assert [(row.row_index, row.other_row_index, row.value - row.other_value) for row in rows] == [
        (0, 4, 1.0),
        (2, 2, 1.0),
        (3, 1, 0.5),
        (1, 3, 0.0),
    ]
    assert told is not None
    assert [[row.change for row in rows].count(change) for change in ("better", "worse", "same")] == [
        told.better,
        told.worse,
        told.same,
    ]


def test_rows_are_compared_by_a_criterions_score_too() -> None:
    here = [measured(0, True, score=0.7), measured(1, True, score=0.9)]
    there = [measured(0, True, score=0.9), measured(1, None, scores=[None])]
    [row] = compared_rows(here, there, criteria=1, by=0)
    assert (row.change, row.value, row.other_value, row.passed, row.other_passed) == ("worse", 0.7, 0.9, 1.0, 1.0)
    assert (row.scores, row.other_scores) == ((0.7,), (0.9,))


@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_a_row_whose_score_differs_by_rounding_is_the_same(scale: float) -> None:
    full, rounded = measured(0, True, score=scale), measured(0, True, score=scale * (0.6 + 0.3 + 0.1))
    less = measured(0, True, score=scale * 0.999)
    pairs = [(full, rounded), (rounded, full), (full, less), (less, full)]
    changes = [compared_rows([here], [there], criteria=1, by=0)[0].change for here, there in pairs]
    assert changes == ["same", "same", "better", "worse"]


def test_scores_that_all_changed_alike_are_compared_without_an_interval() -> None:
    """Of another scale than 0 to 1, where nothing tells how the differences spread."""
    here = [measured(0, True, score=3.0), measured(1, True, score=5.0), measured(2, None, scores=[None])]
    there = [measured(0, True, score=2.0), measured(1, True, score=4.0), measured(2, True, score=4.0)]
    [told] = compare(here, there, ["rating"]).criteria
    assert (told.score, told.rows, told.score_difference) == (None, 2, 1.0)
    [none] = compare(here[2:], there[2:], ["rating"]).criteria
    assert (none.score, none.rows, none.score_difference) == (None, 0, None)
