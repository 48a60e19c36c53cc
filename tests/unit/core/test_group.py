"""Advantages: what a group's rewards say, and what failed rollouts may not say."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.grade import MAX_SCORE
from rft.core.group import advantages_G, are_equal, is_higher, without_rounding

rewards = st.floats(-5, 5, allow_nan=False)
rewards_G = st.lists(st.none() | rewards, max_size=12)


def graded(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]


@given(rewards_G)
def test_failed_rollouts_change_nothing(rewards_G: list[float | None]) -> None:
    alone = advantages_G(graded(rewards_G))
    assert graded(advantages_G(rewards_G)) == graded(alone)


@given(rewards_G)
def test_a_failed_rollout_never_has_an_advantage(rewards_G: list[float | None]) -> None:
    assert all(a is None for r, a in zip(rewards_G, advantages_G(rewards_G), strict=True) if r is None)


@given(rewards_G)
def test_advantages_sum_to_zero(rewards_G: list[float | None]) -> None:
    assert math.isclose(math.fsum(graded(advantages_G(rewards_G))), 0.0, abs_tol=1e-6)


@given(rewards_G, st.floats(-3, 3))
def test_shifting_all_rewards_changes_nothing(rewards_G: list[float | None], shift: float) -> None:
    spread = graded(rewards_G)
    if len(spread) >= 2 and max(spread) - min(spread) < 1e-3:
        return  # near the zero-variance threshold the shift's rounding decides
    shifted = advantages_G([None if r is None else r + shift for r in rewards_G])
    for before, after in zip(advantages_G(rewards_G), shifted, strict=True):
        assert (before is None) == (after is None)
        assert before is None or after is None or math.isclose(before, after, abs_tol=1e-6)


@given(st.lists(rewards, min_size=2, max_size=12))
def test_order_does_not_matter(rewards_G: list[float]) -> None:
    forwards, backwards = advantages_G(rewards_G), advantages_G(rewards_G[::-1])[::-1]
    assert [a is None for a in forwards] == [a is None for a in backwards]
    assert all(math.isclose(a, b, abs_tol=1e-9) for a, b in zip(graded(forwards), graded(backwards), strict=True))


def test_groups_without_signal_carry_no_gradient() -> None:
    assert advantages_G([]) == []
    assert advantages_G([1.0]) == [None]
    assert advantages_G([1.0, None, None]) == [None, None, None]
    assert advantages_G([0.5, 0.5, None, 0.5]) == [None] * 4


def test_known_values() -> None:
    low, high = advantages_G([0.0, 1.0])
    assert low is not None
    assert high is not None
    assert math.isclose(high, 0.5 / (math.sqrt(0.5) + 1e-4))
    assert math.isclose(low, -high)


@given(rewards_G)
def test_advantages_that_are_not_scaled_are_what_rewards_are_above_their_mean(rewards_G: list[float | None]) -> None:
    scaled, plain = advantages_G(rewards_G), advantages_G(rewards_G, is_scaled=False)
    assert [one is None for one in plain] == [one is None for one in scaled]
    if graded(plain):
        mean = math.fsum(graded(rewards_G)) / len(graded(rewards_G))
        expected = [None if reward is None else reward - mean for reward in rewards_G]
        assert plain == expected


@given(rewards, rewards)
def test_of_two_rewards_one_is_higher_unless_they_are_equal(one: float, other: float) -> None:
    assert is_higher(one, other) + is_higher(other, one) == (not are_equal([one, other]))
    assert one > other or not is_higher(one, other)


def test_the_largest_scores_there_are_do_not_overflow() -> None:
    advantages = [advantage or 0.0 for advantage in advantages_G([MAX_SCORE, -MAX_SCORE, *[MAX_SCORE] * 510])]
    assert all(math.isfinite(advantage) for advantage in advantages)
    squares = [(2 * MAX_SCORE) ** 2] * 256 * 128
    assert math.fsum(squares) < 3.4e38, "the largest number in single precision"


ROUNDED = 0.6 + 0.3 + 0.1
"""What the parts of a full score come to: a little less than 1."""


@pytest.mark.parametrize("scale", [1.0, 1e8, 1e9, 1e12, MAX_SCORE, -1e9])
def test_rounding_is_no_signal_on_any_scale(scale: float) -> None:
    assert scale * ROUNDED != scale
    assert advantages_G([scale * ROUNDED, scale] * 4) == [None] * 8
    assert advantages_G([scale * 0.999, scale] * 4) != [None] * 8


def test_the_least_difference_that_counts_is_the_same_for_all_usual_rewards() -> None:
    for reward in (0.0, 1.0, -10.0, 5000.0):
        assert are_equal([reward, reward + 0.9e-8])
        assert not are_equal([reward, reward + 1.1e-8])


@given(st.lists(st.integers(-40, 40).map(lambda step: step * 0.3e-8), min_size=1, max_size=12))
def test_without_rounding_rewards_are_one_exactly_where_they_are_equal(rewards: list[float]) -> None:
    levels = without_rounding(rewards)
    assert (len(set(levels)) == 1) == are_equal(rewards)
    for reward, level in zip(rewards, levels, strict=True):
        assert level in rewards
        assert level <= reward
        assert are_equal([level, reward])
    assert without_rounding(levels) == levels
