"""Gemma 4: `<|tool_call>call:NAME{key:value,...}<tool_call|>`; keys are bare, strings stand between `<|"|>` marks."""

import json
import re
from collections.abc import Sequence

from rft.chat.argument_types import object_text
from rft.chat.json_text import read_json
from rft.chat.syntax import PlainIds, WrittenCall, WrittenTurn, unreadable
from rft.chat.thinking import ThoughtMarks
from rft.core.foreign_json import encodable
from rft.core.messages import ToolSchema

_OPEN, _CLOSE, _QUOTE = "<|tool_call>", "<tool_call|>", '<|"|>'
_THOUGHT, _THOUGHT_END = "<|channel>", "<channel|>"
_HEAD = re.compile(r"\s*call:([^\s{}\x00]+)\s*")
_KEY = re.compile(r"([^:{}\[\],]+):")
_NULL = "None"
"""As the first releases of its template print it."""


class Gemma4Syntax(PlainIds):
    """Results continue the same turn: the mark that opens them ends what the model samples."""

    name = "gemma4"
    markers = (_OPEN,)
    control_literals = (
        *(_OPEN, _CLOSE, _QUOTE, _THOUGHT, _THOUGHT_END, "<|turn>", "<turn|>", "<|think|>"),
        *("<|tool>", "<tool|>", "<|tool_response>", "<tool_response|>"),
    )
    stop_literals = ("<turn|>", "<|tool_response>")
    results_opening = "<|tool_response>"
    thought_marks = ThoughtMarks(f"{_THOUGHT}thought\n", (_THOUGHT_END,), _THOUGHT_END)
    call_shape = '`call:NAME{KEY:VALUE,...}`, each string between two `<|"|>`'

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """A block that is not a name and an object cannot be read."""
        del tools, is_thinking
        reasoning, visible = _split_thought(text)
        content, *blocks = visible.split(_OPEN)
        said, calls = [content], list[WrittenCall]()
        for block in blocks:
            body, _, after = block.partition(_CLOSE)
            calls.append(_read_call(body))
            said.append(after)
        return WrittenTurn("".join(said).strip(), tuple(calls), reasoning)


def _split_thought(text: str) -> tuple[str, str]:
    """Thoughts of the channel, without its name, and what follows; nothing follows one that never closes."""
    if not text.lstrip().startswith(_THOUGHT):
        return "", text
    thought, _, rest = text.lstrip().removeprefix(_THOUGHT).partition(_THOUGHT_END)
    return thought.removeprefix("thought").strip(), rest


def _read_call(body: str) -> WrittenCall:
    head = _HEAD.match(body)
    if head is not None:
        try:
            arguments, end = _read_value(body, head.end(), depth=0)
            if body.startswith("{", head.end()) and not body[end:].strip():
                return WrittenCall(encodable(head[1]), arguments)
        except ValueError:
            pass  # The model's mistake.
    return unreadable(body)


def _read_value(text: str, start: int, *, depth: int) -> tuple[str, int]:
    """The JSON text of the value at `start`, numbers as they were written, and its end. Raises ValueError."""
    if depth > 64:
        raise ValueError("nested too deeply")
    while text[start : start + 1].isspace():
        start += 1
    if text.startswith(_QUOTE, start):
        string, end = _read_string(text, start)
        return json.dumps(encodable(string), ensure_ascii=False), end
    if text.startswith("{", start):
        return _read_object(text, start + 1, depth)
    if text.startswith("[", start):
        return _read_list(text, start + 1, depth)
    if text.startswith(_NULL, start):
        return "null", start + len(_NULL)
    found = read_json(text, start)
    return found.text, found.end


def _read_string(text: str, start: int) -> tuple[str, int]:
    begin = start + len(_QUOTE)
    end = text.index(_QUOTE, begin)
    return text[begin:end], end + len(_QUOTE)


def _read_object(text: str, position: int, depth: int) -> tuple[str, int]:
    members: dict[str, str] = {}
    while not (end := re.compile(r"\s*\}").match(text, position)):
        quoted = re.compile(r"\s*" + re.escape(_QUOTE)).match(text, position)
        if quoted is not None:
            key, position = _read_string(text, quoted.end() - len(_QUOTE))
            position = text.index(":", position) + 1
        else:
            bare = _KEY.match(text, position)
            if bare is None or not bare[1].strip():
                raise ValueError("a key was expected")
            key, position = bare[1].strip(), bare.end()
        members[key], position = _read_value(text, position, depth=depth + 1)
        position = _skip_comma(text, position, "}")
    return object_text(members), end.end()


def _read_list(text: str, position: int, depth: int) -> tuple[str, int]:
    items: list[str] = []
    while not (end := re.compile(r"\s*\]").match(text, position)):
        item, position = _read_value(text, position, depth=depth + 1)
        items.append(item)
        position = _skip_comma(text, position, "]")
    return "[" + ", ".join(items) + "]", end.end()


def _skip_comma(text: str, position: int, closing: str) -> int:
    found = re.compile(r"\s*(,|" + re.escape(closing) + ")").match(text, position)
    if found is None:
        raise ValueError("a comma was expected")
    return found.end() if found[1] == "," else found.end() - 1
