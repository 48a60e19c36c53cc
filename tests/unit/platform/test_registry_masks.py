"""Registered bodies: what is shown holds no secret, and sent back it changes nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.base import JsonObject
from rft.platform.api.errors import BadRequest
from rft.platform.registry.masks import refuse_masks, shown_body, unmasked
from rft.platform.tools.fields import MASK

VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
HEADERS = st.dictionaries(st.text(max_size=5), st.text(max_size=5).map(lambda text: f"s3cret-{text}"), max_size=3)
BODIES = st.dictionaries(
    st.sampled_from(["name", "graders", "part", "headers"]),
    st.recursive(
        VALUES,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "b", "graders"]), inner, max_size=3)
            | st.fixed_dictionaries({"headers": HEADERS, "url": VALUES})
        ),
        max_leaves=8,
    ),
    max_size=4,
).map(lambda body: {key: value for key, value in body.items() if key != "headers" or isinstance(value, dict)})


@given(BODIES, HEADERS)
def test_what_is_shown_and_sent_back_changes_nothing(body: dict[str, Any], headers: dict[str, str]) -> None:
    whole: Any = {**body, "headers": headers}
    shown = shown_body(whole)
    assert "s3cret" not in str({key: value for key, value in shown.items() if key == "headers"})
    assert unmasked(shown, whole) == whole


def test_a_new_value_wins_and_a_dropped_header_is_gone() -> None:
    stored: JsonObject = {"headers": {"A": "old-a", "B": "old-b", "C": "old-c"}}
    assert unmasked({"headers": {"A": MASK, "B": "new-b"}}, stored) == {"headers": {"A": "old-a", "B": "new-b"}}
    assert unmasked({"headers": None}, stored) == {"headers": None}


def test_a_mask_that_stands_for_nothing_is_refused_with_its_place() -> None:
    body: dict[str, Any] = {"graders": {"exact": {"headers": {"A": MASK}}}, "list": [{"headers": {"A": "fine"}}]}
    with pytest.raises(BadRequest) as raised:
        refuse_masks(body, "grader")
    assert raised.value.param == "grader.graders.exact.headers"
    refuse_masks({"headers": {"A": "fine"}, "note": MASK})


def test_the_schema_of_a_tool_is_shown_as_it_is() -> None:
    parameters: JsonObject = {"type": "object", "properties": {"headers": {"type": "object"}}}
    assert shown_body({"parameters": parameters, "headers": {"A": "x"}}) == {
        "parameters": parameters,
        "headers": {"A": MASK},
    }
