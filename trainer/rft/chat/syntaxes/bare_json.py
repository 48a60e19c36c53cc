"""Llama 3 and Gemma: the turn is one JSON object `{"name": ..., "parameters": {...}}` and has no marks around it."""

import re
from collections.abc import Sequence

from rft.chat.json_text import read_members, skip_space
from rft.chat.syntax import PlainIds, WrittenCall, WrittenTurn, checked_call, unreadable
from rft.core.messages import ToolSchema

_PYTHON_TAG, _ENDS_OF_MESSAGES = "<|python_tag|>", ("<|eom_id|>", "<|eom|>")
_FENCE = "```"
"""Texts that do not end with it are not held against the pattern, which would try every line break in vain."""
CALL_BEGINNINGS = ("{", _FENCE)
"""Of a whole turn."""
_FENCED = re.compile(rf"\A{_FENCE}(?:json|tool_code|tool_call)?\s*\n(.*){_FENCE}\Z", re.DOTALL)
_BEGUN = re.compile(
    r'\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*"[^"]*"\s*,\s*"(?:parameters|arguments)"\s*:'
)
_NAME_AND = {"parameters", "arguments"}
BARE_CALL = "nothing but a JSON object with a string `name` and an object `parameters`"
"""How such a call is written, in words."""


class BareJsonSyntax(PlainIds):
    """A call is the whole turn. Several stand one after the other, with white space or `;` between them."""

    control_literals = (_PYTHON_TAG,)
    call_beginnings = CALL_BEGINNINGS
    thought_marks = None
    call_shape = BARE_CALL

    def __init__(
        self, name: str, *, markers: tuple[str, ...], stop_literals: tuple[str, ...] = (), has_tag: bool = False
    ) -> None:
        """`has_tag`: `<|python_tag|>` is a token of the family's."""
        self.name = name
        self.markers = markers
        self.stop_literals = stop_literals
        self._has_tag = has_tag

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """An answer may be JSON, too: only an object that begins with `name` and `parameters` is taken for a call.

        One that begins so and cannot be read is told to the model; so is whatever follows `<|python_tag|>`.
        """
        del tools, is_thinking
        body = body_of(text)
        if (calls := calls_of(body)) is not None:
            return WrittenTurn("", calls)
        if begins_call(body):
            return WrittenTurn("", (unreadable(body),))
        said, tag, tagged = text.partition(_PYTHON_TAG) if self._has_tag else (text, "", "")
        if not tag:
            return WrittenTurn(text.strip())
        body = body_of(tagged)
        return WrittenTurn(said.strip(), calls_of(body) or (unreadable(body),))


def body_of(text: str) -> str:
    """Without what may stand around all calls."""
    body = text.strip()
    for end in _ENDS_OF_MESSAGES:
        body = body.removesuffix(end).strip()
    fenced = _FENCED.match(body) if body.endswith(_FENCE) else None
    return body if fenced is None else fenced[1].strip()


def begins_call(body: str) -> bool:
    """Whether a turn begins as calls do."""
    return _BEGUN.match(body) is not None


def calls_of(body: str) -> tuple[WrittenCall, ...] | None:
    """Of a turn that is nothing else; None where it is."""
    try:
        return _read_calls(body)
    except (ValueError, RecursionError):
        return None


def _read_calls(text: str) -> tuple[WrittenCall, ...]:
    """All of the text. Raises ValueError or RecursionError."""
    calls: list[WrittenCall] = []
    position = 0
    while position < len(text):
        members, position = read_members(text, position)
        if not (set(members) <= {"name", "type", *_NAME_AND} and "name" in members and _NAME_AND & set(members)):
            raise ValueError("not a call")
        arguments = members["parameters"] if "parameters" in members else members["arguments"]
        calls.append(checked_call(members["name"].value, arguments))
        position = skip_space(text, position)
        if text.startswith(";", position):
            position = skip_space(text, position + 1)
    if not calls:
        raise ValueError("no call")
    return tuple(calls)
