"""What the OpenAPI document promises of refusals, found by made-up requests."""

from typing import Any

import httpx
import pytest

from tests.integration.api.openapi_document import DOCUMENT
from tests.shared.running_api import EXACT, Api


async def ask(api: Api, method: str, path: str, body: Any = None) -> httpx.Response:
    """One request with a key."""
    async with httpx.AsyncClient(
        base_url=api.url, headers={"authorization": f"Bearer {api.key}"}, timeout=60
    ) as caller:
        return await caller.request(method, path, json=body)


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/files", "GET, POST"),
        ("/v1/files/file-nothing", "GET, DELETE"),
        ("/v1/tools/tool_nothing", "GET, POST, DELETE"),
        ("/v1/fine_tuning/jobs/ftjob-nothing/pause", "POST"),
    ],
)
async def test_a_refused_method_is_told_every_method_of_its_path(api: Api, path: str, methods: str) -> None:
    reply = await ask(api, "PATCH", path)
    assert (reply.status_code, reply.headers["allow"]) == (405, methods)
    assert reply.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize("threshold", [True, "0.5"])
async def test_a_threshold_that_is_no_number_is_refused(api: Api, threshold: object) -> None:
    reply = await ask(api, "POST", "/v1/graders", {"grader": {**EXACT, "pass_threshold": threshold}})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "grader.pass_threshold"


@pytest.mark.parametrize(
    ("field", "value"), [("id", "tool_mine"), ("url", "http://127.0.0.1:9/another")], ids=["id", "second address"]
)
async def test_a_tools_refusal_names_the_field(api: Api, field: str, value: str) -> None:
    tool = {"name": "search", "server_url": "http://127.0.0.1:9/tool", field: value}
    reply = await ask(api, "POST", "/v1/tools", tool)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == field


def test_the_document_has_the_largest_seed_to_the_last_digit() -> None:
    seed = DOCUMENT["components"]["schemas"]["JobOrder"]["properties"]["seed"]
    assert seed["anyOf"][0] == {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
