"""Registered bodies: what is shown holds no secret, and sent back it changes nothing."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rft.core.base import JsonObject
from rft.core.secret_urls import REDACTED
from rft.platform.api.errors import BadRequest
from rft.platform.registry.redaction import refuse_moved_secrets, refuse_redacted, shown_body, with_stored_secrets

VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
HEADERS = st.dictionaries(st.text(max_size=5), st.text(max_size=5).map(lambda text: f"s3cret-{text}"), max_size=3)
BODIES = st.dictionaries(
    st.sampled_from(["name", "graders", "part", "headers", "Headers", "api_key"]),
    st.recursive(
        VALUES,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "b", "graders", "token", "type"]), inner, max_size=3)
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
    assert with_stored_secrets(shown, whole) == whole


def test_a_new_value_wins_and_a_dropped_header_is_gone() -> None:
    stored: JsonObject = {"headers": {"A": "old-a", "B": "old-b", "C": "old-c"}}
    assert with_stored_secrets({"headers": {"A": REDACTED, "B": "new-b"}}, stored) == {
        "headers": {"A": "old-a", "B": "new-b"}
    }
    assert with_stored_secrets({"headers": None}, stored) == {"headers": None}


def test_a_mask_that_stands_for_nothing_is_refused_with_its_place() -> None:
    body: dict[str, Any] = {"graders": {"exact": {"headers": {"A": REDACTED}}}, "list": [{"headers": {"A": "fine"}}]}
    with pytest.raises(BadRequest) as raised:
        refuse_redacted(body, "grader")
    assert raised.value.param == "grader.graders.exact.headers"
    refuse_redacted({"headers": {"A": "fine"}, "note": REDACTED})


def test_the_schema_of_a_tool_is_shown_as_it_is() -> None:
    parameters: JsonObject = {"type": "object", "properties": {"headers": {"type": "object"}}}
    assert shown_body({"parameters": parameters, "headers": {"A": "x"}}) == {
        "parameters": parameters,
        "headers": {"A": REDACTED},
    }


@pytest.mark.parametrize(
    "name", ["Headers", "HEADERS", "Authorization", "api_key", "apiKey", "X-API-Key", "token", "Secret", "PassWord"]
)
@pytest.mark.parametrize("secret", ["s3cret", {"Authorization": "s3cret"}, [["Authorization", "s3cret"]]])
def test_what_its_name_calls_a_secret_is_shown_redacted_in_whatever_shape(name: str, secret: Any) -> None:
    whole: JsonObject = {"name": "search", "deep": [{name: secret}], name: secret, "note": "fine"}
    shown = shown_body(whole)
    assert "s3cret" not in str(shown)
    assert (shown["name"], shown["note"]) == ("search", "fine")
    assert with_stored_secrets(shown, whole) == whole
    with pytest.raises(BadRequest):
        refuse_redacted(shown)


def test_the_parts_of_a_multi_grader_may_have_any_name() -> None:
    part: JsonObject = {"type": "endpoint", "url": "http://host/", "headers": {"A": "s3cret"}}
    shown: Any = shown_body({"type": "multi", "graders": {"token": part, "password": "s3cret"}})
    assert shown["graders"] == {"token": {**part, "headers": {"A": REDACTED}}, "password": REDACTED}


@pytest.mark.parametrize(
    "address",
    ["http://evil/tool", "https://host:8443/tool", "http://host/tool", "https://host.evil/tool", "https://host@evil/"],
)
@pytest.mark.parametrize("field", ["server_url", "url", "callback_url"])
def test_kept_header_values_do_not_move_to_another_server(address: str, field: str) -> None:
    stored: JsonObject = {"part": {"server_url": "https://host/tool", "headers": {"A": "s3cret"}}}
    moved: Any = {"part": {"server_url": "https://host/tool", "headers": {"A": REDACTED}, field: address}}
    with pytest.raises(BadRequest, match="give the headers again") as raised:
        refuse_moved_secrets(moved, stored, "grader")
    assert raised.value.param == "grader.part.headers"
    given_again: list[Any] = [{"part": {**moved["part"], "headers": headers}} for headers in ({"A": "new"}, None, {})]
    for changed in given_again:
        refuse_moved_secrets(changed, stored)


@pytest.mark.parametrize("address", ["https://host/other", "https://HOST:443/tool?a=b", "https://calls:1/"])
def test_kept_header_values_stay_with_the_servers_they_are_sent_to(address: str) -> None:
    stored: JsonObject = {"server_url": "https://host/tool", "callback_url": "https://calls:1/", "headers": {"A": "x"}}
    refuse_moved_secrets({"server_url": address, "headers": {"A": REDACTED}}, stored)


def test_an_unknown_field_that_looks_like_an_address_is_no_crash() -> None:
    refuse_moved_secrets({"note": {"url": "http://[oops:99999999"}}, {"note": {"url": "http://h:99999999/"}})


@given(HEADERS, st.text("ab:/?#@&=.", max_size=30))
@example({}, ":@//")
@example({}, "secret@//")
def test_a_url_that_is_shown_and_sent_back_is_the_whole_one(headers: dict[str, str], url: str) -> None:
    whole: Any = {"headers": headers, "server_url": f"https://a.com/?{url}", "callback_url": url}
    shown = shown_body(whole)
    refuse_moved_secrets(shown, whole)
    assert with_stored_secrets(shown, whole) == whole


def test_a_urls_redactions_stand_for_nothing_elsewhere() -> None:
    stored: JsonObject = {"server_url": "https://a.com/x?key=s3cret"}
    assert with_stored_secrets({"url": f"https://a.com/y?key={REDACTED}"}, stored) == {
        "url": "https://a.com/y?key=s3cret"
    }
    with pytest.raises(BadRequest) as raised:
        refuse_moved_secrets({"url": f"https://a.com:8443/x?key={REDACTED}"}, stored, "tool")
    assert raised.value.param == "tool.url"
    with pytest.raises(BadRequest) as raised:
        refuse_redacted(with_stored_secrets({"callback_url": f"https://a.com/x?key={REDACTED}"}, stored))
    assert raised.value.param == "callback_url"
