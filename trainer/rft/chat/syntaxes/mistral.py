"""Mistral: `[TOOL_CALLS][{"name": ..., "arguments": {...}, "id": ...}]`; from 2025 on `[TOOL_CALLS]NAME[ARGS]{...}`."""

import hashlib
import re
import string
from collections.abc import Iterator, Sequence

from rft.chat.json_text import read_json, skip_space
from rft.chat.named_calls import read_calls
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
    call_beginnings = ()
    answer_opening = None
    thought_marks = ThoughtMarks("[THINK]", ("[/THINK]",), "[/THINK]")
    call_shape = "the tool's name and its arguments, these as one JSON object"

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """What follows `[TOOL_CALLS]` and is neither shape cannot be read."""
        del tools, is_thinking
        thought = _THINK.match(text)
        reasoning, text = (thought[1].strip(), text[thought.end() :]) if thought else ("", text)
        content, mark, _ = text.partition(_CALLS)
        calls = tuple(_read_sections(text, len(content))) if mark else ()
        return WrittenTurn(content.strip(), calls, reasoning)

    def shown_id(self, call_id: str) -> str:
        """The id itself where it has the shape, else nine letters and digits that follow from it."""
        if _ID.fullmatch(call_id):
            return call_id
        number = int.from_bytes(hashlib.sha256(call_id.encode(errors="replace")).digest())
        return "".join(_ID_CHARACTERS[number // 62**place % 62] for place in range(9))


def _read_sections(text: str, position: int) -> Iterator[WrittenCall]:
    """From the first `[TOOL_CALLS]` on, which stands at `position`. One that an argument quotes begins no section."""
    while position != -1:
        start = position + len(_CALLS)
        try:
            calls, position = _read_section(text, start)
        except (ValueError, RecursionError):
            position = text.find(_CALLS, start)
            calls = (unreadable(text[start : None if position == -1 else position]),)
        yield from calls


def _read_section(text: str, start: int) -> tuple[tuple[WrittenCall, ...], int]:
    """Its calls, and where the next section begins; -1: it is the last. Raises ValueError or RecursionError."""
    is_list = text.startswith("[", skip_space(text, start))
    calls, end = read_calls(text, skip_space(text, start), has_ids=True) if is_list else _read_named(text, start)
    end = skip_space(text, end)
    if end == len(text):
        return calls, -1
    if not text.startswith(_CALLS, end):
        raise ValueError("calls and something else")
    return calls, end


def _read_named(text: str, start: int) -> tuple[tuple[WrittenCall, ...], int]:
    """Raises ValueError or RecursionError."""
    arguments, mark = text.index("{", start), text.find(_ARGS, start)
    named_until = mark if start <= mark < arguments else arguments
    name, _, call_id = text[start:named_until].partition(_CALL_ID)
    if _CALLS in name + call_id:
        raise ValueError("a name without arguments")
    found = read_json(text, arguments if named_until == arguments else mark + len(_ARGS))
    return (checked_call(encodable(name.strip()), found, call_id.strip() or None),), found.end
