"""A change of a job's endpoints: what is named is new, all else stays, and no header goes where it never went."""

from typing import Any

import pytest
from pydantic import ValidationError

from rft.core.base import JsonObject
from rft.core.secret_urls import REDACTED
from rft.core.spec import RunSecrets
from rft.platform.api.errors import BadRequest
from rft.platform.jobs.endpoint_changes import ChangedMethod, changed, whole_method
from rft.platform.jobs.endpoint_schemas import EndpointsChange
from rft.platform.orders.redaction import redacted_method, secrets_of
from rft.platform.orders.schemas import Method

PARAMETERS = {"type": "object", "properties": {"headers": {"type": "string"}, "token": {"type": "string"}}}
ENDPOINT = {"type": "endpoint", "name": "judge", "url": "https://g.example/grade", "headers": {"X-Key": "grader-key"}}
FORMULA = {
    "type": "multi",
    "name": "both",
    "graders": {
        "quality": {**ENDPOINT, "name": "quality"},
        "exact": {"type": "string_check", "name": "exact", "input": "a", "reference": "b", "operation": "eq"},
    },
    "calculate_output": "quality + exact",
}


def ordered(grader: dict[str, Any] = ENDPOINT) -> Method:
    return Method.model_validate(
        {
            "type": "reinforcement",
            "reinforcement": {
                "grader": grader,
                "tools": [
                    {
                        "name": "search",
                        "url": "https://t.example/serch?api_version=1",
                        "headers": {"Authorization": "Bearer old", "X-Team": "a"},
                        "description": "Looks.",
                        "parameters": PARAMETERS,
                        "timeout_s": 3.0,
                        "our_note": "kept",
                    },
                    {"name": "cat", "server_url": "https://t.example/cat", "callback_url": "https://t.example/host"},
                ],
                "max_episode_steps": 7,
            },
        }
    )


def change(body: dict[str, Any], method: Method | None = None) -> ChangedMethod:
    """As the service does it: from what is stored, with the sealed values put back."""
    method = method or ordered()
    stored, secrets = redacted_method(method), secrets_of(method)
    assert "Bearer old" not in str(stored)
    return changed(whole_method(stored, secrets), EndpointsChange.model_validate(body))


def refusal(body: dict[str, Any], method: Method | None = None) -> BadRequest:
    with pytest.raises(BadRequest) as refused:
        change(body, method)
    return refused.value


def test_nothing_else_of_the_order_changes() -> None:
    before = ordered()
    made = change({"tools": {"search": {"server_url": "https://t.example/search"}}})
    tool = made.method.reinforcement.tools[0] if made.method.reinforcement.tools else None
    assert tool is not None
    assert tool.server_url == "https://t.example/search"
    assert "url" not in (tool.model_extra or {}), "the address under its other name is gone"
    assert secrets_of(made.method).tool_headers == secrets_of(before).tool_headers
    assert secrets_of(made.method).tool_urls == {}, "an address without a query is no secret"
    stored: Any = redacted_method(before)
    expected = {**stored["reinforcement"]["tools"][0], "server_url": "https://t.example/search"}
    del expected["url"]
    after: Any = redacted_method(made.method)
    assert after["reinforcement"]["tools"] == [expected, stored["reinforcement"]["tools"][1]]
    assert after["reinforcement"]["tools"][0]["parameters"] == PARAMETERS
    del after["reinforcement"]["tools"], stored["reinforcement"]["tools"]
    assert after == stored
    assert [field.path for field in made.fields] == ["tools.search.server_url"]
    assert (made.moved_tools, made.has_moved_grader) == (("search",), False)


@pytest.mark.parametrize(
    ("headers", "kept"),
    [
        ({"Authorization": "Bearer new"}, {"Authorization": "Bearer new"}),
        ({"Authorization": "Bearer new", "X-Team": REDACTED}, {"Authorization": "Bearer new", "X-Team": "a"}),
        (None, None),
        ({}, None),
    ],
)
def test_headers_are_given_whole_and_masks_stand_for_what_was(headers: Any, kept: dict[str, str] | None) -> None:
    made = change({"tools": {"search": {"headers": headers}}})
    assert secrets_of(made.method).tool_headers.get("search") == kept
    assert made.moved_tools == ()
    assert "new" not in "".join(field.description for field in made.fields)


def test_graders_alone_and_as_parts() -> None:
    made = change({"grader": {"url": "https://g.example/v2", "headers": {"X-Key": "new"}}})
    before = secrets_of(ordered())
    assert secrets_of(made.method) == RunSecrets(
        tool_headers=before.tool_headers, tool_urls=before.tool_urls, grader_headers={"X-Key": "new"}
    )
    assert made.has_moved_grader
    parts = change({"grader": {"graders": {"quality": {"headers": {"X-Key": "new"}}}}}, ordered(FORMULA))
    assert secrets_of(parts.method).part_headers == {"quality": {"X-Key": "new"}}
    assert not parts.has_moved_grader
    assert [field.path for field in parts.fields] == ["grader.graders.quality.headers"]


def test_a_header_that_is_kept_goes_where_it_went_before() -> None:
    for url in ("https://evil.example/search", "http://t.example/search", "https://t.example:8443/search"):
        refused = refusal({"tools": {"search": {"server_url": url}}})
        assert refused.param == "tools.search.headers"
        new = change({"tools": {"search": {"server_url": url, "headers": {"Authorization": "Bearer new"}}}})
        assert secrets_of(new.method).tool_headers["search"] == {"Authorization": "Bearer new"}
        assert (
            "search"
            not in secrets_of(change({"tools": {"search": {"server_url": url, "headers": None}}}).method).tool_headers
        )
    assert refusal({"tools": {"search": {"callback_url": "https://evil.example/"}}}).param is not None
    refused = refusal({"grader": {"graders": {"quality": {"url": "https://evil.example/"}}}}, ordered(FORMULA))
    assert refused.param == "grader.graders.quality.headers"


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"tools": {"serch": {"headers": None}}}, "tools.serch", "tool_not_found"),
        ({"grader": {"graders": {"quality": {"headers": None}}}}, "grader.graders.quality", "grader_not_found"),
        ({"tools": {"cat": {"headers": {"A": REDACTED}}}}, "tools.cat.headers", "invalid_value"),
    ],
)
def test_what_cannot_be_changed_is_named(body: dict[str, Any], param: str, code: str) -> None:
    refused = refusal(body)
    assert (refused.param, refused.code) == (param, code)


def test_a_grader_that_is_no_endpoint_has_no_address() -> None:
    method = ordered(FORMULA)
    for body, param in (
        ({"grader": {"url": "https://g.example/"}}, "grader"),
        ({"grader": {"graders": {"exact": {"url": "https://g.example/"}}}}, "grader.graders.exact"),
    ):
        refused = refusal(body, method)
        assert (refused.param, refused.code) == (param, "grader_not_an_endpoint")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"tools": {"search": {}}},
        {"tools": {"search": {"server_url": None}}},
        {"tools": {"search": {"server_url": "ftp://t.example/"}}},
        {"tools": {"search": {"server_url": "https://a.example/", "url": "https://b.example/"}}},
        {"tools": {"search": {"timeout_s": 5}}},
        {"tools": {"search": {"headers": {"Host": "x"}}}},
        {"tool": {"search": {"headers": None}}},
        {"grader": {"url": None}},
        {"grader": {"type": "endpoint", "url": "https://g.example/"}},
        [],
    ],
)
def test_bodies_that_are_no_changes(body: Any) -> None:
    with pytest.raises(ValidationError):
        EndpointsChange.model_validate(body)


def test_callbacks_are_dropped_with_null_and_urls_are_told_without_their_secrets() -> None:
    body: JsonObject = {
        "tools": {"cat": {"callback_url": None}, "search": {"url": "https://t.example/search?key=secret"}}
    }
    made = change(body)
    assert made.method.reinforcement.tools is not None
    assert made.method.reinforcement.tools[1].callback_url is None
    assert made.method.reinforcement.tools[0].server_url.endswith("?key=secret")
    descriptions = [field.description for field in made.fields]
    assert descriptions == [
        "tool 'cat' is sent no callbacks",
        f"the url of tool 'search' is https://t.example/search?key={REDACTED}",
    ]
