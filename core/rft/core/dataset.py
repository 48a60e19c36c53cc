"""Dataset rows: parsed, checked, immutable. Used at upload, at job start and by the command line alike."""

import json
from collections.abc import Iterable, Iterator
from typing import cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from rft.core.base import JsonObject, Record
from rft.core.messages import Message, Role, ToolCall, ToolSchema


class DatasetRow(Record):
    """One immutable task of the dataset."""

    index: int
    """Position among the file's rows, from 0."""
    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...]
    item: JsonObject
    """The whole row as the customer wrote it: what tools and graders receive as `item`."""


class RowProblem(Record):
    """One bad line and what is wrong with it."""

    line: int
    """Line number from 1."""
    path: str
    """Where in the line, e.g. `messages[0].role`; empty for the whole line."""
    reason: str

    def __str__(self) -> str:
        where = f" at {self.path}" if self.path else ""
        return f"line {self.line}{where}: {self.reason}"


class _RowError(Exception):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path, self.reason = path, reason


_JSON = TypeAdapter[JsonValue](JsonValue)


def parse_rows(lines: Iterable[bytes | str]) -> Iterator[DatasetRow | RowProblem]:
    """Each non-empty line as a row, or as the problem that keeps it from being one."""
    index = 0
    for line_number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        parsed = parse_row(line, line_number=line_number, index=index)
        index += isinstance(parsed, DatasetRow)
        yield parsed


def parse_row(line: bytes | str, *, line_number: int, index: int) -> DatasetRow | RowProblem:
    """One JSONL line as a row or a problem."""
    try:
        text = line.decode() if isinstance(line, bytes) else line
        if line_number == 1:
            text = text.removeprefix("\ufeff")  # Some editors begin a file with a byte order mark.
        item = _JSON.validate_python(json.loads(text, parse_constant=_refuse_constant))
        if not isinstance(item, dict):
            raise _RowError("", f"a row must be a JSON object, this is {_kind(item)}")
        return DatasetRow(index=index, messages=_messages(item), tools=_tools(item), item=item)
    except UnicodeDecodeError as error:
        return RowProblem(line=line_number, path="", reason=f"not UTF-8 ({error.reason} at byte {error.start})")
    except json.JSONDecodeError as error:
        return RowProblem(line=line_number, path="", reason=f"not JSON ({error.msg} at column {error.colno})")
    except RecursionError:
        return RowProblem(line=line_number, path="", reason="nested too deeply")
    except _RowError as error:
        return RowProblem(line=line_number, path=error.path, reason=error.reason)
    except ValidationError as error:
        return RowProblem(line=line_number, path="", reason=error.errors()[0]["msg"])


def _refuse_constant(name: str) -> JsonValue:
    raise _RowError("", f"{name} is not JSON")


def _kind(value: JsonValue) -> str:
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


def _messages(item: JsonObject) -> tuple[Message, ...]:
    raw = item.get("messages")
    if raw is None:
        raise _RowError("messages", "missing; every row needs a non-empty list of messages")
    if not isinstance(raw, list) or not raw:
        raise _RowError("messages", f"must be a non-empty list, this is {_kind(raw) if raw else 'empty'}")
    messages = tuple(_message(value, f"messages[{i}]") for i, value in enumerate(raw))
    if messages[-1].role not in (Role.USER, Role.DEVELOPER):
        raise _RowError(
            f"messages[{len(messages) - 1}].role", f"the last message must be from user, not {messages[-1].role}"
        )
    return messages


def _message(value: JsonValue, path: str) -> Message:
    if not isinstance(value, dict):
        raise _RowError(path, f"must be an object, this is {_kind(value)}")
    role = value.get("role")
    if role not in [r.value for r in Role]:
        raise _RowError(f"{path}.role", f"must be one of developer, user, assistant, tool; this is {role!r}")
    if role == Role.SYSTEM:
        raise _RowError(f"{path}.role", "system is not allowed in reinforcement datasets; use developer")
    name, call_id = value.get("name"), value.get("tool_call_id")
    return Message(
        role=Role(role),
        content=_text(value.get("content"), f"{path}.content", is_optional=role == Role.ASSISTANT),
        tool_calls=_tool_calls(value.get("tool_calls"), f"{path}.tool_calls"),
        tool_call_id=call_id if isinstance(call_id, str) else None,
        name=name if isinstance(name, str) else None,
    )


def _text(value: JsonValue, path: str, *, is_optional: bool) -> str:
    if isinstance(value, str):
        return value
    if value is None and is_optional:
        return ""
    if isinstance(value, list):
        return "".join(_text_part(part, f"{path}[{i}]") for i, part in enumerate(value))
    raise _RowError(path, f"must be a string or a list of text parts, this is {_kind(value)}")


def _text_part(part: JsonValue, path: str) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return cast(str, part["text"])
    raise _RowError(path, "only text parts are supported")


def _tool_calls(value: JsonValue, path: str) -> tuple[ToolCall, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _RowError(path, f"must be a list, this is {_kind(value)}")
    calls: list[ToolCall] = []
    for i, call in enumerate(value):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict):
            raise _RowError(f"{path}[{i}]", "must be an object with a function")
        name, arguments, call_id = function.get("name"), function.get("arguments"), call.get("id")
        if not isinstance(name, str) or not isinstance(arguments, str):
            raise _RowError(f"{path}[{i}].function", "needs name and arguments as strings")
        calls.append(
            ToolCall(call_id=call_id if isinstance(call_id, str) else f"call_{i}", name=name, arguments=arguments)
        )
    return tuple(calls)


def _tools(item: JsonObject) -> tuple[ToolSchema, ...]:
    raw = item.get("tools")
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise _RowError("tools", f"must be a list, this is {_kind(raw)}")
    tools = tuple(_tool(value, f"tools[{i}]") for i, value in enumerate(raw))
    names = [tool.name for tool in tools]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise _RowError(f"tools[{i}].function.name", f"{name!r} is described twice")
    return tools


def _tool(value: JsonValue, path: str) -> ToolSchema:
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(function, dict):
        raise _RowError(path, 'must look like {"type": "function", "function": {"name": ..., "parameters": ...}}')
    name, description = function.get("name"), function.get("description", "")
    parameters = function.get("parameters", {"type": "object", "properties": {}})
    if not isinstance(name, str) or not name:
        raise _RowError(f"{path}.function.name", "must be a non-empty string")
    if not isinstance(parameters, dict):
        raise _RowError(f"{path}.function.parameters", f"must be a JSON Schema object, this is {_kind(parameters)}")
    return ToolSchema(name=name, description=description if isinstance(description, str) else "", parameters=parameters)
