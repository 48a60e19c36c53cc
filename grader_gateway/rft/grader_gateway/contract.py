"""The wire between us and an endpoint grader: the `sample` it judges, and the score it answers."""

import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn, cast

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.failure import FailureCode
from rft.core.finished_trace import FinishedTrace
from rft.core.foreign_json import parse_json
from rft.core.grade import MAX_REPLY_CHARS, MAX_REQUEST_CHARS, score_problem
from rft.core.messages import Message, Role, ToolCall, ToolSchema
from rft.egress.redaction import redact
from rft.egress.reply import AttemptFailure, Reply

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EXPECTED = 'expected JSON like {"score": 0.5}'
_SHOWN_CHARS = 80


def to_wire(trace: FinishedTrace, *, item: JsonObject, trace_id: str) -> JsonObject:
    """The body of the POST."""
    return {"sample": to_sample(trace), "item": to_item(item), "trace_id": trace_id}


def to_item(item: JsonObject) -> JsonObject:
    """The row as graders of the hosted original know it: its `tools` and each message's `name` are there, or null."""
    messages = item.get("messages")
    if not isinstance(messages, list):
        return item
    named: list[JsonValue] = [{"name": None, **entry} if isinstance(entry, dict) else entry for entry in messages]
    return {"tools": None, **item, "messages": named}


def to_sample(trace: FinishedTrace) -> JsonObject:
    """The `sample` of the contract, plus `trace`: every message with tool outputs.

    `output_text` is what the model said last, empty when it ended on a tool call; `output_json` the same where JSON was
    asked for and this is what was asked for, otherwise null. `output_tools` holds all tool calls
    of the rollout; `choices[0].message.tool_calls` stays empty, as with the original, but where the `finish_reason` is
    `tool_calls`. What the model thought stands as `reasoning_content` in its messages, wherever it did. Nobody speaks
    and no reasoning is summed up here: `output_audio` and `output_reasoning_summary` are null. What of a sample from
    elsewhere is given counts as it is.
    """
    produced, text = trace.messages[trace.prompt_messages :], answer_of(trace)
    calls = produced[-1].tool_calls if produced and trace.finish_reason == "tool_calls" else ()
    message: JsonObject = {"role": "assistant", "content": text, "tool_calls": [_to_tool_call(call) for call in calls]}
    if produced and produced[-1].reasoning_content:
        message["reasoning_content"] = produced[-1].reasoning_content
    return {
        "choices": [
            {
                "index": 0,
                "finish_reason": trace.finish_reason,
                "message": message,
            }
        ],
        "finish_reason": trace.finish_reason,
        "output_text": text,
        "output_json": as_json(text) if trace.has_json else None,
        "output_tools": [_to_tool_call(call) for message in produced for call in message.tool_calls],
        "output_audio": None,
        "input_tools": [_to_tool(tool) for tool in trace.tools],
        "output_reasoning_summary": None,
        "model": trace.model,
        "trace": {
            "prompt_messages": trace.prompt_messages,
            "messages": [_to_message(message) for message in trace.messages],
        },
        **trace.given,
    }


def answer_of(trace: FinishedTrace) -> str:
    """What the model said last; empty when it ended on a tool call."""
    produced = trace.messages[trace.prompt_messages :]
    return produced[-1].content if produced and produced[-1].role is Role.ASSISTANT else ""


def shorten_outputs(body: JsonObject, *, max_chars: int) -> JsonObject:
    """The same body with tool outputs and thoughts in the trace cut to `max_chars` each, for large traces."""
    sample = cast("JsonObject", body["sample"])
    trace = cast("JsonObject", sample["trace"])
    messages = [
        _shorten(cast("JsonObject", message), max_chars) for message in cast("list[JsonValue]", trace["messages"])
    ]
    return {**body, "sample": {**sample, "trace": {**trace, "messages": messages, "is_shortened": True}}}


def without_prompt(body: JsonObject, *, max_chars: int) -> JsonObject:
    """The same body without the row's messages in the trace, which are in the `item`, too, and with the choices'
    thoughts cut, for large rows. `prompt_messages` is 0 then: what the model said begins where it says, as ever."""
    sample = cast("JsonObject", body["sample"])
    trace = cast("JsonObject", sample["trace"])
    produced = cast("list[JsonValue]", trace["messages"])[cast("int", trace["prompt_messages"]) :]
    told: JsonObject = {**trace, "prompt_messages": 0, "messages": produced, "is_shortened": True}
    choices = sample["choices"]
    if isinstance(choices, list):
        choices = [_shorten_choice(choice, max_chars) for choice in choices]
    return {**body, "sample": {**sample, "choices": choices, "trace": told}}


def shorten_messages(body: JsonObject, *, max_chars: int) -> JsonObject:
    """The same body with whatever the trace's messages say and call cut, for long answers beside large rows: the answer
    and all calls stand whole in `output_text` and `output_tools`."""
    sample = cast("JsonObject", body["sample"])
    trace = cast("JsonObject", sample["trace"])
    cut = partial(_cut, max_chars=max_chars)
    messages: list[JsonValue] = [
        _with_texts(cast("JsonObject", message), cut) for message in cast("list[JsonValue]", trace["messages"])
    ]
    return {**body, "sample": {**sample, "trace": {**trace, "messages": messages, "is_shortened": True}}}


def without_answer(body: JsonObject) -> JsonObject:
    """The same body as if the model had said nothing, and called tools without arguments: what of it is the row's, and
    what tools put out. The messages of the row are not in it any more."""
    sample = cast("JsonObject", body["sample"])
    trace = cast("JsonObject", sample["trace"])
    messages: list[JsonValue] = [_silent(message) for message in cast("list[JsonObject]", trace["messages"])]
    choices: list[JsonValue] = [
        {**choice, "message": _silent(cast("JsonObject", choice["message"]))}
        for choice in cast("list[JsonObject]", sample["choices"])
    ]
    calls: list[JsonValue] = [
        _with_arguments(call, _nothing) for call in cast("list[JsonObject]", sample["output_tools"])
    ]
    said: JsonObject = {
        "choices": choices,
        "output_text": "",
        "output_json": None,
        "output_tools": calls,
        "trace": {**trace, "messages": messages},
    }
    return {**body, "sample": {**sample, **said}}


def without_messages(body: JsonObject) -> JsonObject:
    """The same body with the conversation only counted: it is kept in the rollout's record already."""
    sample = cast("JsonObject", body["sample"])
    trace = cast("JsonObject", sample["trace"])
    count = len(cast("list[JsonValue]", trace["messages"]))
    return {**body, "sample": {**sample, "trace": {**trace, "messages": f"[{count:,} messages, see the record]"}}}


def _shorten_choice(choice: JsonValue, max_chars: int) -> JsonValue:
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return choice
    return {**choice, "message": _shorten(message, max_chars)}


def _shorten(message: JsonObject, max_chars: int) -> JsonValue:
    name = "content" if message.get("role") == Role.TOOL else "reasoning_content"
    return {**message, name: _cut(message[name], max_chars)} if name in message else message


def _silent(message: JsonObject) -> JsonObject:
    return _with_texts(message, _nothing) if message["role"] == Role.ASSISTANT else message


def _nothing(text: JsonValue) -> JsonValue:
    return "" if isinstance(text, str) else text


def _with_texts(message: JsonObject, changed: Callable[[JsonValue], JsonValue]) -> JsonObject:
    """What it says, thinks and calls changed so."""
    texts = ("content", "reasoning_content")
    told = {name: changed(value) if name in texts else value for name, value in message.items()}
    if isinstance(calls := message.get("tool_calls"), list):
        told["tool_calls"] = [_with_arguments(cast("JsonObject", call), changed) for call in calls]
    return told


def _with_arguments(call: JsonObject, changed: Callable[[JsonValue], JsonValue]) -> JsonObject:
    function = cast("JsonObject", call["function"])
    return {**call, "function": {**function, "arguments": changed(function["arguments"])}}


def _cut(value: JsonValue, max_chars: int) -> JsonValue:
    if not isinstance(value, str) or len(value) <= max_chars:
        return value
    return f"{value[:max_chars]}\n[cut: {len(value):,} characters]"


def _to_message(message: Message) -> JsonObject:
    wire: JsonObject = {"role": str(message.role), "content": message.content}
    if message.reasoning_content:
        wire["reasoning_content"] = message.reasoning_content
    if message.tool_calls:
        wire["tool_calls"] = [_to_tool_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        wire["name"] = message.name
    return wire


def _to_tool_call(call: ToolCall) -> JsonObject:
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _to_tool(tool: ToolSchema) -> JsonObject:
    function: JsonObject = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def is_document(text: str) -> bool:
    """Whether it is a JSON object or list: JSON that was meant as such, whether or not it was asked for."""
    return isinstance(as_json(text), dict | list)


def as_json(text: str) -> JsonValue:
    """What a text of the model's says where it is JSON, otherwise None."""
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return None


def read_json(text: str) -> JsonValue:
    """An answer that is JSON and nothing else. Raises ValueError, RecursionError."""
    return cast("JsonValue", json.loads(text, parse_constant=_refuse_constant, parse_float=_finite))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is too large to be told on")
    return number


def read_score(reply: Reply) -> float | AttemptFailure:
    """The finite number that a 2xx reply holds, or what is wrong in words that its author can act on."""
    body = reply.body.removeprefix(_BYTE_ORDER_MARK)
    if not body.strip():
        return _no_reply(reply, f"an empty body; {_EXPECTED}")
    try:
        parsed = parse_json(body)
    except ValueError:
        return _no_reply(reply, f"{_show(body.decode(errors='replace'), reply)}, which is not JSON; {_EXPECTED}")
    if not isinstance(parsed, dict):
        return _invalid(reply, f"{_show(parsed, reply)}; {_EXPECTED}")
    if "score" not in parsed:
        return _invalid(reply, f"an object without `score`; {_EXPECTED}")
    score = parsed["score"]
    if isinstance(score, bool) or not isinstance(score, int | float):
        return _invalid(reply, f"the score {_show(score, reply)}, which is not a number")
    number = float(score)
    problem = score_problem(number)
    return number if problem is None else _invalid(reply, f"the score {problem}")


def shown_reply(reply: Reply) -> str:
    """The body as people read it: without the secrets that the call carried, and shortened."""
    return shorten_reply(redact(reply.body.removeprefix(_BYTE_ORDER_MARK).decode(errors="replace"), reply.secrets))


def shorten_reply(text: str) -> str:
    """As much as is kept for every rollout."""
    return text if len(text) <= MAX_REPLY_CHARS else f"{text[:MAX_REPLY_CHARS]}..."


def shown_request(body: bytes, secrets: Sequence[str]) -> str:
    """The body as people read it: without these secrets, and as much of both ends as is kept for every rollout."""
    text = redact(body.decode(errors="replace"), secrets)
    if len(text) <= MAX_REQUEST_CHARS:
        return text
    half = MAX_REQUEST_CHARS // 2
    return f"{text[:half]}\n[cut: {len(text) - 2 * half:,} characters]\n{text[-half:]}"


def _no_reply(reply: Reply, problem: str) -> AttemptFailure:
    """An error page with status 200, say: whoever answered was not the grader."""
    return AttemptFailure(FailureCode.INVALID_REPLY, f"answered {problem}", status=reply.status)


def _invalid(reply: Reply, problem: str) -> AttemptFailure:
    return AttemptFailure(FailureCode.INVALID_SCORE, f"answered {problem}", status=reply.status)


def _show(value: JsonValue, reply: Reply) -> str:
    text = redact(repr(value), reply.secrets)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
