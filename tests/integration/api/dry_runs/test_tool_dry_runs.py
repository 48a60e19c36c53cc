"""A tool is called without a job."""

import json
from typing import Any

import pytest
from openai import APIStatusError, AsyncOpenAI, BadRequestError, InternalServerError, NotFoundError

from rft.testing.endpoint import ScriptedEndpoint, ScriptedTools
from rft.testing.faults import Fault, FaultKind, FaultSequence
from rft.testing.loopback import LoopbackEndpoint


async def run_tool(client: AsyncOpenAI, url: str, **more: Any) -> dict[str, Any]:
    body = {
        "type": "function_call",
        "name": "add",
        "server_url": url,
        "arguments": '{"a": 2}',
        "item": {"b": 3},
        **more,
    }
    return await client.post("/fine_tuning/alpha/tool/run", body=body, cast_to=dict[str, Any])


async def test_a_tool_is_called_as_in_a_rollout(client: AsyncOpenAI) -> None:
    tools = ScriptedTools({"add": lambda arguments, item: str(int(str(arguments["a"])) + int(str(item["b"])))})
    async with LoopbackEndpoint(ScriptedEndpoint(tools)) as customer:
        reply = await run_tool(
            client, customer.tool_url, headers={"X-Key": "secret-value"}, trace_id="trace_mine", call_id="call_1"
        )
        (call,) = customer.endpoint.calls

    assert (reply["output"], reply["call_id"], reply["attempts"]) == ("5", "call_1", 1)
    assert call.headers["x-key"] == "secret-value"
    assert call.headers["idempotency-key"] == "trace_mine/call_1"
    assert json.loads(call.body)["trace_id"] == "trace_mine"


@pytest.mark.parametrize(
    ("fault", "more", "code", "param"),
    [
        (Fault(FaultKind.STATUS, status=503), {}, "server_error", "server_url"),
        (Fault(FaultKind.STATUS, status=404), {}, "http_404", None),
        (Fault(FaultKind.SHAPELESS), {}, "invalid_reply", "server_url"),
        (None, {"arguments": "{"}, "invalid_arguments", "arguments"),
        (None, {"server_url": "http://10.1.2.3/"}, "blocked_address", "server_url"),
        (None, {"server_url": "nowhere"}, "invalid_value", "server_url"),
    ],
)
async def test_a_tool_that_fails_is_a_bad_request_that_says_how(
    client: AsyncOpenAI,
    customer: LoopbackEndpoint,
    fault: Fault | None,
    more: dict[str, Any],
    code: str,
    param: str | None,
) -> None:
    customer.endpoint.faults = FaultSequence([fault], last_stays=True)

    with pytest.raises(APIStatusError) as refused:
        await run_tool(client, customer.tool_url, **more)

    assert not isinstance(refused.value, InternalServerError | NotFoundError)
    assert (refused.value.status_code, refused.value.code, refused.value.param) == (400, code, param)


async def test_a_tools_address_has_two_names(client: AsyncOpenAI) -> None:
    path = "/fine_tuning/alpha/tool/run"
    async with LoopbackEndpoint(ScriptedEndpoint(ScriptedTools({"echo": lambda _arguments, _item: "hi"}))) as customer:
        for address in ({"url": customer.tool_url}, {"url": customer.tool_url, "server_url": None}):
            reply: Any = await client.post(path, body={"name": "echo", **address}, cast_to=object)
            assert reply["output"] == "hi"
    for address, param in (({}, "server_url"), ({"url": "http://a/", "server_url": "http://b/"}, "url")):
        with pytest.raises(BadRequestError) as raised:
            await client.post(path, body={"name": "echo", **address}, cast_to=object)
        assert raised.value.param == param
