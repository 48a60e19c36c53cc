"""Which rank computes what: every row once, the same each time, equal work."""

from hypothesis import given
from hypothesis import strategies as st

from rft.trainer.ranks.shares import shares

TOKENS = st.lists(st.integers(min_value=2, max_value=20_000), max_size=80)
RANKS = st.integers(min_value=1, max_value=9)


@given(TOKENS, RANKS)
def test_every_row_is_in_one_share_and_in_its_order(tokens: list[int], ranks: int) -> None:
    dealt = shares(tokens, ranks)
    assert len(dealt) == ranks
    assert sorted(index for share in dealt for index in share) == list(range(len(tokens)))
    assert all(share == sorted(share) for share in dealt)
    assert shares(tokens, ranks) == dealt


@given(TOKENS, RANKS)
def test_no_share_has_more_than_the_smallest_and_one_row(tokens: list[int], ranks: int) -> None:
    loads = [sum(tokens[index] for index in share) for share in shares(tokens, ranks)]
    assert max(loads) <= min(loads) + max(tokens, default=0)


@given(TOKENS.filter(bool), RANKS)
def test_rank_0_has_a_row_wherever_there_is_one(tokens: list[int], ranks: int) -> None:
    assert shares(tokens, ranks)[0]


def test_one_rank_has_the_rows_as_they_were() -> None:
    assert shares([3, 9, 1], 1) == [[0, 1, 2]]
