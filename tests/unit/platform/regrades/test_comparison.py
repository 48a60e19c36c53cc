"""The mathematics of a regrade."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from rft.core.grade import MAX_SCORE, TokenUsage
from rft.core.rollout import Split
from rft.platform.regrades.comparison import Regraded, compare, has_other_best, ranks, spearman
from rft.platform.regrades.repository import StoredRollout, whole_groups

finite = st.floats(allow_nan=False, allow_infinity=False)
scores = st.floats(-MAX_SCORE, MAX_SCORE)
columns = st.integers(1, 12).flatmap(
    lambda n: st.tuples(st.lists(finite, min_size=n, max_size=n), st.lists(finite, min_size=n, max_size=n))
)
few_values = st.sampled_from([0.0, 0.5, 1.0])
small = st.lists(st.tuples(few_values, few_values), min_size=2, max_size=8)


@given(st.lists(finite, max_size=30))
def test_ranks_keep_the_order_share_ties_and_sum_to_the_places(values: list[float]) -> None:
    places = ranks(values)

    assert math.isclose(sum(places), len(values) * (len(values) + 1) / 2)
    for one, place in zip(values, places, strict=True):
        for other, another_place in zip(values, places, strict=True):
            assert (one < other) == (place < another_place)


@given(columns)
def test_the_correlation_is_symmetric_bounded_and_turns_with_the_order(sides: tuple[list[float], list[float]]) -> None:
    before, after = sides
    correlation = spearman(before, after)

    assert correlation == spearman(after, before)
    if correlation is None:
        assert len(set(before)) < 2 or len(set(after)) < 2
        return
    assert -1 <= correlation <= 1
    turned = spearman(before, [-value for value in after])
    assert turned is not None
    assert math.isclose(turned, -correlation, abs_tol=1e-9)


@given(st.lists(finite, min_size=2, max_size=12, unique=True))
def test_the_same_order_correlates_fully_and_changes_no_best(values: list[float]) -> None:
    stretched = [place**3 for place in ranks(values)]

    correlation = spearman(values, stretched)

    assert correlation is not None
    assert math.isclose(correlation, 1.0)
    assert not has_other_best(values, stretched)


def test_spearman_agrees_with_a_textbook_example_with_ties() -> None:
    # Pearson of the ranks [1, 2.5, 2.5, 4] and [1, 3, 2, 4].
    correlation = spearman([1, 2, 2, 3], [10, 30, 20, 40])

    assert correlation is not None
    assert math.isclose(correlation, 4.5 / math.sqrt(4.5 * 5))


@given(small)
def test_a_best_that_stays_among_the_best_is_no_change(pairs: list[tuple[float, float]]) -> None:
    before, after = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    best = {place for place, value in enumerate(before) if value == max(before)}

    changed = has_other_best(before, after)

    assert changed == all(after[place] < max(after) for place in best)


def test_a_report_counts_what_both_graders_scored() -> None:
    first = [
        Regraded("a", before=1.0, after=0.0),
        Regraded("b", before=0.0, after=1.0),
        Regraded("c", before=None, after=0.5),
    ]
    second = [
        Regraded("d", before=0.5, after=0.5),
        Regraded("e", before=0.5, after=1.0),
        Regraded("f", before=1.0, after=None, failure_code="invalid_score"),
    ]

    report = compare([first, second])

    assert (report.n, report.failures, report.failures_by_code) == (6, 1, {"invalid_score": 1})
    assert (report.reward_mean_before, report.reward_mean_after) == (0.5, 0.625)
    assert (report.groups, report.groups_ranked, report.rank_correlation) == (2, 1, -1.0)
    assert report.best_changed_share == 0.5, "where all were equally good, any of them was a best"
    assert (report.signal_share_before, report.signal_share_after) == (0.5, 1.0)
    assert [change.trace_id for change in report.rollouts] == list("abcdef")


def test_tokens_of_scores_and_of_failures_are_added_up() -> None:
    paid, lost = {"m": TokenUsage(prompt_tokens=5)}, {"m": TokenUsage(prompt_tokens=7), "n": TokenUsage()}
    report = compare(
        [
            [Regraded("a", before=1.0, after=0.0, usage=paid)],
            [Regraded("b", before=1.0, after=None, failure_code="timeout", usage=lost)],
        ]
    )

    assert report.judge_usage == {"m": TokenUsage(prompt_tokens=12), "n": TokenUsage()}


def test_nothing_in_common_is_no_number_and_not_a_zero() -> None:
    report = compare([[Regraded("a", before=1.0, after=None, failure_code="timeout")]])

    assert report.reward_mean_before is None
    assert report.rank_correlation is None
    assert report.best_changed_share is None


@given(st.lists(st.tuples(scores, scores), min_size=1, max_size=20))
def test_means_stay_between_the_extremes(pairs: list[tuple[float, float]]) -> None:
    report = compare([[Regraded(str(n), before=x, after=y) for n, (x, y) in enumerate(pairs)]])

    assert report.reward_mean_after is not None
    lowest, highest = min(y for _, y in pairs), max(y for _, y in pairs)
    slack = 1e-9 * max(1.0, abs(lowest), abs(highest))
    assert lowest - slack <= report.reward_mean_after <= highest + slack


def stored(row_index: int, number: int) -> StoredRollout:
    return StoredRollout(
        trace_id=f"{row_index}/{number}", split=Split.TRAIN, step=1, epoch=0, row_index=row_index, reward=0.5
    )


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 20))
def test_a_limit_cuts_between_groups(sizes: list[int], limit: int) -> None:
    rollouts = [stored(row, number) for row, size in enumerate(sizes) for number in range(size)]

    kept = whole_groups(rollouts[: limit + 1], limit)

    assert len(kept) <= limit
    assert kept == rollouts[: len(kept)]
    if sizes[0] <= limit:
        last = kept[-1].row_index
        assert sum(rollout.row_index == last for rollout in kept) == sizes[last]
    else:
        assert len(kept) == limit, "a group alone beyond the limit is cut"


def test_what_the_contracts_rule_cost_is_counted_and_shown() -> None:
    raised = Regraded("b", 1.0, 0.0, errors=("python_grader_runtime_error",), error_details="raised KeyError: 'x'")
    misfit = Regraded("c", 1.0, 0.0, errors=("sample_parse_error",), error_details="the answer is empty")
    report = compare([[Regraded("a", 1.0, 1.0), raised, replace(raised, trace_id="d"), misfit]])
    assert (report.n, report.failures) == (4, 0)
    assert report.errors_by_name == {"python_grader_runtime_error": 2, "sample_parse_error": 1}
    assert report.error_samples == ("raised KeyError: 'x'", "the answer is empty")


def test_rounding_is_neither_ranking_nor_signal() -> None:
    """The same parts in another order of the formula's terms."""

    def group(*rewards: tuple[float, float]) -> list[Regraded]:
        return [Regraded(f"trace_{place}", before, after) for place, (before, after) in enumerate(rewards)]

    third, turned = (0.1 + 0.2 + 0.3) / 3, (0.3 + 0.2 + 0.1) / 3
    assert third != turned
    equal = compare([group((0.2, third), (0.2, turned))])
    assert (equal.signal_share_before, equal.signal_share_after, equal.groups_ranked) == (0.0, 0.0, 0)
    same = compare([group((1.0, 0.7 + 0.2 + 0.1), (1.0, 1.0), (0.0, 0.0))])
    assert (same.rank_correlation, same.best_changed_share) == (1.0, 0.0)


def test_what_rounding_tells_apart_is_a_tie_on_any_scale() -> None:
    for rewards in ((1 / 512, 1 / 512 + 4.5e-19), (1e9 * (0.6 + 0.3 + 0.1), 1e9)):
        report = compare([[Regraded(f"{at}", before=float(at), after=reward) for at, reward in enumerate(rewards)]])
        assert (report.signal_share_before, report.signal_share_after) == (1.0, 0.0)
        assert (report.groups_ranked, report.best_changed_share) == (0, 0.0)
