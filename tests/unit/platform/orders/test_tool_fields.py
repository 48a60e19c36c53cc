"""A tool's fields: what is carried to the run, what is refused and with which `param`, what is never redacted."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from rft.core.messages import ToolSchema
from rft.core.secret_urls import REDACTED, redact_url
from rft.platform.api.errors import BadRequest
from rft.platform.jobs.run_spec import to_tool_server
from rft.platform.orders.redaction import redacted_method, redacted_request
from rft.platform.orders.schemas import JobCreate, JobOrder
from rft.platform.orders.tool_fields import MAX_URL_CHARS
from rft.platform.orders.tool_schemas import Tool
from rft.platform.registry.resolution import bad_body
from rft.platform.settings import Settings

TOOL: dict[str, Any] = {"name": "search", "server_url": "http://127.0.0.1/t", "headers": {"K": "s3cret"}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"headers": {"type": "object"}, "query": {"type": "string"}},
    "required": ["query"],
}


def body(tool: dict[str, Any], grader: dict[str, Any] | None = None, **reinforcement: Any) -> dict[str, Any]:
    """An order as it comes in."""
    judge = grader or {"type": "endpoint", "name": "judge", "url": "http://127.0.0.1/g"}
    method = {"type": "reinforcement", "reinforcement": {"grader": judge, "tools": [tool], **reinforcement}}
    return {"model": "tiny", "training_file": "file-1", "method": method}


def refused(document: dict[str, Any]) -> BadRequest:
    """The reply to this order."""
    with pytest.raises(ValidationError) as raised:
        JobOrder.model_validate(deepcopy(document))
    return bad_body(raised.value.errors(include_url=False), document)


def test_everything_a_tool_says_reaches_the_run(tmp_path: Path) -> None:
    tool = Tool.model_validate(
        {
            **TOOL,
            "max_concurrency": 7,
            "rate_limit": 2.5,
            "retry": "unsafe",
            "callback_url": "http://127.0.0.1/cb",
            "description": "Finds things.",
            "parameters": SCHEMA,
            "timeout_s": 3,
        }
    )
    server = to_tool_server(tool, Settings.model_validate({"home": tmp_path}))
    assert (server.max_concurrency, server.rate_limit, server.retry) == (7, 2.5, "unsafe")
    assert (server.callback_url, server.timeout_s) == ("http://127.0.0.1/cb", 3.0)
    assert server.schema_of_job == ToolSchema(name="search", description="Finds things.", parameters=SCHEMA)
    assert "s3cret" not in server.model_dump_json()


def test_a_silent_tool_is_safe_to_repeat_and_described_by_its_rows(tmp_path: Path) -> None:
    server = to_tool_server(Tool.model_validate(TOOL), Settings.model_validate({"home": tmp_path}))
    assert (server.retry, server.schema_of_job, server.callback_url) == ("safe", None, None)
    assert (server.max_concurrency, server.rate_limit) == (None, None)


def test_a_described_tool_without_parameters_takes_none(tmp_path: Path) -> None:
    tool = Tool.model_validate({**TOOL, "description": "Rings."})
    schema = to_tool_server(tool, Settings.model_validate({"home": tmp_path})).schema_of_job
    assert schema == ToolSchema(name="search", description="Rings.", parameters={"type": "object", "properties": {}})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("max_concurrency", 0, "from 1"),
        ("max_concurrency", 2.5, "from 1"),
        ("max_concurrency", "many", "from 1"),
        ("rate_limit", 0, "above 0"),
        ("rate_limit", -1, "above 0"),
        ("rate_limit", "fast", "above 0"),
        ("retry", "sometimes", "safe"),
        ("callback_url", "ftp://host/", "http"),
        ("callback_url", "http://me:pw@host/", "headers"),
        ("callback_url", "http://a b/", "spaces"),
        ("callback_url", "http://host/\r\nX-Injected: 1", "spaces"),
        ("callback_url", "http://2130706433/", "decimal"),
        ("server_url", "http://me:pw@host/", "headers"),
        ("server_url", "http://host/\nX: 1", "spaces"),
        ("headers", {"X-A": "b\r\nX-Injected: 1"}, "'X-A'"),
        ("headers", {"X-A\r\nX-Injected": "b"}, "header name"),
        ("headers", {"Webhook-Signature": "v1,x"}, "set by the platform"),
        ("description", 7, "text"),
        ("parameters", "none", "JSON Schema"),
        ("parameters", {"type": "objekt"}, "not a JSON Schema"),
        ("parameters", {"type": "array"}, "object"),
        ("parameters", {"properties": {"a": {"minimum": "low"}}}, "not a JSON Schema"),
        ("parameters", {"$ref": "https://elsewhere.example/schema.json"}, "followed"),
        ("name", "two words", "letters"),
    ],
)
def test_a_bad_field_is_refused_with_its_place(field: str, value: object, message: str) -> None:
    error = refused(body({**TOOL, field: value}))
    assert (error.param, error.code) == (f"method.reinforcement.tools[0].{field}", "invalid_value")
    assert message in error.message
    assert "s3cret" not in error.message


def test_equal_names_are_refused_at_the_second() -> None:
    document = body(TOOL)
    document["method"]["reinforcement"]["tools"].append({"name": "search", "url": "http://127.0.0.1/u"})
    assert refused(document).param == "method.reinforcement.tools[1].name"


@pytest.mark.parametrize("value", [0, 1.5, "many"])
def test_a_graders_cap_is_a_whole_number_from_1(value: object) -> None:
    grader = {"type": "endpoint", "url": "http://127.0.0.1/g", "max_concurrency": value}
    assert refused(body(TOOL, grader)).param == "method.reinforcement.grader.max_concurrency"


def test_a_reference_says_nothing_but_its_id() -> None:
    error = refused(body({"id": "tool_1", "server_url": "http://127.0.0.1/t"}))
    assert error.param == "method.reinforcement.tools[0].server_url"
    assert refused(body({"id": "tool_???"})).param == "method.reinforcement.tools[0].id"
    assert refused(body(TOOL, {"id": "grader_1", "type": "endpoint"})).param == "method.reinforcement.grader.type"


def test_schemas_are_never_redacted_and_headers_always_are() -> None:
    answer = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
    order = JobCreate.model_validate(body({**TOOL, "parameters": SCHEMA}, response_format=answer))
    for method in (redacted_method(order.method), redacted_request(order)["method"]):
        shown: Any = method
        (tool,) = shown["reinforcement"]["tools"]
        assert (tool["parameters"], tool["headers"]) == (SCHEMA, {"K": REDACTED})
        assert shown["reinforcement"]["response_format"] == answer
    assert JobCreate.model_validate(redacted_request(order)).method.reinforcement.tools is not None


@pytest.mark.parametrize(
    ("tool", "grader", "param"),
    [
        ({"server_url": "http://127.0.0.1:\uff18\uff10/t"}, None, "method.reinforcement.tools[0].server_url"),
        ({"callback_url": "http://127.0.0.1:8_0/t"}, None, "method.reinforcement.tools[0].callback_url"),
        ({}, "http://127.0.0.1:\u0668\u0660/g", "method.reinforcement.grader.url"),
    ],
)
def test_a_port_in_other_digits_is_refused_by_name(tool: dict[str, Any], grader: str | None, param: str) -> None:
    judge = None if grader is None else {"type": "endpoint", "name": "judge", "url": grader}
    problem = refused(body({**TOOL, **tool}, judge))
    assert problem.param == param
    assert "port must be a number from 1 to 65535" in problem.message


def test_a_url_of_many_short_values_is_no_longer_redacted_than_as_it_was_given() -> None:
    url = "https://example.com/?" + "&".join(f"k{n}=1" for n in range(300))
    assert len(url) < MAX_URL_CHARS < len(redact_url(url))
    tool = Tool.model_validate({"name": "search", "server_url": redact_url(url)})
    assert tool.server_url == redact_url(url)


@pytest.mark.parametrize("url", ["https://me:hunter2@example.com/", "https://me:hunter/2@example.com/"])
def test_a_refused_url_is_not_repeated(url: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Tool.model_validate({"name": "search", "server_url": url})
    assert "hunter" not in raised.value.errors()[0]["msg"]
