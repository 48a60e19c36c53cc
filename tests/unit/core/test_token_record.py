"""Packed tokens come back: ids and mask as they were, log-probabilities as far as float16 goes."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.token_record import LARGEST_FLOAT16, pack_float16, pack_tokens, unpack_float16, unpack_tokens
from rft.core.turns import TokenSpan

TOKENS = st.lists(
    st.tuples(st.integers(0, 2**32 - 1), st.booleans(), st.floats(-60_000, 0.0, allow_nan=False)), max_size=200
)


def is_near(found: float, wanted: float) -> bool:
    return abs(found - wanted) <= max(2**-11 * abs(wanted), 2**-25)


@given(TOKENS)
def test_ids_and_mask_are_exact_and_logprobs_within_float16(tokens: list[tuple[int, bool, float]]) -> None:
    span = TokenSpan(
        tuple(token for token, _, _ in tokens),
        tuple(is_sampled for _, is_sampled, _ in tokens),
        tuple(logprob if is_sampled else 0.0 for _, is_sampled, logprob in tokens),
    )
    found = unpack_tokens(pack_tokens(span))
    assert (found.token_ids_T, found.mask_T) == (span.token_ids_T, span.mask_T)
    assert all(is_near(*pair) for pair in zip(found.logprobs_T, span.logprobs_T, strict=True))


@given(st.integers(1, 3000), st.integers(0, 3000))
def test_long_runs_take_no_room_for_their_mask(sampled: int, others: int) -> None:
    span = TokenSpan(
        (7,) * (sampled + others), (True,) * sampled + (False,) * others, (-0.5,) * sampled + (0.0,) * others
    )
    packed = pack_tokens(span)
    assert unpack_tokens(packed) == span
    assert len(packed) < 200


def test_no_tokens_at_all() -> None:
    assert unpack_tokens(pack_tokens(TokenSpan((), (), ()))) == TokenSpan((), (), ())


def test_what_float16_does_not_reach_is_cut_and_what_is_no_number_stays_none() -> None:
    largest, smallest, none = unpack_float16(pack_float16([math.inf, -1e9, math.nan]))
    assert (largest, smallest) == (LARGEST_FLOAT16, -LARGEST_FLOAT16)
    assert math.isnan(none)


@pytest.mark.parametrize("token", [-1, 2**32])
def test_an_id_that_is_none_is_not_packed(token: int) -> None:
    with pytest.raises(struct.error):
        pack_tokens(TokenSpan.context((token,)))
