"""The two keys of a dataset row that are not the customer's own: `messages` and `tools`."""

import re
from typing import cast

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.json_schema import parameters_problem
from rft.core.messages import Message, Role, ToolCall, ToolSchema

_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class RowError(Exception):
    """What keeps a line from being a row, and where in it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path, self.reason = path, reason


def kind_of(value: JsonValue) -> str:
    """A JSON value's type, in words."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return "a string"
        case bool():
            return "a boolean"
        case None:
            return "null"
        case _:
            return "a number"


def read_messages(item: JsonObject) -> tuple[Message, ...]:
    """The prompt. Raises RowError."""
    raw = item.get("messages")
    if raw is None:
        raise RowError("messages", "missing; every row needs a non-empty list of messages")
    if not isinstance(raw, list) or not raw:
        raise RowError("messages", f"must be a non-empty list, this is {kind_of(raw) if raw else 'empty'}")
    messages = tuple(read_message(value, f"messages[{i}]") for i, value in enumerate(raw))
    _refuse_stray_results(messages)
    if messages[-1].role not in (Role.USER, Role.DEVELOPER):
        raise RowError(
            f"messages[{len(messages) - 1}].role", f"the last message must be from user, not {messages[-1].role}"
        )
    return messages


def _refuse_stray_results(messages: tuple[Message, ...]) -> None:
    """A tool message answers a call that an assistant message before it made."""
    made: set[str] = set()
    for index, message in enumerate(messages):
        made.update(call.call_id for call in message.tool_calls)
        if message.role is Role.TOOL and message.tool_call_id not in made:
            path = f"messages[{index}].tool_call_id"
            if message.tool_call_id is None:
                raise RowError(path, "missing; a tool message names the call it answers")
            raise RowError(path, f"no assistant message before it made a call {message.tool_call_id!r}")


def read_message(value: JsonValue, path: str, *, allows_system: bool = False) -> Message:
    """One message. Raises RowError."""
    if not isinstance(value, dict):
        raise RowError(path, f"must be an object, this is {kind_of(value)}")
    role = value.get("role")
    if role not in [r.value for r in Role]:
        raise RowError(f"{path}.role", f"must be one of developer, user, assistant, tool; this is {role!r}")
    if role == Role.SYSTEM and not allows_system:
        raise RowError(f"{path}.role", "system is not allowed in reinforcement datasets; use developer")
    is_assistant = role == Role.ASSISTANT
    calls = _tool_calls(value.get("tool_calls"), f"{path}.tool_calls")
    if calls and not is_assistant:
        raise RowError(f"{path}.tool_calls", f"only an assistant message may hold tool calls, this is from {role}")
    return Message(
        role=Role(role),
        content=_text(value.get("content"), f"{path}.content", is_optional=is_assistant and bool(calls)),
        reasoning_content=(_optional_text(value, "reasoning_content", path) or "") if is_assistant else "",
        tool_calls=calls,
        tool_call_id=_optional_text(value, "tool_call_id", path),
        name=_optional_text(value, "name", path),
    )


def _optional_text(value: JsonObject, key: str, path: str) -> str | None:
    text = value.get(key)
    if text is not None and not isinstance(text, str):
        raise RowError(f"{path}.{key}", f"must be a string, this is {kind_of(text)}")
    return text


def _text(value: JsonValue, path: str, *, is_optional: bool) -> str:
    if isinstance(value, str):
        return value
    if value is None and is_optional:
        return ""
    if isinstance(value, list):
        return "".join(_text_part(part, f"{path}[{i}]") for i, part in enumerate(value))
    raise RowError(path, f"must be a string or a list of text parts, this is {kind_of(value)}")


def _text_part(part: JsonValue, path: str) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return cast(str, part["text"])
    raise RowError(path, "only text parts are supported")


def _tool_calls(value: JsonValue, path: str) -> tuple[ToolCall, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise RowError(path, f"must be a list, this is {kind_of(value)}")
    calls: list[ToolCall] = []
    for i, call in enumerate(value):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict):
            raise RowError(f"{path}[{i}]", "must be an object with a function")
        name, arguments = function.get("name"), function.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, str):
            raise RowError(f"{path}[{i}].function", "needs name and arguments as strings")
        call_id = _optional_text(call, "id", f"{path}[{i}]")
        calls.append(ToolCall(call_id=f"call_{i}" if call_id is None else call_id, name=name, arguments=arguments))
    return tuple(calls)


def read_tools(item: JsonObject) -> tuple[ToolSchema, ...]:
    """The tools that the row describes. Raises RowError."""
    raw = item.get("tools")
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise RowError("tools", f"must be a list, this is {kind_of(raw)}")
    tools: dict[str, ToolSchema] = {}
    for i, value in enumerate(raw):
        function, path = _function(value, f"tools[{i}]")
        tool = _tool(function, path)
        if tool.name in tools:
            raise RowError(f"{path}.name", f"{tool.name!r} is described twice")
        tools[tool.name] = tool
    return tuple(tools.values())


def _function(value: JsonValue, path: str) -> tuple[JsonObject, str]:
    """The description and where it lies: under `function`, or at the top as the Responses API has it."""
    if isinstance(value, dict):
        function = value.get("function")
        if isinstance(function, dict):
            return function, f"{path}.function"
        if function is None and "name" in value and value.get("type", "function") == "function":
            return value, path
    raise RowError(path, 'must look like {"type": "function", "function": {"name": ..., "parameters": ...}}')


def _tool(function: JsonObject, path: str) -> ToolSchema:
    name, parameters = function.get("name"), function.get("parameters")
    if parameters is None:
        parameters = _NO_PARAMETERS
    if not isinstance(name, str) or not name:
        raise RowError(f"{path}.name", "must be a non-empty string")
    if not _TOOL_NAME.fullmatch(name):
        raise RowError(f"{path}.name", f"must be 1 to 64 letters, digits, underscores and dashes; this is {name!r}")
    if not isinstance(parameters, dict):
        raise RowError(f"{path}.parameters", f"must be a JSON Schema object, this is {kind_of(parameters)}")
    problem = parameters_problem(parameters)
    if problem is not None:
        raise RowError(f"{path}.parameters", problem)
    description = _optional_text(function, "description", path)
    return ToolSchema(name=name, description=description or "", parameters=parameters)
