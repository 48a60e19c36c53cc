"""How text is cut into terms: the same for what is stored and what is asked."""

import re

from hypothesis import given
from hypothesis import strategies as st

from rft.platform.rollouts.filters import RolloutFilter, searched_terms
from rft.platform.store.said import terms_of


@given(st.text() | st.text(st.characters(max_codepoint=127)))
def test_terms_are_runs_of_letters_and_digits(text: str) -> None:
    assert terms_of(text) == re.findall(r"[^\W_]+", text.lower())


def test_a_star_asks_for_the_beginning_of_the_last_term() -> None:
    asked = [(word.text, word.is_prefix) for word in searched_terms("Net-inc* 48,512 *")]
    assert asked == [("net", False), ("inc", True), ("48", False), ("512", False)]


@given(st.text(min_size=1))
def test_whatever_is_typed_is_a_query_and_a_pattern(typed: str) -> None:
    for word in searched_terms(typed):
        assert re.fullmatch(r"'[^\W_]+'(:\*)?", word.query)
        assert word.text.isalnum()


def test_one_step_is_told_from_a_range() -> None:
    assert RolloutFilter(step=3).one_step == 3
    assert RolloutFilter(from_step=4, to_step=4).one_step == 4
    assert RolloutFilter(from_step=4, to_step=5).one_step is None
    assert RolloutFilter(to_step=5).one_step is None
