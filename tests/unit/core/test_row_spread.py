"""How far rewards spread, and the size of groups that they speak for."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.group import advantages_G
from rft.core.row_spread import chance_of_signal, evenly, row_spreads, variance_of, widest

REWARDS = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=6)


@given(REWARDS, st.integers(1, 6))
def test_the_chance_of_signal_is_the_share_of_groups_that_have_some(rewards: list[float], size: int) -> None:
    if size > len(rewards):
        with pytest.raises(ValueError, match="do not tell"):
            chance_of_signal(rewards, size)
        return
    groups = list(combinations(rewards, size))
    with_signal = sum(advantages_G(group)[0] is not None for group in groups)
    assert chance_of_signal(rewards, size) == pytest.approx(with_signal / len(groups))


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=8), min_size=1, max_size=12))
def test_larger_groups_have_signal_at_least_as_often(rows: list[list[float]]) -> None:
    shares = [each.share for each in variance_of(dict(enumerate(rows))).by_group_size]
    assert all(small <= large + 1e-12 for small, large in pairwise(shares))


def test_rows_that_differ_most_are_of_all_rows_and_single_samples_come_last() -> None:
    rows = row_spreads({0: [1.0, 1.0], 1: [0.0, 1.0], 2: [0.25], 3: [0.25, 0.75]})
    assert [row.row_index for row in widest(rows, 4)] == [1, 3, 0, 2]
    many = row_spreads({**{row: [1.0, 1.0] for row in range(500)}, 217: [0.9, 1.0]})
    assert [row.row_index for row in widest(many, 1)] == [217]


def test_rows_stand_by_their_mean_with_their_best_and_spread() -> None:
    rows = row_spreads({0: [1.0, 1.0], 1: [0.0, 1.0], 2: [0.25], 3: []})
    assert [(row.row_index, row.samples, row.mean, row.best) for row in rows] == [
        (2, 1, 0.25, 0.25),
        (1, 2, 0.5, 1.0),
        (0, 2, 1.0, 1.0),
    ]
    assert [row.spread for row in rows] == [None, pytest.approx(0.5**0.5), 0.0]


def test_only_rows_with_two_samples_can_show_signal() -> None:
    told = variance_of({0: [1.0, 1.0], 1: [0.0, 1.0], 2: [0.25], 3: []})
    assert (told.rows, told.samples, told.rows_sampled_twice, told.rows_with_signal) == (3, 5, 2, 1)
    assert (told.share_with_signal, told.mean) == (0.5, pytest.approx((1 + 0.5 + 0.25) / 3))


MIXED, SOLVED, NEVER = [0.0, 1.0] * 8, [1.0] * 16, [0.0] * 16
RARE = [1.0, *[0.0] * 15]


@pytest.mark.parametrize(
    ("rows", "multiplier", "words"),
    [
        ([], None, "Nothing is graded"),
        ([[1.0], [0.0]], None, "two or more per row"),
        ([[0.0, 1.0]] * 4, 0.5, "at least 100%"),
        ([MIXED] * 9 + [SOLVED], 1.0, "Groups of 8 have signal on 90% of rows"),
        ([RARE] * 6 + [NEVER] * 3, 2.0, "Groups of 16"),
        ([[1.0, 1.0]] * 9 + [[0.0, 1.0]], None, "measure with more samples"),
        ([SOLVED] * 19 + [MIXED], None, "solved already"),
        ([NEVER] * 19 + [MIXED], None, "ever solved"),
        ([NEVER] * 9 + [SOLVED] * 9 + [MIXED], None, "always earn the same"),
    ],
)
def test_what_multiplier_the_rows_speak_for(rows: list[list[float]], multiplier: float | None, words: str) -> None:
    told = variance_of(dict(enumerate(rows)))
    assert told.advised_multiplier == multiplier
    assert words in told.advice


def test_a_group_larger_than_the_samples_is_only_bounded() -> None:
    told = variance_of({0: [0.0, 1.0, 1.0, 1.0]}).by_group_size
    assert [(each.group_size, each.share, each.is_lower_bound) for each in told] == [
        (2, 0.5, False),
        (4, 1.0, False),
        (8, 1.0, True),
        (16, 1.0, True),
        (32, 1.0, True),
    ]


def test_of_many_rows_some_are_left_out_and_never_the_ends() -> None:
    rows = row_spreads({at: [float(at)] for at in range(100)})
    for limit in (2, 7, 99):
        kept = evenly(rows, limit)
        assert len({row.row_index for row in kept}) == limit
        assert (kept[0], kept[-1]) == (rows[0], rows[-1])
    assert evenly(rows, 100) == rows
    assert evenly(rows, 1) == rows[:1]


@pytest.mark.parametrize("reward", [5.0, -5.0])
def test_rewards_of_another_scale_are_not_said_to_be_solved_or_out_of_reach(reward: float) -> None:
    advice = variance_of({row: [reward] * 8 for row in range(4)}).advice
    assert "solved" not in advice
    assert "most rows always earn the same" in advice


@pytest.mark.parametrize("rewards", [[1 / 512, 1 / 512 + 4.5e-19], [1e9 * (0.6 + 0.3 + 0.1), 1e9]])
def test_rewards_that_differ_by_rounding_show_no_signal(rewards: list[float]) -> None:
    assert rewards[0] != rewards[1]
    assert advantages_G(rewards) == [None, None]
    assert variance_of({0: rewards}).rows_with_signal == 0
    assert chance_of_signal(rewards, 2) == 0
