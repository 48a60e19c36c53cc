"""Mistral: `[TOOL_CALLS][{"name": ..., "arguments": {...}, "id": ...}]`; from 2025 on `[TOOL_CALLS]NAME[ARGS]{...}`."""

import hashlib
import re
import string
from collections.abc import Sequence

from rft.chat.json_text import read_json, read_members, skip_space
from rft.chat.syntax import WrittenCall, WrittenTurn, checked_call, unreadable
from rft.chat.thinking import ThoughtMarks
from rft.core.foreign_json import encodable
from rft.core.messages import ToolSchema

_CALLS, _ARGS, _CALL_ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
_THINK = re.compile(r"\A\s*\[THINK\](.*?)(?:\[/THINK\]|\Z)", re.DOTALL)
_ID = re.compile(r"[A-Za-z0-9]{9}")
_ID_CHARACTERS = string.ascii_letters + string.digits


class MistralSyntax:
    """Calls follow the text. Ids are nine letters or digits, which templates insist on."""

    name = "mistral"
    markers = (_CALLS,)
    control_literals = (
        *(_CALLS, "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
        *("[INST]", "[/INST]", _ARGS, _CALL_ID, "[TOOL_CONTENT]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
        *("[THINK]", "[/THINK]"),
    )
    stop_literals = ()
    results_opening = None
    thought_marks = ThoughtMarks("[THINK]", ("[/THINK]",), "[/THINK]")
    call_shape = "the tool's name and its arguments, these as one JSON object"

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """What follows `[TOOL_CALLS]` and is neither shape cannot be read."""
        del tools, is_thinking
        thought = _THINK.match(text)
        reasoning, text = (thought[1].strip(), text[thought.end() :]) if thought else ("", text)
        content, *sections = text.split(_CALLS)
        calls = tuple(call for section in sections for call in _read_section(section))
        return WrittenTurn(content.strip(), calls, reasoning)

    def shown_id(self, call_id: str) -> str:
        """The id itself where it has the shape, else nine letters and digits that follow from it."""
        if _ID.fullmatch(call_id):
            return call_id
        number = int.from_bytes(hashlib.sha256(call_id.encode(errors="replace")).digest())
        return "".join(_ID_CHARACTERS[number // 62**place % 62] for place in range(9))


def _read_section(text: str) -> tuple[WrittenCall, ...]:
    try:
        return _read_list(text) if text.lstrip().startswith("[") else (_read_named(text),)
    except (ValueError, RecursionError):
        return (unreadable(text),)


def _read_list(text: str) -> tuple[WrittenCall, ...]:
    """Raises ValueError or RecursionError."""
    calls: list[WrittenCall] = []
    position = skip_space(text, text.index("[") + 1)
    while not text.startswith("]", position):
        members, position = read_members(text, position)
        if "name" not in members or "arguments" not in members:
            raise ValueError("a call needs name and arguments")
        call_id = members["id"].value if "id" in members else None
        calls.append(
            checked_call(members["name"].value, members["arguments"], call_id if isinstance(call_id, str) else None)
        )
        position = skip_space(text, position)
        if text.startswith(",", position):
            position = skip_space(text, position + 1)
        elif not text.startswith("]", position):
            raise ValueError("the list of calls does not end")
    if not calls or skip_space(text, position + 1) != len(text):
        raise ValueError("not a list of calls and nothing else")
    return tuple(calls)


def _read_named(text: str) -> WrittenCall:
    """Raises ValueError or RecursionError."""
    head, mark, arguments = text.partition(_ARGS)
    if not mark:
        opened = text.index("{")
        head, arguments = text[:opened], text[opened:]
    name, _, call_id = head.partition(_CALL_ID)
    found = read_json(arguments, 0)
    if skip_space(arguments, found.end) != len(arguments):
        raise ValueError("more than one object")
    return checked_call(encodable(name.strip()), found, call_id.strip() or None)
