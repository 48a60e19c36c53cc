"""Rows become micro-batches: each row once, within the budget, and at the least cost."""

from collections.abc import Sequence
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from rft.trainer.micro_batches import PASS_TOKENS, micro_batches
from rft.trainer.samples import TrainingRow

_LENGTHS = st.lists(st.integers(2, 50), max_size=40)


def _row(tokens: int) -> TrainingRow:
    sampled = tokens - 1
    return TrainingRow((1,), (5,) * sampled, (True,) * sampled, (-1.0,) * sampled, 0.5)


def _cut(lengths: Sequence[int], tokens: int, pass_tokens: int) -> list[list[int]]:
    batches = micro_batches([_row(length) for length in lengths], tokens, pass_tokens=pass_tokens)
    return [[row.tokens for row in batch] for batch in batches]


def _cost(batches: Sequence[Sequence[int]], pass_tokens: int) -> int:
    return sum(len(batch) * batch[0] + pass_tokens for batch in batches)


def _is_within(batches: Sequence[Sequence[int]], tokens: int) -> bool:
    return all(len(batch) == 1 or len(batch) * batch[0] <= tokens for batch in batches)


@given(lengths=_LENGTHS, tokens=st.integers(1, 300), pass_tokens=st.integers(0, 300))
def test_every_row_is_in_one_batch_and_none_is_beyond_the_budget(
    lengths: list[int], tokens: int, pass_tokens: int
) -> None:
    batches = _cut(lengths, tokens, pass_tokens)
    assert [length for batch in batches for length in batch] == sorted(lengths, reverse=True)
    assert all(batches)
    assert _is_within(batches, tokens)


@given(lengths=st.lists(st.integers(2, 50), min_size=1, max_size=8), tokens=st.integers(1, 300))
def test_no_other_cut_within_the_budget_costs_less(lengths: list[int], tokens: int) -> None:
    by_length, rows = sorted(lengths, reverse=True), len(lengths)
    every_cut = [
        [by_length[start:end] for start, end in pairwise((0, *inner, rows))]
        for count in range(rows)
        for inner in combinations(range(1, rows), count)
    ]
    cheapest = min(_cost(batches, 20) for batches in every_cut if _is_within(batches, tokens))
    assert _cost(_cut(lengths, tokens, 20), 20) == cheapest


def test_a_long_rollout_does_not_make_short_ones_as_long_as_itself_though_all_would_fit() -> None:
    short, long = [136] * 60, [668, 661]
    batches = _cut([*short, *long], 16_384, PASS_TOKENS)
    assert batches == [long[:2], short]


def test_rows_of_about_one_length_are_one_batch() -> None:
    lengths = list(range(160, 130, -1))
    assert _cut(lengths, 16_384, PASS_TOKENS) == [lengths]


def test_one_endless_rollout_gets_a_batch_of_its_own() -> None:
    assert [len(batch) for batch in _cut([4000, *[100] * 31], 3200, PASS_TOKENS)] == [1, 31]
