"""The round trip: a native call, rendered by the template and read back."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from rft.chat.errors import ChatTemplateError
from rft.chat.template_format import TemplateChatFormat
from rft.chat.template_messages import template_call, template_tool
from rft.core.base import JsonObject
from rft.core.messages import ToolCall, ToolSchema

_ARGUMENTS: tuple[JsonObject, JsonObject] = (
    {"city": "Zürich, \"Old\" 'x' {y}", "days": 3, "ratio": 1.0, "exact": True, "parts": ["a", 2], "code": "75001"},
    {"city": "two\nlines", "days": -1, "ratio": 0.5, "exact": False, "parts": [], "code": "true"},
)
_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where."},
        "days": {"type": "integer", "description": "How many."},
        "ratio": {"type": "number", "description": "How much."},
        "exact": {"type": "boolean", "description": "How."},
        "parts": {"type": "array", "items": {"type": "string"}, "description": "Which."},
        "code": {"type": "string", "description": "Digits."},
    },
    "required": ["city"],
}
_TOOLS = (
    ToolSchema(name="get_weather", description="The weather.", parameters=_PARAMETERS),
    ToolSchema(name="get-tides", description="The tides.", parameters=_PARAMETERS),
)
_QUESTION: JsonObject = {"role": "user", "content": "How will the weather be?"}


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """What the template can do, seen."""

    is_parallel: bool
    """It writes several calls into one turn."""
    lists_tools: bool
    """It tells the model of its tools."""


def prove(chat_format: TemplateChatFormat) -> RoundTrip:
    """Name and arguments of a call are read back as they were written. Raises ChatTemplateError."""
    _check(chat_format, 1)
    is_parallel = chat_format.takes_parallel_calls
    if is_parallel:
        _check(chat_format, 2)
    prompt = chat_format.tokenizer.apply_template(
        [_QUESTION], [template_tool(tool) for tool in _TOOLS], add_generation_prompt=True
    )
    return RoundTrip(is_parallel, _TOOLS[0].name in chat_format.tokenizer.decode(prompt))


def native_turn(
    chat_format: TemplateChatFormat,
    calls: Sequence[ToolCall],
    *,
    tools: Sequence[ToolSchema] = _TOOLS,
    style: JsonObject | None = None,
) -> list[int]:
    """The ids that the template writes for a turn of these calls, its stop token included where it prints one.

    `style`: what else the turn has; None for what leaves the conversation as it is. Raises ChatTemplateError.
    """
    written = [
        template_call(chat_format.syntax.shown_id(call.call_id), call.name, json.loads(call.arguments))
        for call in calls
    ]
    tokenizer, listed = chat_format.tokenizer, [template_tool(tool) for tool in tools]
    message: JsonObject = {"role": "assistant", **(style or chat_format.style), "tool_calls": [*written]}
    opened = tokenizer.apply_template([_QUESTION], listed, add_generation_prompt=True)
    called = tokenizer.apply_template([_QUESTION, message], listed, add_generation_prompt=False, own_messages=2)
    start = next((n for n, (a, b) in enumerate(zip(opened, called, strict=False)) if a != b), len(opened))
    stops = frozenset(tokenizer.stop_ids)
    end = next((end for end in range(len(called), start, -1) if called[end - 1] in stops), len(called))
    return called[start:end]


def _check(chat_format: TemplateChatFormat, count: int) -> None:
    calls = [
        ToolCall(call_id=f"call_{number}", name=tool.name, arguments=json.dumps(arguments, ensure_ascii=False))
        for number, (tool, arguments) in enumerate(zip(_TOOLS, _ARGUMENTS, strict=True))
    ][:count]
    turn = native_turn(chat_format, calls)
    read = chat_format.parse(turn, call_id_seed=0, tools=_TOOLS).tool_calls
    name, written = chat_format.syntax.name, " ".join(chat_format.tokenizer.decode(turn).split())[:200]
    if calls[0].name not in written:
        raise ChatTemplateError("the chat template drops tool calls: it has no place for `tool_calls`")
    if [(call.name, _value(call)) for call in read] != [(call.name, _value(call)) for call in calls]:
        raise ChatTemplateError(
            f"a tool call that the chat template writes is not read back by the chat format {name!r}: {written}"
        )


def _value(call: ToolCall) -> object:
    """Numbers as they are written, so that 1 and 1.0 differ."""
    return json.loads(call.arguments, parse_int=str, parse_float=str) if call.name else call.arguments
