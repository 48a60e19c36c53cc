"""Tool calls over a real socket: what the model reads, and what ends the rollout.

One contract, held by both forms of the gateway: the library in the trainer's process, and the service.
"""

import inspect
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Protocol

import pytest
from pydantic import SecretStr

from rft.core.base import JsonObject
from rft.core.failure import FailureCode, Stage
from rft.core.messages import UNREADABLE_CALL_OUTPUT, ToolCall, ToolResult, ToolSchema
from rft.core.spec import RetryBudget, RunSecrets, ToolServer
from rft.egress.client import HttpClient
from rft.egress.endpoint_client import EndpointClient
from rft.egress.limits import Limits
from rft.egress.reply import SizeCaps
from rft.gateway_service.settings import ServiceSettings
from rft.gateway_service.shared_egress import SharedEgress
from rft.rollouts.gateways import ToolGateway
from rft.testing.endpoint import ScriptedEndpoint, ScriptedTools, Tool
from rft.testing.faults import Fault, FaultKind, FaultSequence
from rft.testing.loopback import LoopbackEndpoint
from rft.tool_gateway.app import create_app
from rft.tool_gateway.gateway import HttpToolGateway, truncate
from rft.tool_gateway.remote import RemoteToolGateway
from tests.shared.running_service import RunningService

ECHO = ToolSchema(
    name="echo",
    parameters={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)
HOMELESS = ToolSchema(name="homeless", parameters={})
ITEM: JsonObject = {"messages": [{"role": "user", "content": "hi"}], "company": "Zürich AG"}
TOOLS: dict[str, Tool] = {"echo": lambda arguments, item: f"{arguments['text']} of {item['company']}"}


class Scene:
    def __init__(self, endpoint: ScriptedEndpoint, gateway: ToolGateway) -> None:
        self.endpoint, self.gateway = endpoint, gateway

    async def call(self, arguments: str = '{"text": "hi"}', name: str = "echo") -> ToolResult:
        call = ToolCall(call_id="call_7", name=name, arguments=arguments)
        return await self.gateway.call(call, tools=[ECHO, HOMELESS], item=ITEM, trace_id="trace_abc")


class SetScene(Protocol):
    async def __call__(
        self, *faults: Fault, max_output_chars: int | None = None, caps: SizeCaps | None = None
    ) -> Scene: ...


BUDGET = RetryBudget(max_retries=2, first_wait_s=0.001)
SECRETS = RunSecrets(tool_headers={"echo": {"X-Key": "sesame-open"}}, gateway_token="gate-token")


async def in_process(stack: AsyncExitStack, tool: ToolServer, caps: SizeCaps | None) -> ToolGateway:
    client = EndpointClient(HttpClient(caps=caps), limits=Limits.fixed(8), retry=BUDGET)
    await stack.enter_async_context(client)
    return HttpToolGateway(client, [tool], headers=SECRETS.tool_headers)


async def behind_a_service(stack: AsyncExitStack, tool: ToolServer, caps: SizeCaps | None) -> ToolGateway:
    token = SecretStr("gate-token")
    settings = ServiceSettings(gateway_token=token, has_adaptive_limits=False, max_calls_in_flight=8)
    app = create_app(settings, shared=SharedEgress(settings, caps=caps))
    service = stack.enter_context(RunningService(app))
    remote = RemoteToolGateway.open(service.url, tools=[tool], secrets=SECRETS, job_id="ftjob-1", retry=BUDGET)
    return await stack.enter_async_context(remote)


FORMS = {"in process": in_process, "service": behind_a_service}


@pytest.fixture(params=FORMS)
async def set_scene(request: pytest.FixtureRequest) -> AsyncIterator[SetScene]:
    async with AsyncExitStack() as stack:

        async def make(*faults: Fault, max_output_chars: int | None = None, caps: SizeCaps | None = None) -> Scene:
            endpoint = ScriptedEndpoint(ScriptedTools(TOOLS), faults=FaultSequence(faults, last_stays=True))
            server = await stack.enter_async_context(LoopbackEndpoint(endpoint))
            tool = ToolServer(name="echo", server_url=server.tool_url, timeout_s=5.0, max_output_chars=max_output_chars)
            return Scene(endpoint, await FORMS[request.param](stack, tool, caps))

        yield make


@pytest.mark.parametrize("status", [200, 404])
async def test_an_output_is_data_also_where_a_key_is_a_word_of_it(status: int) -> None:
    """What the model is graded on; only keys that are nothing else are taken out."""
    body = b'{"output": "no orders of 2025; there are orders of 2024"}'
    endpoint = ScriptedEndpoint(faults=FaultSequence([Fault(FaultKind.STATUS, status=status, body=body)]))
    async with LoopbackEndpoint(endpoint) as server, EndpointClient(HttpClient(), limits=Limits.fixed(8)) as client:
        tool = ToolServer(name="echo", server_url=server.tool_url)
        gateway = HttpToolGateway(client, [tool], headers={"echo": {"X-Api-Key": "orders"}})
        result = await Scene(endpoint, gateway).call()
    assert result.output == "no orders of 2025; there are orders of 2024"


@pytest.mark.parametrize("form", [HttpToolGateway, RemoteToolGateway])
def test_it_is_what_the_agent_loop_asks_for(form: type[HttpToolGateway | RemoteToolGateway]) -> None:
    asked, offered = inspect.signature(ToolGateway.call), inspect.signature(form.call)
    assert list(asked.parameters) == list(offered.parameters)


async def test_the_protocol_is_met(set_scene: SetScene) -> None:
    gateway: ToolGateway = (await set_scene()).gateway
    assert callable(gateway.call)


async def test_a_good_call(set_scene: SetScene) -> None:
    scene = await set_scene()
    result = await scene.call()
    assert (result.output, result.failure, result.is_model_error, result.attempts) == (
        "hi of Zürich AG",
        None,
        False,
        1,
    )
    assert (result.call_id, result.name) == ("call_7", "echo")
    assert result.latency_s > 0
    [received] = scene.endpoint.calls
    body = json.loads(received.body)
    assert body.pop("id").startswith("fc_")
    assert body == {
        "type": "function_call",
        "call_id": "call_7",
        "name": "echo",
        "arguments": '{"text": "hi"}',
        "trace_id": "trace_abc",
        "item": ITEM,
    }
    assert received.headers["x-key"] == "sesame-open"
    assert received.headers["idempotency-key"] == "trace_abc/call_7"


@pytest.mark.parametrize(
    ("arguments", "name", "code", "message"),
    [
        ("{", "echo", "invalid_arguments", "not valid JSON"),
        ('{"text": 5}', "echo", "invalid_arguments", '5 is not of type "string"'),
        ("{}", "search", "unknown_tool", "There is no tool named 'search'. Tools: echo, homeless."),
        ("<tool_call>{", "", "unreadable_call", UNREADABLE_CALL_OUTPUT),
    ],
)
async def test_the_models_mistake_is_answered_without_any_http(
    set_scene: SetScene, arguments: str, name: str, code: str, message: str
) -> None:
    scene = await set_scene()
    result = await scene.call(arguments, name)
    assert (result.is_model_error, result.error_code, result.attempts) == (True, code, 0)
    assert message in (result.output or "")
    assert result.failure is None
    assert not scene.endpoint.calls


@pytest.mark.parametrize(
    ("status", "body", "output"),
    [
        (404, b'{"detail": "no such page"}', 'Error: HTTP 404 Not Found: {"detail": "no such page"}'),
        (400, b'{"output": "Error: page must be positive"}', "Error: page must be positive"),
        (422, b"", "Error: HTTP 422"),
        (418, b"\xff\x00", "Error: HTTP 418 I'm a Teapot: \ufffd\ufffd"),
        (401, b'{"output": "Error: log in first"}', "Error: log in first"),
        (403, b'{"output": ""}', ""),
        (407, b'{"output": "Error: not through here"}', "Error: not through here"),
    ],
)
async def test_a_4xx_is_shown_to_the_model(set_scene: SetScene, status: int, body: bytes, output: str) -> None:
    scene = await set_scene(Fault(FaultKind.STATUS, status=status, body=body))
    result = await scene.call()
    assert (result.is_model_error, result.error_code, result.attempts) == (True, f"http_{status}", 1)
    assert result.output is not None
    assert result.output.startswith(output)
    assert (result.failure, result.status) == (None, status)


@pytest.mark.parametrize("body", [b'{"error": "no"}', b'{"output": "no"}'])
async def test_whose_affair_a_4xx_is(set_scene: SetScene, body: bytes) -> None:
    """With an `output` it is always the model's; without one, who is not let in or finds nothing is told apart."""
    is_models = b"output" in body
    sent_again = {429} if is_models else {408, 421, 425, 429}
    attempts = {status: 3 if status in sent_again else 1 for status in range(400, 500)}
    scene = await set_scene(
        *(Fault(FaultKind.STATUS, status=status, body=body) for status in attempts for _ in range(attempts[status]))
    )
    for status, wanted in attempts.items():
        result = await scene.call()
        failure, suspected = result.failure, result.suspected_failure
        code = failure and failure.code
        told = failure or result
        assert (told.status, told.attempts) == (status, wanted)
        assert (suspected is not None) == (status in (404, 405, 410) and not is_models), status
        if status == 429:
            assert code is FailureCode.RATE_LIMITED
        elif status in (401, 403, 407) and not is_models:
            assert (status, code) == (status, FailureCode.UNAUTHORIZED)
            assert failure is not None
            assert "/tool answered" in failure.message
        elif status in sent_again:
            assert (status, code) == (status, FailureCode.SERVER_ERROR)
        else:
            assert (failure, result.error_code, result.is_model_error) == (None, f"http_{status}", True)
        if suspected is not None:
            assert (suspected.code, suspected.status) == (FailureCode.ENDPOINT_NOT_FOUND, status)
            assert f"/tool answered {status} " in suspected.message
    assert len(scene.endpoint.calls) == sum(attempts.values())


async def test_a_key_that_is_refused_is_not_repeated_in_the_failure(set_scene: SetScene) -> None:
    body = b'{"error": "bad token sesame-open"}'
    failure = (await (await set_scene(Fault(FaultKind.STATUS, status=401, body=body))).call()).failure
    assert failure is not None
    assert "bad token ***" in failure.message
    assert "sesa" not in failure.message


@pytest.mark.parametrize(
    ("status", "body", "output"),
    [
        (200, b'{"output": "you sent sesame-open"}', "you sent ***"),
        (200, b'{"output": "you sent \\u0073esame-open"}', "you sent ***"),
        (409, b'{"error": "bad token Bearer sesame-open"}', '{"error": "bad token Bearer ***"}'),
        (401, b'{"output": "bad token sesame-open"}', "bad token ***"),
        (409, b"x" * 3995 + b"sesame-open", "***"),
    ],
)
async def test_the_key_that_a_tool_repeats_is_not_shown(
    set_scene: SetScene, status: int, body: bytes, output: str
) -> None:
    result = await (await set_scene(Fault(FaultKind.STATUS, status=status, body=body))).call()
    assert result.failure is None
    assert output in (result.output or "")
    assert "sesa" not in (result.output or "")


async def test_the_key_is_blotted_out_before_the_output_is_cut(set_scene: SetScene) -> None:
    scene = await set_scene(max_output_chars=10)
    result = await scene.call('{"text": "abcd sesame-open"}')
    assert (result.output or "").startswith("abcd *** o\n[output cut: 10 of ")


@pytest.mark.parametrize("kind", [FaultKind.OVERSIZE, FaultKind.BOMB])
async def test_an_oversize_reply_is_a_413_to_the_model(set_scene: SetScene, kind: FaultKind) -> None:
    result = await (await set_scene(Fault(kind))).call()
    assert (result.is_model_error, result.error_code, result.attempts) == (True, "oversize_reply", 1)
    assert "413" in (result.output or "")
    assert result.failure is None


async def test_oversize_arguments_are_the_models_mistake_and_an_oversize_row_is_not(set_scene: SetScene) -> None:
    scene = await set_scene(caps=SizeCaps(request_bytes=2000))
    mistake = await scene.call(json.dumps({"text": "x" * 3000}))
    assert (mistake.is_model_error, mistake.error_code) == (True, "oversize_arguments")
    wide = await scene.call(json.dumps({"text": "\U0001f600" * 450}, ensure_ascii=False))
    assert (wide.is_model_error, wide.error_code) == (True, "oversize_arguments"), "bytes count, not characters"
    call = ToolCall(call_id="call_7", name="echo", arguments='{"text": ""}')
    item: JsonObject = {"company": "x" * 3000}
    result = await scene.gateway.call(call, tools=[ECHO], item=item, trace_id="trace_abc")
    assert result.failure is not None
    assert result.failure.code is FailureCode.OVERSIZE_REQUEST
    assert not scene.endpoint.calls


async def test_arguments_too_large_for_what_the_row_leaves_are_the_models_mistake(set_scene: SetScene) -> None:
    """Else whoever writes more beside a large row leaves the training, as its endpoint's failure."""
    scene = await set_scene(caps=SizeCaps(request_bytes=6000))
    call = ToolCall(call_id="call_7", name="echo", arguments=json.dumps({"text": "x" * 3000}))
    result = await scene.gateway.call(call, tools=[ECHO], item={"company": "x" * 3000}, trace_id="trace_abc")
    assert (result.error_code, result.failure) == ("oversize_arguments", None)
    assert not scene.endpoint.calls


async def test_a_soft_error_is_an_output_like_any_other(set_scene: SetScene) -> None:
    scene = await set_scene()
    scene.endpoint.tools = ScriptedTools({"echo": lambda arguments, item: str(1 / 0)})
    result = await scene.call()
    assert (result.output, result.is_model_error, result.error_code) == ("Error: division by zero", False, None)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (FaultKind.STATUS, FailureCode.SERVER_ERROR),
        (FaultKind.RESET_BEFORE_HEADERS, FailureCode.CONNECTION_RESET),
        (FaultKind.NOT_JSON, FailureCode.INVALID_REPLY),
        (FaultKind.SHAPELESS, FailureCode.INVALID_REPLY),
        (FaultKind.EMPTY_BODY, FailureCode.INVALID_REPLY),
        (FaultKind.WRONG_CONTENT_TYPE, FailureCode.INVALID_REPLY),
    ],
)
async def test_the_endpoints_failure_ends_the_rollout_after_all_retries(
    set_scene: SetScene, kind: FaultKind, code: FailureCode
) -> None:
    scene = await set_scene(Fault(kind))
    result = await scene.call()
    assert result.output is None
    assert result.failure is not None
    assert (result.failure.stage, result.failure.code, result.failure.endpoint) == (Stage.TOOL, code, "echo")
    assert result.attempts == result.failure.attempts == len(scene.endpoint.calls) == 3
    assert not result.is_model_error
    assert "sesame" not in result.failure.message


async def test_a_tool_without_a_server_is_our_mistake_and_loud(set_scene: SetScene) -> None:
    result = await (await set_scene()).call("{}", "homeless")
    assert result.failure is not None
    assert result.failure.code is FailureCode.INTERNAL_ERROR
    assert "no such tool" in result.failure.message


async def test_a_long_output_is_cut_visibly(set_scene: SetScene) -> None:
    result = await (await set_scene(max_output_chars=10)).call('{"text": "abcdefghijklmnop"}')
    assert result.output == "abcdefghij\n[output cut: 10 of 29 characters shown]"


def test_a_short_output_is_left_alone() -> None:
    assert truncate("abc", 3) == "abc"
    assert truncate("abc", None) == "abc"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"output": 5}', "an `output` that is not a string but int"),
        (b'{"result": "x"}', "JSON without `output`"),
        (b"[]", "not an object"),
        (b"hello", "text/plain that is not JSON"),
        (b"", "empty body"),
    ],
)
async def test_what_is_wrong_with_a_reply_is_said_to_its_author(set_scene: SetScene, body: bytes, message: str) -> None:
    result = await (await set_scene(Fault(FaultKind.STATUS, status=200, body=body))).call()
    assert result.failure is not None
    assert result.failure.code is FailureCode.INVALID_REPLY
    assert message in result.failure.message


@pytest.mark.parametrize(
    "body",
    [
        b'{"output": "caf\\udce9.txt"}',
        b'{"output": "caf\\udce9.txt", "\\udfff": "\\ud800"}',
        b'{"output": "caf\\udce9.txt", "deep": ' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"output": "caf\\udce9.txt", "long": [' + b"9" * 5000 + b", NaN]}",
    ],
)
@pytest.mark.parametrize("status", [200, 422])
async def test_what_is_odd_in_a_reply_keeps_nobody_from_its_output(
    set_scene: SetScene, body: bytes, status: int
) -> None:
    result = await (await set_scene(Fault(FaultKind.STATUS, status=status, body=body))).call()
    assert (result.output, result.attempts) == ("caf\ufffd.txt", 1)


async def test_a_reply_of_another_house_style_is_understood(set_scene: SetScene) -> None:
    body = b'\xef\xbb\xbf{"output": "nul\\u0000", "call_id": "x", "id": null, "extra": {"a": 1}}'
    result = await (await set_scene(Fault(FaultKind.STATUS, status=201, body=body))).call()
    assert result.output == "nul\ufffd"
