"""The wire between us and a tool server: what is POSTed for one call, and what comes back."""

import hashlib

from rft.core.base import JsonObject
from rft.core.failure import FailureCode
from rft.core.foreign_json import encodable, parse_json
from rft.core.messages import ToolCall
from rft.egress.reply import AttemptFailure, Reply


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
        parsed = parse_json(body)
    except ValueError:
        return None
    output = parsed.get("output") if isinstance(parsed, dict) else None
    return encodable(output) if isinstance(output, str) else None


def read_reply(reply: Reply) -> str | AttemptFailure:
    """The output of a 2xx reply, or what is wrong with it in words that its author can act on."""
    output = read_output(reply.body)
    return AttemptFailure(FailureCode.INVALID_REPLY, _message(reply), status=reply.status) if output is None else output


def _message(reply: Reply) -> str:
    if not reply.body.strip():
        return f'answered {reply.status} with an empty body; expected JSON like {{"output": "..."}}'
    try:
        parsed = parse_json(reply.body)
    except ValueError:
        kind = reply.headers.get("content-type", "no content type")
        return f'answered {kind} that is not JSON; expected JSON like {{"output": "..."}}'
    if not isinstance(parsed, dict):
        return "answered JSON that is not an object"
    if "output" not in parsed:
        return "answered JSON without `output`"
    return f"answered an `output` that is not a string but {_kind_of(parsed['output'])}"


def _kind_of(value: object) -> str:
    return type(value).__name__
