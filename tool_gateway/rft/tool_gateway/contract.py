"""The wire between us and a tool server: what is POSTed for one call, and what comes back."""

import hashlib
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Strict, ValidationError

from rft.core.base import JsonObject
from rft.core.failure import FailureCode
from rft.core.messages import ToolCall
from rft.egress.reply import AttemptFailure, Reply

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class FunctionCallOutput(BaseModel):
    """A tool's reply. Only `output` is essential; soft errors are outputs too (`Error: ...` with status 200)."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    output: Annotated[str, Strict()]


def to_wire(call: ToolCall, *, item: JsonObject, trace_id: str) -> JsonObject:
    """The body of the POST. `arguments` is the raw text that the model wrote."""
    return {
        "type": "function_call",
        "id": item_id(trace_id, call.call_id),
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments,
        "trace_id": trace_id,
        "item": item,
    }


def item_id(trace_id: str, call_id: str) -> str:
    """`fc_` + 32 hexadecimal digits, the same for the same call."""
    return "fc_" + hashlib.sha256(f"{trace_id}/{call_id}".encode()).hexdigest()[:32]


def read_output(body: bytes) -> str | None:
    """The `output` of a reply's body, or None when the body has another shape."""
    try:
        return FunctionCallOutput.model_validate_json(body.removeprefix(_BYTE_ORDER_MARK)).output
    except ValidationError:
        return None


def read_reply(reply: Reply) -> str | AttemptFailure:
    """The output of a 2xx reply, or what is wrong with it in words that its author can act on."""
    try:
        return FunctionCallOutput.model_validate_json(reply.body.removeprefix(_BYTE_ORDER_MARK)).output
    except ValidationError as error:
        return AttemptFailure(FailureCode.INVALID_REPLY, _message(reply, error), status=reply.status)


def _message(reply: Reply, error: ValidationError) -> str:
    if not reply.body.strip():
        return f'answered {reply.status} with an empty body; expected JSON like {{"output": "..."}}'
    first = error.errors(include_url=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        kind = reply.headers.get("content-type", "no content type")
        return f'answered {kind} that is not JSON; expected JSON like {{"output": "..."}}'
    if first["loc"] == ("output",) and first["type"] == "missing":
        return "answered JSON without `output`"
    if first["loc"] == ("output",):
        return f"answered an `output` that is not a string but {type(first['input']).__name__}"
    return "answered JSON that is not an object"
