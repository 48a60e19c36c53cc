"""Gemma 4: `<|tool_call>call:NAME{key:value,...}<tool_call|>`; keys are bare, strings stand between `<|"|>` marks."""

import json
import re
from collections.abc import Sequence

from rft.chat.json_text import object_text, read_json
from rft.chat.syntax import PlainIds, WrittenCall, WrittenTurn
from rft.chat.syntaxes.tagged_json import raw_block
from rft.chat.thinking import ThoughtMarks
from rft.core.foreign_json import encodable
from rft.core.messages import ToolSchema

_OPEN, _CLOSE, _QUOTE = "<|tool_call>", "<tool_call|>", '<|"|>'
_THOUGHT, _THOUGHT_END = "<|channel>", "<channel|>"
_MARK = re.compile(f"{re.escape(_OPEN)}|{re.escape(_THOUGHT)}")
_BLOCK_END = re.compile(rf"\s*(?:{re.escape(_CLOSE)}|\Z)")
_HEAD = re.compile(r"\s*call:([^\s{}\x00]+)\s*")
_KEY, _COLON = re.compile(r"([^:{}\[\],]+):"), re.compile(r"\s*:")
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
    thought_marks = ThoughtMarks(f"{_THOUGHT}thought\n", (_THOUGHT_END,), _THOUGHT_END, has_several=True)
    call_shape = '`call:NAME{KEY:VALUE,...}`, each string between two `<|"|>`'

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """A block that is not a name and an object cannot be read. Thoughts may stand between what is said, too."""
        del tools
        thoughts, said, calls = list[str](), list[str](), list[WrittenCall]()
        position = 0
        if is_thinking and not text.lstrip().startswith(_THOUGHT):
            thought, position = _read_opened_thought(text)
            thoughts.append(thought)
        while (mark := _MARK.search(text, position)) is not None:
            said.append(text[position : mark.start()])
            if mark[0] == _OPEN:
                call, position = _read_block(text, mark.end())
                calls.append(call)
            else:
                thought, position = _read_thought(text, mark.end())
                thoughts.append(thought)
        said.append(text[position:])
        return WrittenTurn("".join(said).strip(), tuple(calls), "\n".join(filter(None, thoughts)))


def _read_opened_thought(text: str) -> tuple[str, int]:
    """The thought that the prompt has opened, and where what follows it begins: a call ends one that never closes."""
    if (closed := text.find(_THOUGHT_END)) >= 0:
        return text[:closed].strip(), closed + len(_THOUGHT_END)
    called = text.find(_OPEN)
    end = len(text) if called < 0 else called
    return text[:end].strip(), end


def _read_thought(text: str, start: int) -> tuple[str, int]:
    """The thought of a channel, without the channel's name, and its end; nothing follows one that never closes."""
    closed = text.find(_THOUGHT_END, start)
    thought = text[start : None if closed < 0 else closed].removeprefix("thought").strip()
    return thought, len(text) if closed < 0 else closed + len(_THOUGHT_END)


def _read_block(text: str, start: int) -> tuple[WrittenCall, int]:
    """The call of the block whose content begins at `start`, whatever its strings spell, and the block's end."""
    head = _HEAD.match(text, start)
    if head is not None and text.startswith("{", head.end()):
        try:
            arguments, end = _read_value(text, head.end(), depth=0)
        except ValueError:
            pass  # The model's mistake.
        else:
            block_end = _BLOCK_END.match(text, end)
            if block_end is not None:
                return WrittenCall(encodable(head[1]), arguments), block_end.end()
    return raw_block(text, start, _OPEN, _CLOSE)


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
            colon = _COLON.match(text, position)
            if colon is None:
                raise ValueError("a colon was expected")
            position = colon.end()
        else:
            bare = _KEY.match(text, position)
            if bare is None or not bare[1].strip() or _OPEN in bare[1] or _CLOSE in bare[1]:
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
