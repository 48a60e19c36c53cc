"""The interval of a mean reward: what it must hold for any rewards, and how often it is right."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.rollouts.estimates import estimate_reward

REWARDS = st.sampled_from([0.0, 0.5, 1.0]) | st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)
ROWS = st.lists(st.lists(REWARDS, min_size=1, max_size=4), min_size=1, max_size=40)


@given(ROWS)
def test_the_interval_holds_the_mean_within_the_scale(rows: list[list[float]]) -> None:
    found = estimate_reward(rows)
    assert found is not None
    assert 0.0 <= found.low <= found.mean <= found.high <= 1.0
    assert found.rows == len(rows)
    assert found.low < found.high, "nothing is ever certain"


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
    """Wilson's interval for 95 of 100, from Brown, Cai and DasGupta's formula by hand; and all of 200."""
    found = estimate_reward([[1.0]] * 95 + [[0.0]] * 5)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.88825, 0.97846), abs=1e-5)
    best = estimate_reward([[1.0]] * 200)
    assert best is not None
    assert (best.mean, best.low, best.high) == pytest.approx((1.0, 0.98115, 1.0), abs=1e-5)


def test_rows_without_a_graded_rollout_are_left_out() -> None:
    assert estimate_reward([]) is None
    assert estimate_reward([[], []]) is None
    assert estimate_reward([[], [1.0], [0.0]]) == estimate_reward([[1.0], [0.0]])


@pytest.mark.parametrize("reward", [-0.01, 1.01, 7.0])
def test_no_interval_for_rewards_of_another_scale(reward: float) -> None:
    assert estimate_reward([[0.5], [reward]]) is None


def coin(rng: random.Random) -> list[float]:
    return [float(rng.random() < 0.95)]


def partial_credit(rng: random.Random) -> list[float]:
    return [rng.choices([0.0, 0.5, 1.0], [0.1, 0.2, 0.7])[0]]


def alike_within_a_row(rng: random.Random) -> list[float]:
    """Half of the rows are easy, the others a coin toss: rollouts of a row resemble each other."""
    chance = rng.choice([1.0, 0.5])
    return [float(rng.random() < chance) for _ in range(4)]


@pytest.mark.parametrize(
    ("draw", "truth"),
    [(coin, 0.95), (partial_credit, 0.8), (alike_within_a_row, 0.75)],
    ids=["coin", "partial credit", "alike within a row"],
)
def test_the_truth_lies_in_it_as_often_as_it_says(draw: Callable[[random.Random], list[float]], truth: float) -> None:
    rng, hits, tries, width = random.Random(5), 0, 2000, 0.0
    for _ in range(tries):
        found = estimate_reward([draw(rng) for _ in range(200)])
        assert found is not None
        hits += found.low <= truth <= found.high
        width += (found.high - found.low) / tries
    assert hits / tries >= 0.935
    assert width < 0.13, "and not by being wide"
