"""Reads Hermes/Qwen tool calls: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, several per turn."""

import json
from dataclasses import dataclass
from typing import cast

from rft.core.messages import ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


def read_turn(text: str, *, call_id_prefix: str) -> tuple[str, tuple[ToolCall, ...]]:
    """Visible text outside tool calls, and the calls in order; thinking is neither.

    A block that is not exactly one JSON object with a string `name` and an object (or JSON text of one) `arguments`
    becomes a call with an empty name and the raw block as arguments. The last block may lack its closing tag.
    """
    visible = _after_thinking(text)
    pieces: list[str] = []
    calls: list[ToolCall] = []
    start = 0
    while (opened := visible.find(OPEN, start)) >= 0:
        pieces.append(visible[start:opened])
        block = _read_block(visible, opened + len(OPEN))
        calls.append(
            ToolCall(call_id=f"{call_id_prefix}{len(calls)}", name=block.name, arguments=_encodable(block.arguments))
        )
        start = block.end
    pieces.append(visible[start:])
    return "".join(pieces).strip(), tuple(calls)


def _after_thinking(text: str) -> str:
    """What follows the thinking, which may have been opened by the prompt; nothing when it never closed."""
    if text.lstrip().startswith(THINK_OPEN):
        return text.partition(THINK_CLOSE)[2]
    head, tag, rest = text.partition(THINK_CLOSE)
    return rest if tag and OPEN not in head else text


@dataclass(frozen=True, slots=True)
class _Block:
    name: str
    arguments: str
    end: int
    """Where the text after the block begins."""


def _read_block(text: str, start: int) -> _Block:
    """The block whose content begins at `start`."""
    try:
        name, arguments, stop = _read_call(text, _skip_space(text, start))
        after = _skip_space(text, stop)
        if after == len(text):
            return _Block(name, arguments, after)
        if text.startswith(CLOSE, after):
            return _Block(name, arguments, after + len(CLOSE))
    except (ValueError, RecursionError):
        pass  # The model's mistake: handed back below as a call that cannot be read.
    closed = text.find(CLOSE, start)
    reopened = text.find(OPEN, start)
    if reopened >= 0 and not 0 <= closed < reopened:
        return _Block("", text[start:reopened].strip(), reopened)
    if closed < 0:
        return _Block("", text[start:].strip(), len(text))
    return _Block("", text[start:closed].strip(), closed + len(CLOSE))


def _read_call(text: str, start: int) -> tuple[str, str, int]:
    """Name, raw arguments and end of the call object at `start`. Raises ValueError or RecursionError."""
    members, end = _members(text, start)
    if "name" not in members or "arguments" not in members:
        raise ValueError("a call needs name and arguments")
    name, arguments = members["name"], members["arguments"]
    if not isinstance(name.value, str) or not name.value or "\x00" in name.value:
        raise ValueError("name is not a string that could be a tool's")
    name.value.encode()  # A lone surrogate could never be sent.
    if isinstance(arguments.value, dict):
        return name.value, arguments.text, end
    if isinstance(arguments.value, str):
        arguments.value.encode()
        if isinstance(_DECODER.decode(arguments.value), dict):
            return name.value, arguments.value, end
    raise ValueError("arguments are not an object")


@dataclass(frozen=True, slots=True)
class _Member:
    value: object
    text: str
    """The slice the model wrote."""


def _members(text: str, start: int) -> tuple[dict[str, _Member], int]:
    """The members of the JSON object at `start` with the slice each value was written as; the last of a key wins."""
    _expect(text, start, "{")
    members: dict[str, _Member] = {}
    position = _skip_space(text, start + 1)
    while True:
        key, position = cast(tuple[object, int], _DECODER.raw_decode(text, position))
        if not isinstance(key, str):
            raise ValueError("a key is not a string")
        position = _skip_space(text, position)
        _expect(text, position, ":")
        begin = _skip_space(text, position + 1)
        value, stop = cast(tuple[object, int], _DECODER.raw_decode(text, begin))
        members[key] = _Member(value, text[begin:stop])
        position = _skip_space(text, stop)
        if text.startswith("}", position):
            return members, position + 1
        _expect(text, position, ",")
        position = _skip_space(text, position + 1)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _expect(text: str, position: int, mark: str) -> None:
    if not text.startswith(mark, position):
        raise ValueError(f"expected {mark!r} at {position}")


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()
