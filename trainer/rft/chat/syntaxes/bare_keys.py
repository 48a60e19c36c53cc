"""Gemma's calls: `call:NAME{key:value,...}` between marks; keys are bare, strings stand between marks of their own."""

import json
import re
from collections.abc import Sequence

from rft.chat.json_text import object_text, read_json
from rft.chat.syntax import PlainIds, WrittenCall, WrittenTurn
from rft.chat.syntaxes.tagged_json import raw_block
from rft.chat.thinking import ThoughtMarks
from rft.core.foreign_json import encodable
from rft.core.messages import ToolSchema

_HEAD = re.compile(r"\s*call:([^\s{}\x00]+)\s*")
_KEY, _COLON = re.compile(r"([^:{}\[\],]+):"), re.compile(r"\s*:")
_ENDS = {closing: re.compile(r"\s*" + re.escape(closing)) for closing in "]}"}
_BETWEEN = {closing: re.compile(r"\s*(,|" + re.escape(closing) + ")") for closing in "]}"}
_NULL = "None"
"""As the first releases of its templates print it."""


class BareKeysSyntax(PlainIds):
    """Results continue the same turn: the mark that opens them ends what the model samples."""

    def __init__(
        self,
        name: str,
        *,
        call: tuple[str, str],
        quote: str,
        turn_end: str,
        results: tuple[str, str],
        channel: tuple[str, str] | None = None,
        others: tuple[str, ...] = (),
    ) -> None:
        """Marks: around a call, around a string, at a turn's end, around results, around thoughts; `others`: further
        literals with a meaning."""
        self.name = name
        self._opening, self._closing = call
        self.markers = (self._opening,)
        self.control_literals = (*call, quote, turn_end, *results, *(channel or ()), *others)
        self.stop_literals = (turn_end, results[0])
        self.results_opening = results[0]
        self.thought_marks = channel and ThoughtMarks(
            f"{channel[0]}thought\n", channel[1:], channel[1], has_several=True
        )
        self.call_shape = f"`call:NAME{{KEY:VALUE,...}}`, each string between two `{quote}`"
        self._channel = channel
        marks = (self._opening, *(channel or ())[:1])
        self._mark = re.compile("|".join(map(re.escape, marks)))
        self._block_end = re.compile(rf"\s*(?:{re.escape(self._closing)}|\Z)")
        self._values = _Values(quote, call)

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """A block that is not a name and an object cannot be read. Thoughts may stand between what is said, too."""
        del tools
        thoughts, said, calls = list[str](), list[str](), list[WrittenCall]()
        position = 0
        if self._channel is not None and is_thinking and not text.lstrip().startswith(self._channel[0]):
            thought, position = self._read_opened_thought(text, self._channel[1])
            thoughts.append(thought)
        while (mark := self._mark.search(text, position)) is not None:
            said.append(text[position : mark.start()])
            if mark[0] == self._opening:
                call, position = self._read_block(text, mark.end())
                calls.append(call)
            else:
                assert self._channel is not None
                thought, position = _read_thought(text, mark.end(), self._channel[1])
                thoughts.append(thought)
        said.append(text[position:])
        return WrittenTurn("".join(said).strip(), tuple(calls), "\n".join(filter(None, thoughts)))

    def _read_opened_thought(self, text: str, closing: str) -> tuple[str, int]:
        """The thought that the prompt has opened, and where what follows begins: a call ends one that never closes."""
        if (closed := text.find(closing)) >= 0:
            return text[:closed].strip(), closed + len(closing)
        called = text.find(self._opening)
        end = len(text) if called < 0 else called
        return text[:end].strip(), end

    def _read_block(self, text: str, start: int) -> tuple[WrittenCall, int]:
        """The call of the block whose content begins at `start`, whatever its strings spell, and the block's end."""
        head = _HEAD.match(text, start)
        if head is not None and text.startswith("{", head.end()):
            try:
                arguments, end = self._values.read(text, head.end())
            except ValueError:
                pass  # The model's mistake.
            else:
                block_end = self._block_end.match(text, end)
                if block_end is not None:
                    return WrittenCall(encodable(head[1]), arguments), block_end.end()
        return raw_block(text, start, self._opening, self._closing)


def _read_thought(text: str, start: int, closing: str) -> tuple[str, int]:
    """The thought of a channel, without the channel's name, and its end; nothing follows one that never closes."""
    closed = text.find(closing, start)
    thought = text[start : None if closed < 0 else closed].removeprefix("thought").strip()
    return thought, len(text) if closed < 0 else closed + len(closing)


class _Values:
    """Reads values as JSON text, numbers as they were written."""

    def __init__(self, quote: str, not_in_keys: tuple[str, ...]) -> None:
        self._quote, self._not_in_keys = quote, not_in_keys
        self._quoted = re.compile(r"\s*" + re.escape(quote))

    def read(self, text: str, start: int, depth: int = 0) -> tuple[str, int]:
        """The value at `start`, and its end. Raises ValueError."""
        if depth > 64:
            raise ValueError("nested too deeply")
        while text[start : start + 1].isspace():
            start += 1
        if text.startswith(self._quote, start):
            string, end = self._read_string(text, start)
            return json.dumps(encodable(string), ensure_ascii=False), end
        if text.startswith("{", start):
            return self._read_object(text, start + 1, depth)
        if text.startswith("[", start):
            return self._read_list(text, start + 1, depth)
        if text.startswith(_NULL, start):
            return "null", start + len(_NULL)
        found = read_json(text, start)
        return found.text, found.end

    def _read_string(self, text: str, start: int) -> tuple[str, int]:
        begin = start + len(self._quote)
        end = text.index(self._quote, begin)
        return text[begin:end], end + len(self._quote)

    def _read_object(self, text: str, position: int, depth: int) -> tuple[str, int]:
        members: dict[str, str] = {}
        while not (end := _ENDS["}"].match(text, position)):
            key, position = self._read_key(text, position)
            members[key], position = self.read(text, position, depth + 1)
            position = _skip_comma(text, position, "}")
        return object_text(members), end.end()

    def _read_key(self, text: str, position: int) -> tuple[str, int]:
        """A key, bare or quoted, and where its value begins."""
        quoted = self._quoted.match(text, position)
        if quoted is not None:
            key, end = self._read_string(text, quoted.end() - len(self._quote))
            colon = _COLON.match(text, end)
            if colon is None:
                raise ValueError("a colon was expected")
            return key, colon.end()
        bare = _KEY.match(text, position)
        if bare is None or not bare[1].strip() or any(mark in bare[1] for mark in self._not_in_keys):
            raise ValueError("a key was expected")
        return bare[1].strip(), bare.end()

    def _read_list(self, text: str, position: int, depth: int) -> tuple[str, int]:
        items: list[str] = []
        while not (end := _ENDS["]"].match(text, position)):
            item, position = self.read(text, position, depth + 1)
            items.append(item)
            position = _skip_comma(text, position, "]")
        return "[" + ", ".join(items) + "]", end.end()


def _skip_comma(text: str, position: int, closing: str) -> int:
    found = _BETWEEN[closing].match(text, position)
    if found is None:
        raise ValueError("a comma was expected")
    return found.end() if found[1] == "," else found.end() - 1


GEMMA_4 = BareKeysSyntax(
    "gemma4",
    call=("<|tool_call>", "<tool_call|>"),
    quote='<|"|>',
    turn_end="<turn|>",
    results=("<|tool_response>", "<tool_response|>"),
    channel=("<|channel>", "<channel|>"),
    others=("<|turn>", "<|think|>", "<|tool>", "<tool|>"),
)
FUNCTION_GEMMA = BareKeysSyntax(
    "function_gemma",
    call=("<start_function_call>", "<end_function_call>"),
    quote="<escape>",
    turn_end="<end_of_turn>",
    results=("<start_function_response>", "<end_function_response>"),
    others=("<start_function_declaration>", "<end_function_declaration>"),
)
