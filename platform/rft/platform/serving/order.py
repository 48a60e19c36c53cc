"""From a request's body to what the serving process is asked. Pure, but for the seed of a request that has none."""

import secrets
from collections.abc import Sequence
from typing import cast

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.dataset_fields import RowError, read_message, read_tools
from rft.core.messages import Message, Role, ToolSchema
from rft.platform.orders.response_format import to_response_format
from rft.platform.serving.refused import refused
from rft.platform.serving.schemas import ChatCompletionBody
from rft.platform.serving.tool_choice import to_chosen_tools
from rft.platform.serving.unread_fields import refuse_unread
from rft.serving_wire.records import AdapterRef, CompletionRequest

EFFORTS = {"none": "minimal", "xhigh": "high", "max": "high"}
"""Those that training does not know, as what comes nearest."""
_REFUSED = {
    "functions": "is long replaced; describe functions in 'tools'",
    "function_call": "is long replaced; use 'tool_choice'",
    "audio": "is not supported: models here write text",
    "prediction": "is not supported",
    "moderation": "is not supported",
    "web_search_options": "is not supported: models here have the tools that the request describes",
}
_OTHER_NAMES = {
    "max_output_tokens": "max_completion_tokens",
    "reasoning": "reasoning_effort",
    "instructions": "messages",
}
"""Of fields, in responses."""
_PENALTIES = ("frequency_penalty", "presence_penalty")


def to_completion_request(body: ChatCompletionBody, adapter: AdapterRef | None) -> CompletionRequest:
    """Without the token. Raises BadRequest, which names the field."""
    _refuse_what_is_not_there(body)
    tools = to_chosen_tools(body.tool_choice, _tools(body))
    stop = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    effort = body.reasoning_effort
    return CompletionRequest(
        token="",
        model=body.model,
        adapter=adapter,
        messages=read_chat(body.messages),
        tools=tools.told,
        forced_calls=tools.forced,
        n=body.n or 1,
        seed=secrets.randbits(63) if body.seed is None else body.seed % 2**63,
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        max_tokens=body.max_completion_tokens or body.max_tokens,
        stop=stop,
        reasoning_effort=None if effort is None else EFFORTS.get(effort, effort),
        response_format=to_response_format(body.response_format),
        has_parallel_calls=body.parallel_tool_calls is not False,
        is_streamed=bool(body.stream),
        has_logprobs=bool(body.logprobs),
    )


def _refuse_what_is_not_there(body: ChatCompletionBody) -> None:
    extra = body.model_extra or {}
    for name, why in _REFUSED.items():
        if extra.get(name) is not None:
            raise refused(name, why)
    for name in _PENALTIES:
        if extra.get(name):
            raise refused(name, "must be 0: log-probabilities would be those of another distribution")
    if extra.get("store"):
        raise refused("store", "must be false: completions are not stored here, so nothing would be there later")
    if extra.get("logit_bias"):
        raise refused("logit_bias", "is not supported")
    if extra.get("modalities") not in (None, ["text"]):
        raise refused("modalities", 'can only be ["text"]')
    refuse_unread(body, other_names=_OTHER_NAMES)
    if body.stream_options is not None and not body.stream:
        raise refused("stream_options", "is only allowed with 'stream'")


def _tools(body: ChatCompletionBody) -> tuple[ToolSchema, ...]:
    try:
        return read_tools({"tools": body.tools})
    except RowError as error:
        raise refused(error.path, error.reason) from error


def read_chat(raw: Sequence[JsonValue]) -> tuple[Message, ...]:
    """A request's messages. Raises BadRequest, which names the one."""
    try:
        messages = tuple(
            read_message(_as_dataset_has_it(value), f"messages[{i}]", allows_system=True) for i, value in enumerate(raw)
        )
    except RowError as error:
        raise refused(error.path, error.reason) from error
    _refuse_unanswered(messages)
    return messages


def _as_dataset_has_it(value: JsonValue) -> JsonValue:
    """An assistant's message may lack a content, and have a refusal in its place or among its parts."""
    if not isinstance(value, dict) or value.get("role") != Role.ASSISTANT:
        return value
    match value.get("content"):
        case None:
            refusal = value.get("refusal")
            return cast(JsonObject, value | {"content": refusal if isinstance(refusal, str) else ""})
        case list(parts):
            return cast(JsonObject, value | {"content": [_as_text_part(part) for part in parts]})
        case _:
            return value


def _as_text_part(part: JsonValue) -> JsonValue:
    """What a model refused is what it said."""
    match part:
        case {"type": "refusal", "refusal": str(text)}:
            return {"type": "text", "text": text}
        case _:
            return part


def _refuse_unanswered(messages: Sequence[Message]) -> None:
    """Each call is answered once, by the messages right behind it; nothing else is."""
    open_calls: dict[str, None] = {}
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        if message.role is Role.TOOL:
            if message.tool_call_id is None:
                raise refused(f"{path}.tool_call_id", "is missing; a tool message names the call it answers")
            if message.tool_call_id not in open_calls:
                why = "answers no open call of the assistant's message before it"
                raise refused(f"{path}.tool_call_id", f"{message.tool_call_id!r} {why}")
            del open_calls[message.tool_call_id]
            continue
        _refuse_open(open_calls, path)
        open_calls = dict.fromkeys(call.call_id for call in message.tool_calls)
        if len(open_calls) < len(message.tool_calls):
            raise refused(f"{path}.tool_calls", "holds two calls of one id: nobody knows which of them an answer is of")
    _refuse_open(open_calls, "messages")


def _refuse_open(open_calls: dict[str, None], path: str) -> None:
    if open_calls:
        raise refused(
            path,
            "an assistant message with 'tool_calls' must be followed by tool messages that answer each of them;"
            f" without an answer: {', '.join(open_calls)}",
        )
