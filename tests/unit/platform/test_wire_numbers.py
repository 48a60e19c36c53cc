"""Numbers that JSON has no word for are found wherever they lie, and nothing else is."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from rft.platform.api.wire import OpenBody, proper_json

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def at(document: Any, place: tuple[int | str, ...]) -> Any:
    for part in place:
        document = document[part]
    return document


def is_finite(document: Any) -> bool:
    match document:
        case dict():
            return all(is_finite(value) for value in document.values())
        case list():
            return all(is_finite(value) for value in document)
        case float():
            return math.isfinite(document)
        case _:
            return True


@given(DOCUMENTS)
def test_a_document_passes_or_the_place_of_its_number_is_told(document: Any) -> None:
    if is_finite(document):
        assert proper_json(document) is document
        return
    with pytest.raises((ValidationError, PydanticCustomError)) as raised:
        proper_json(document)
    place = raised.value.errors()[0]["loc"] if isinstance(raised.value, ValidationError) else ()
    assert not math.isfinite(at(document, place))


def test_a_body_names_the_field() -> None:
    with pytest.raises(ValidationError, match="JSON has") as raised:
        OpenBody.model_validate({"a": {"b": [1, math.inf]}})
    assert [error["loc"] for error in raised.value.errors()] == [("a", "b", 1)]
