"""Estimates: what each must hold for any rewards, and how often its interval is right."""

import random
from collections.abc import Callable
from itertools import combinations
from math import exp, fsum, lgamma, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.estimates import best_of_k, estimate_difference, estimate_reward, pass_at_k, variance_within_rows

REWARDS = st.sampled_from([0.0, 0.5, 1.0]) | st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)
ROWS = st.lists(st.lists(REWARDS, min_size=1, max_size=4), min_size=1, max_size=40)


@given(ROWS)
def test_the_interval_holds_the_mean_within_the_scale(rows: list[list[float]]) -> None:
    found = estimate_reward(rows)
    assert found is not None
    assert 0.0 <= found.low <= found.mean <= found.high <= 1.0
    assert found.rows == len(rows)
    assert found.low < found.high, "nothing is ever certain"


OVER = 0.2 + 0.4 + 0.3 + 0.1
"""What our own formulas make of a fully right answer with such weights: a little more than 1."""


@pytest.mark.parametrize(("end", "beside"), [(1.0, OVER), (0.0, 0.3 - 0.1 - 0.2)])
def test_an_end_of_the_scale_that_rounding_misses_is_the_end(end: float, beside: float) -> None:
    assert 0 < abs(beside - end) < 1e-9
    for rest in ([], [[0.5, 1.0]], [[0.25], [0.75]]):
        exact, found = estimate_reward([[end]] * 11 + rest), estimate_reward([[beside]] * 11 + rest)
        assert exact is not None
        assert found is not None
        assert (found.mean, found.low, found.high) == pytest.approx((exact.mean, exact.low, exact.high), abs=1e-9)
        assert 0.0 <= found.low <= found.high <= 1.0
    gained = estimate_difference([[0.5]] * 12, [[beside]] * 12)
    assert gained is not None
    assert (gained.better, gained.worse) == ((12, 0) if end else (0, 12))


@given(ROWS)
def test_rewards_turned_upside_down_turn_the_interval(rows: list[list[float]]) -> None:
    found, turned = estimate_reward(rows), estimate_reward([[1 - reward for reward in row] for row in rows])
    assert found is not None
    assert turned is not None
    expected = (1 - found.mean, 1 - found.high, 1 - found.low)
    assert (turned.mean, turned.low, turned.high) == pytest.approx(expected, abs=1e-6)


@given(ROWS, st.integers(0))
def test_the_order_of_rows_says_nothing(rows: list[list[float]], seed: int) -> None:
    shuffled = random.Random(seed).sample(rows, len(rows))
    found, again = estimate_reward(rows), estimate_reward(shuffled)
    assert found is not None
    assert again is not None
    assert (again.mean, again.low, again.high) == pytest.approx((found.mean, found.low, found.high))


@given(ROWS)
def test_more_rows_narrow_it_and_more_confidence_widens_it(rows: list[list[float]]) -> None:
    few, many = estimate_reward(rows), estimate_reward(rows * 4)
    surer = estimate_reward(rows, confidence=0.99)
    assert few is not None
    assert many is not None
    assert surer is not None
    assert many.high - many.low < few.high - few.low
    assert surer.low <= few.low
    assert few.high <= surer.high


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=40))
def test_copies_of_a_rollout_tell_nothing_new(rewards: list[float]) -> None:
    alone, copied = estimate_reward([[reward] for reward in rewards]), estimate_reward([[r] * 5 for r in rewards])
    assert alone is not None
    assert copied is not None
    assert (copied.low, copied.high) == pytest.approx((alone.low, alone.high))


def test_known_values() -> None:
    """Wilson's interval for 95 of 100, by hand from Brown, Cai and DasGupta's formula with Student's quantile at 99
    degrees of freedom, 1.98422; and all of 200."""
    found = estimate_reward([[1.0]] * 95 + [[0.0]] * 5)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.88724, 0.97867), abs=1e-5)
    best = estimate_reward([[1.0]] * 200)
    assert best is not None
    assert (best.mean, best.low, best.high) == pytest.approx((1.0, 0.98093, 1.0), abs=1e-5)


def test_rows_without_a_graded_rollout_are_left_out() -> None:
    assert estimate_reward([]) is None
    assert estimate_reward([[], []]) is None
    assert estimate_reward([[], [1.0], [0.0]]) == estimate_reward([[1.0], [0.0]])


def test_rewards_of_another_scale_have_students_interval() -> None:
    """Of 1, 2, 3, 4, 10: mean 4, standard error 3.53553 / sqrt(5), Student's quantile at 4 degrees of freedom 2.776."""
    found = estimate_reward([[1.0], [2.0], [3.0], [4.0], [10.0, 10.0]])
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((4.0, -0.39, 8.39), abs=0.03)


@pytest.mark.parametrize(
    ("rows", "confidence", "quantile"),
    [
        (2, 0.95, 12.7062),
        (2, 0.99, 63.6567),
        (3, 0.95, 4.3027),
        (3, 0.99, 9.9248),
        (4, 0.95, 3.1824),
        (5, 0.95, 2.7764),
        (10, 0.95, 2.2622),
        (10, 0.99, 3.2498),
    ],
)
def test_few_rows_have_students_own_quantile(rows: int, confidence: float, quantile: float) -> None:
    """As tables have it; by the mean's standard error."""
    values = [10 + at - (rows - 1) / 2 for at in range(rows)]
    found = estimate_reward([[value] for value in values], confidence=confidence)
    assert found is not None
    error = sqrt(fsum((value - 10) ** 2 for value in values) / (rows - 1) / rows)
    assert (found.high - 10) / error == pytest.approx(quantile, rel=2e-3 if rows > 3 else 1e-4)


@pytest.mark.parametrize("rows", [[[7.0]], [[7.0], [7.0]], [[-0.5, -0.5]]])
def test_no_interval_where_nothing_tells_how_rewards_spread(rows: list[list[float]]) -> None:
    assert estimate_reward(rows) is None
    assert estimate_difference(rows, [[reward - 8.0 for reward in row] for row in rows]) is None


MEANS = (0.05, 0.3, 0.5, 0.8, 0.95)


@pytest.mark.lengthy
@pytest.mark.parametrize("rows", [30, 200, 1000])
def test_the_truth_lies_in_it_as_often_as_it_says(rows: int) -> None:
    """Exactly, for one 0/1 reward per row: every possible count of ones, by its chance."""
    found = [estimate_reward([[1.0]] * ones + [[0.0]] * (rows - ones)) for ones in range(rows + 1)]
    for truth in MEANS:
        hit = fsum(
            exp(lgamma(rows + 1) - lgamma(ones + 1) - lgamma(rows - ones + 1))
            * truth**ones
            * (1 - truth) ** (rows - ones)
            for ones, one in enumerate(found)
            if one is not None and one.low <= truth <= one.high
        )
        assert 0.93 <= hit <= 0.98, truth
    widest = max(one.high - one.low for one in found if one is not None)
    assert widest <= 2 / sqrt(rows), "and not by being wide"


def coin(rng: random.Random, truth: float) -> list[float]:
    return [float(rng.random() < truth) for _ in range(4)]


def easy_or_hard(rng: random.Random, truth: float) -> list[float]:
    """Rollouts of a row resemble each other: its chance is drawn around the truth."""
    chance = rng.betavariate(2 * truth, 2 * (1 - truth))
    return [float(rng.random() < chance) for _ in range(4)]


def partial_credit(rng: random.Random, truth: float) -> list[float]:
    return [(float(rng.random() < truth) + float(rng.random() < truth)) / 2 for _ in range(4)]


@pytest.mark.parametrize("truth", MEANS)
@pytest.mark.parametrize("draw", [coin, easy_or_hard, partial_credit])
def test_four_rollouts_of_a_row_are_worth_what_they_are(
    draw: Callable[[random.Random, float], list[float]], truth: float
) -> None:
    rng, hits, tries = random.Random(5), 0, 1000
    for _ in range(tries):
        found = estimate_reward([draw(rng, truth) for _ in range(30)])
        assert found is not None
        hits += found.low <= truth <= found.high
    assert hits / tries >= 0.93


@given(ROWS, st.integers(0))
def test_two_policies_turned_round_turn_their_difference(rows: list[list[float]], seed: int) -> None:
    others = random.Random(seed).sample(rows, len(rows))
    found, turned = estimate_difference(rows, others), estimate_difference(others, rows)
    assert found is not None
    assert turned is not None
    assert -1 <= found.low <= found.difference <= found.high <= 1
    assert found.low < found.high, "nothing is ever certain"
    assert (turned.difference, turned.low, turned.high) == pytest.approx((-found.difference, -found.high, -found.low))
    assert (turned.better, turned.worse, turned.same) == (found.worse, found.better, found.same)
    assert found.better + found.worse + found.same == found.rows == len(rows)


def test_a_difference_by_hand() -> None:
    """Bonett and Price (2012), equation 2, for 100 pairs: 20 got better, 5 got worse."""
    first = [[0.0]] * 20 + [[1.0]] * 5 + [[1.0]] * 75
    second = [[1.0]] * 20 + [[0.0]] * 5 + [[1.0]] * 75
    up, down = 21 / 102, 6 / 102
    reach = 1.959964 * sqrt((up + down - (up - down) ** 2) / 102)
    found = estimate_difference(first, second)
    assert found is not None
    assert (found.difference, found.low, found.high) == pytest.approx((0.15, up - down - reach, up - down + reach))
    assert (found.better, found.worse, found.same, found.is_improvement) == (20, 5, 75, True)


@pytest.mark.lengthy
@pytest.mark.parametrize("draw", [coin, easy_or_hard, partial_credit])
@pytest.mark.parametrize("rows", [30, 200])
def test_equal_policies_are_seldom_called_different(
    draw: Callable[[random.Random, float], list[float]], rows: int
) -> None:
    rng, improvements, worsenings, tries = random.Random(7), 0, 0, 600
    for _ in range(tries):
        first, second = ([draw(rng, 0.8)[:2] for _ in range(rows)] for _ in range(2))
        found = estimate_difference(first, second)
        assert found is not None
        improvements += found.is_improvement
        worsenings += found.high < 0
    assert improvements / tries <= 0.04
    assert worsenings / tries <= 0.04


@pytest.mark.parametrize("scale", [1.0, 1e8, 1e9, -1e9, 1e12])
def test_rounding_makes_no_row_better_or_worse_on_any_scale(scale: float) -> None:
    rounded = scale * (0.6 + 0.3 + 0.1)
    assert rounded != scale
    first, second = [[scale], [rounded], [0.0], [scale]], [[rounded], [scale], [scale], [0.0]]
    found = estimate_difference(first, second)
    assert found is not None
    assert sorted((found.better, found.worse, found.same)) == [1, 1, 2]
    assert found.same == 2
    rounding = estimate_difference([[scale]] * 3 + [[2 * scale]], [[rounded]] * 3 + [[2 * scale]])
    assert rounding is None or not (rounding.is_improvement or rounding.high < 0)


def test_a_gain_that_every_row_has_alike_is_none_that_rounding_spreads() -> None:
    large = [[scale * 1e9] for scale in (1.0, 2.0, 3.0)]
    assert estimate_difference(large, [[reward + 0.1] for (reward,) in large]) is None
    assert estimate_difference([[1.0], [2.0], [3.0]], [[1.1], [2.1], [3.1]]) is None


@pytest.mark.parametrize("scale", [-1e8, 1e9, 1e12])
def test_rounding_is_no_spread_of_rewards(scale: float) -> None:
    rounded = scale * (0.6 + 0.3 + 0.1)
    assert estimate_reward([[scale], [rounded], [scale]]) is None
    assert estimate_reward([[scale], [0.999 * scale], [scale]]) is not None


def test_only_rows_of_both_are_compared() -> None:
    found = estimate_difference([[], [1.0], [0.0]], [[1.0], [], [1.0]])
    assert found is not None
    assert (found.rows, found.difference) == (1, 1.0)
    assert estimate_difference([[], [1.0]], [[1.0], []]) is None
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        estimate_difference([[1.0]], [])


@given(st.lists(REWARDS, min_size=1, max_size=7), st.data())
def test_the_best_of_k_is_the_mean_over_all_subsets(rewards: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(rewards)))
    subsets = list(combinations(rewards, k))
    assert best_of_k(rewards, k) == pytest.approx(fsum(max(subset) for subset in subsets) / len(subsets))


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=12), st.data())
def test_pass_at_k_is_the_best_of_k_passes(rewards: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(rewards)))
    assert pass_at_k(int(sum(rewards)), len(rewards), k) == pytest.approx(best_of_k(rewards, k))


@pytest.mark.parametrize(("passed", "samples", "k"), [(0, 0, 1), (3, 2, 1), (-1, 2, 1), (1, 2, 3), (1, 2, 0)])
def test_impossible_counts_are_refused(passed: int, samples: int, k: int) -> None:
    with pytest.raises(ValueError, match="do not tell of"):
        pass_at_k(passed, samples, k)


def test_the_best_of_more_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="do not tell of the best of 3"):
        best_of_k([1.0, 0.0], 3)


def test_variance_within_rows() -> None:
    assert variance_within_rows([[1.0], []]) is None
    assert variance_within_rows([[1.0, 0.0], [1.0, 1.0], [0.5]]) == pytest.approx(0.25)
