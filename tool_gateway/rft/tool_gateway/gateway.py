"""Tool calls over HTTP: the model's mistakes are answered to the model, the endpoint's failures end the rollout."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rft.core.base import JsonObject
from rft.core.failure import NOT_FOUND_STATUSES, Failure, FailureCode, Stage
from rft.core.messages import (
    UNREADABLE_CALL_OUTPUT,
    CallMistake,
    ToolCall,
    ToolResult,
    ToolSchema,
    http_mistake,
    unknown_tool_output,
)
from rft.core.spec import ToolServer
from rft.egress.classify import status_phrase
from rft.egress.endpoint import Endpoint, public_url
from rft.egress.endpoint_client import Answer, EndpointClient, encode_json
from rft.egress.redaction import redact, redact_keys
from rft.egress.reply import AttemptFailure, Reply
from rft.tool_gateway.arguments import ArgumentChecker
from rft.tool_gateway.contract import read_output, read_reply, to_wire

_log = logging.getLogger(__name__)
_ERROR_CHARS = 4000
_SHORT_CALL_BYTES = 1_000
"""What the arguments of a call may well take."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the model reads, and whether the endpoint called it the model's mistake."""

    output: str
    error_code: str | None = None
    status: int | None = None
    suspicion: str | None = None
    """What the reply says where perhaps nothing that takes calls is behind the URL."""


class HttpToolGateway:
    """Calls the tools of one job. `headers` are the secret header values by tool name."""

    def __init__(
        self,
        client: EndpointClient,
        tools: Sequence[ToolServer],
        *,
        headers: Mapping[str, Mapping[str, str]] | None = None,
        job_id: str = "",
    ) -> None:
        self._client, self._job_id = client, job_id
        self._endpoints = {tool.name: _endpoint(tool, (headers or {}).get(tool.name, {})) for tool in tools}
        self._max_output_chars = {tool.name: tool.max_output_chars for tool in tools}
        self._checker = ArgumentChecker()

    async def call(self, call: ToolCall, *, tools: Sequence[ToolSchema], item: JsonObject, trace_id: str) -> ToolResult:
        """One call's result: an output, an error message to the model, or a failure. Raises only on cancellation."""
        try:
            return await self._call(call, tools, item, trace_id)
        except Exception as error:
            _log.exception("tool call %s of %s broke on our side", call.call_id, trace_id)
            message = f"tool {call.name!r} could not be called by us ({type(error).__name__}: {error})"
            endpoint = self._endpoints.get(call.name)
            message = redact(message, endpoint.secrets if endpoint else ())
            failure = Failure(
                stage=Stage.TOOL, code=FailureCode.INTERNAL_ERROR, message=message, endpoint=call.name, attempts=0
            )
            return ToolResult(call_id=call.call_id, name=call.name, output=None, failure=failure)

    def queued(self) -> dict[str, int]:
        """Calls that wait for their endpoint to bear them, by tool; tools behind one endpoint wait in one queue."""
        return {name: self._client.limits.queued_at(endpoint) for name, endpoint in self._endpoints.items()}

    async def _call(self, call: ToolCall, tools: Sequence[ToolSchema], item: JsonObject, trace_id: str) -> ToolResult:
        mistake = self._mistake(call, tools)
        if mistake is not None:
            return _mistaken(call, mistake)
        endpoint = self._endpoints.get(call.name)
        if endpoint is None:
            raise LookupError(f"the row describes {call.name!r}, but the job has no such tool")
        answer = await self._client.post_json(
            endpoint,
            to_wire(call, item=item, trace_id=trace_id),
            trace_id=trace_id,
            call_id=call.call_id,
            read=partial(self._read, endpoint),
            owner=self._job_id,
        )
        if isinstance(answer, Answer):
            return self._shown(call, answer, endpoint)
        return self._failed(call, answer, item=item, trace_id=trace_id)

    def _mistake(self, call: ToolCall, tools: Sequence[ToolSchema]) -> _Shown | None:
        if not call.name:
            return _Shown(UNREADABLE_CALL_OUTPUT, CallMistake.UNREADABLE_CALL)
        schema = next((tool for tool in tools if tool.name == call.name), None)
        if schema is None:
            return _Shown(unknown_tool_output(call.name, tools), CallMistake.UNKNOWN_TOOL)
        problem = self._checker.problem(schema, call.arguments)
        return None if problem is None else _Shown(f"Error: {problem}", CallMistake.INVALID_ARGUMENTS)

    def _read(self, endpoint: Endpoint, reply: Reply) -> _Shown | AttemptFailure:
        """What the model reads; a failure for what no call of the model's could have brought about."""
        refusal = self._client.http.status_failure(reply)
        if refusal is None:
            output = read_reply(reply)
            if isinstance(output, AttemptFailure):
                return output
            return _Shown(_data(output, endpoint), status=reply.status)
        code, output = http_mistake(reply.status), read_output(reply.body)
        if output is not None:
            return _Shown(_data(output, endpoint), code, reply.status)
        if refusal.code is not FailureCode.REJECTED:
            return refusal
        suspicion = refusal.message if reply.status in NOT_FOUND_STATUSES else None
        return _Shown(_error_output(reply, endpoint), code, reply.status, suspicion)

    def _shown(self, call: ToolCall, answer: Answer[_Shown], endpoint: Endpoint) -> ToolResult:
        shown = answer.value
        return ToolResult(
            call_id=call.call_id,
            name=call.name,
            output=truncate(shown.output, self._max_output_chars[call.name]),
            is_model_error=shown.error_code is not None,
            error_code=shown.error_code,
            status=shown.status,
            suspected_failure=_suspected(shown, endpoint),
            latency_s=answer.elapsed_s,
            attempts=answer.attempts,
        )

    def _failed(self, call: ToolCall, failure: Failure, *, item: JsonObject, trace_id: str) -> ToolResult:
        if failure.code is FailureCode.OVERSIZE_REPLY:
            cap = self._client.http.caps.reply_bytes
            message = f"Error: HTTP 413: the tool's reply is larger than {cap:,} bytes. Ask for less."
            return _mistaken(call, _Shown(message, CallMistake.OVERSIZE_REPLY), failure.elapsed_s, failure.attempts)
        if failure.code is FailureCode.OVERSIZE_REQUEST and self._fits_without_arguments(call, item, trace_id):
            message = "Error: HTTP 413: the arguments are too large. Send less."
            return _mistaken(call, _Shown(message, CallMistake.OVERSIZE_ARGUMENTS))
        return ToolResult(
            call_id=call.call_id,
            name=call.name,
            output=None,
            failure=failure,
            latency_s=failure.elapsed_s,
            attempts=failure.attempts,
        )

    def _fits_without_arguments(self, call: ToolCall, item: JsonObject, trace_id: str) -> bool:
        """Whether the row leaves room for a short call, so that one too large is so by what the model wrote."""
        bare = to_wire(call.model_copy(update={"arguments": ""}), item=item, trace_id=trace_id)
        return len(encode_json(bare)) + _SHORT_CALL_BYTES <= self._client.http.caps.request_bytes


def _endpoint(tool: ToolServer, headers: Mapping[str, str]) -> Endpoint:
    return Endpoint(
        name=tool.name,
        stage=Stage.TOOL,
        url=tool.server_url,
        headers=headers,
        timeout_s=tool.timeout_s,
        max_concurrency=tool.max_concurrency,
        rate_limit=tool.rate_limit,
        is_safe_to_repeat=tool.retry == "safe",
    )


def _suspected(shown: _Shown, endpoint: Endpoint) -> Failure | None:
    if shown.suspicion is None:
        return None
    message = f"{endpoint.stage} {endpoint.name!r} at {public_url(endpoint.url)} {shown.suspicion}"
    return Failure(
        stage=endpoint.stage,
        code=FailureCode.ENDPOINT_NOT_FOUND,
        message=redact(message, endpoint.secrets),
        endpoint=endpoint.name,
        status=shown.status,
    )


def _data(output: str, endpoint: Endpoint) -> str:
    """An `output` as the model reads it: it is graded and trained on, so that no word of it may go but whole keys."""
    return _storable(redact_keys(output, endpoint.keys))


def _storable(text: str) -> str:
    return text.replace("\x00", "\ufffd")


def _error_output(reply: Reply, endpoint: Endpoint) -> str:
    """What the model reads of a 4xx without an `output`; error pages like to repeat the call's secrets."""
    text = _storable(redact(reply.body.decode(errors="replace"), endpoint.secrets)).strip()
    return f"Error: HTTP {status_phrase(reply.status)}" + (f": {truncate(text, _ERROR_CHARS)}" if text else "")


def truncate(text: str, max_chars: int | None) -> str:
    """The text, or its beginning with a marker that says how much is missing."""
    if max_chars is None or len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}\n[output cut: {max_chars:,} of {len(text):,} characters shown]"


def _mistaken(call: ToolCall, shown: _Shown, latency_s: float = 0.0, attempts: int = 0) -> ToolResult:
    return ToolResult(
        call_id=call.call_id,
        name=call.name,
        output=shown.output,
        is_model_error=True,
        error_code=shown.error_code,
        latency_s=latency_s,
        attempts=attempts,
    )
