"""LFM2: `<|tool_call_start|>[NAME(key=value, ...), ...]<|tool_call_end|>`, calls as Python would write them; OLMo 3:
`<function_calls>`, one call a line."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rft.chat.json_text import object_text
from rft.chat.python_text import json_of_literal, python_string
from rft.chat.syntax import PlainIds, WrittenCall, WrittenTurn, unreadable
from rft.chat.syntaxes.blocks import Places
from rft.chat.thinking import THINK_CLOSE, THINK_OPEN, THINK_TAGS, split_thinking
from rft.core.foreign_json import encodable
from rft.core.messages import ToolSchema

_HEAD = re.compile(r"\s*([^\s(),\[\]'\"=]+)\(\s*")
_KEY = re.compile(r"([^\s=(),]+)\s*=\s*")
_NEXT_KEY = re.compile(r"\s*,\s*([^\s=(),]+)\s*=")
_BETWEEN_ARGUMENTS = re.compile(r"\s*(,\s*|\))")


@dataclass(frozen=True, slots=True)
class CallSequence:
    """How the calls of a section follow each other."""

    opening: str
    """Of the whole sequence."""
    between: re.Pattern[str]
    """What stands behind a call; its group is what separates it from the next one, nothing or a closing mark else."""
    separator: str
    behind_call: str
    """The same as a pattern for looking ahead."""

    @property
    def behind_string(self) -> str:
        """A pattern of what stands behind a string: the next argument, or the end of its call."""
        return rf"(?=\s*(?:,\s*[^\s=(),]+\s*=|\){self.behind_call}))"


class PythonicSyntax(PlainIds):
    """Python literals; numbers keep the digits they were written with."""

    stop_literals = ()
    thought_marks = THINK_TAGS

    def __init__(
        self, name: str, opening: str, closing: str, sequence: CallSequence, *, others: tuple[str, ...] = ()
    ) -> None:
        """`others`: what else is a control token of the family's."""
        self.name, self.markers = name, (opening,)
        self.control_literals = (opening, closing, THINK_OPEN, THINK_CLOSE, *others)
        calls = "a list of calls" if sequence.opening else "calls, one a line,"
        example = "[NAME(KEY=VALUE, ...)]" if sequence.opening else "NAME(KEY=VALUE, ...)"
        self.call_shape = f"{calls} with named arguments: `{example}`"
        self._opening, self._closing, self._sequence = opening, closing, sequence

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """A section that is not a sequence of calls with named arguments cannot be read."""
        keys = {tool.name: _keys(tool) for tool in tools}
        reasoning, visible = split_thinking(text, call_open=self._opening, is_opened=is_thinking)
        content, *sections = visible.split(self._opening)
        said, calls = [content], list[WrittenCall]()
        for section in sections:
            body, _, after = section.partition(self._closing)
            calls.extend(_read_section(body, self._sequence, keys))
            said.append(after)
        return WrittenTurn("".join(said).strip(), tuple(calls), reasoning)


def _keys(tool: ToolSchema) -> Collection[str] | None:
    """Those that its schema names; None where it names none."""
    properties = tool.parameters.get("properties")
    return properties if isinstance(properties, dict) and properties else None


def _read_section(
    text: str, sequence: CallSequence, keys: Mapping[str, Collection[str] | None]
) -> tuple[WrittenCall, ...]:
    """All calls of a sequence, or one call that cannot be read."""
    try:
        return _read_calls(text.strip(), sequence, keys)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # What Python's own parser raises of bad literals.
        return (unreadable(text),)


def _read_calls(
    text: str, sequence: CallSequence, keys: Mapping[str, Collection[str] | None]
) -> tuple[WrittenCall, ...]:
    """Not by Python's parser as a whole: names may hold hyphens, and templates leave quotes in strings as they are."""
    if not text.startswith(sequence.opening):
        raise ValueError("not a list of calls")
    calls: list[WrittenCall] = []
    strings, position = _Strings(text, sequence), len(sequence.opening)
    while True:
        call, position = _read_call(text, position, strings, keys)
        calls.append(call)
        between = _expect(sequence.between, text, position)
        position = between.end()
        if between[1] != sequence.separator:
            return tuple(calls)


def _read_call(
    text: str, position: int, strings: "_Strings", keys: Mapping[str, Collection[str] | None]
) -> tuple[WrittenCall, int]:
    head = _expect(_HEAD, text, position)
    arguments: dict[str, str] = {}
    position = head.end()
    if text.startswith(")", position):
        return WrittenCall(encodable(head[1]), "{}"), position + 1
    while True:
        key = _expect(_KEY, text, position)
        arguments[key[1]], position = _read_value(text, key.end(), strings, keys.get(head[1]))
        between = _expect(_BETWEEN_ARGUMENTS, text, position)
        position = between.end()
        if between[1] == ")":
            return WrittenCall(encodable(head[1]), object_text(arguments)), position


def _read_value(text: str, start: int, strings: "_Strings", keys: Collection[str] | None) -> tuple[str, int]:
    """The JSON text of the value at `start`, and its end. `keys`: of all arguments that the tool has."""
    if text[start : start + 1] in ("'", '"'):
        return strings.read(start, keys)
    end = _end_of_literal(text, start)
    return json_of_literal(text[start:end]), end


class _Strings:
    """The strings of a section, some with quotes in them as they are: templates do not all escape them."""

    def __init__(self, text: str, sequence: CallSequence) -> None:
        self._text = text
        behind = sequence.behind_string
        self._ends = {quote: Places(re.compile(quote + behind), text) for quote in "'\""}
        self._unescaped_ends = {quote: Places(re.compile(rf"(?<!\\)(?:\\\\)*{quote}{behind}"), text) for quote in "'\""}
        self._misread: set[int] = set()
        """Ends up to which Python reads no string: it is asked once, however many strings might end there."""

    def read(self, start: int, keys: Collection[str] | None) -> tuple[str, int]:
        """The JSON text of the string at `start`, and its end: the quote behind which the next argument or call begins.

        One that is escaped is a part of what Python reads; where that reads nothing, the characters are as they stand.
        They may be code, such as `print('a', end='')`: what begins no argument that the tool has leaves the end open.
        """
        quote = self._text[start]
        first, unescaped = (ends[quote].next(start + 1) for ends in (self._ends, self._unescaped_ends))
        if first is None:
            raise ValueError("a string does not end")
        end = first[1] if unescaped is None else unescaped[1]
        string = None if end in self._misread else python_string(self._text[start:end])
        if string is None:
            self._misread.add(end)
            string, end = self._text[start + 1 : first[1] - 1], first[1]
            key = _NEXT_KEY.match(self._text, end)
            if keys is not None and key is not None and key[1] not in keys:
                raise ValueError("where a string ends cannot be told")
        return json.dumps(encodable(string), ensure_ascii=False), end


def _end_of_literal(text: str, start: int) -> int:
    """Where a number, a constant, a list or an object ends: at the first comma or bracket outside of it."""
    depth, quote, position = 0, "", start
    while position < len(text):
        character = text[position]
        if quote:
            position += character == "\\"
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "[{(":
            depth += 1
        elif depth == 0 and character in ",)]}":
            return position
        elif character in "]})":
            depth -= 1
        position += 1
    raise ValueError("an argument does not end")


def _expect(pattern: re.Pattern[str], text: str, position: int) -> re.Match[str]:
    found = pattern.match(text, position)
    if found is None:
        raise ValueError(f"{pattern.pattern} was expected at {position}")
    return found


LFM2 = PythonicSyntax(
    "lfm2",
    "<|tool_call_start|>",
    "<|tool_call_end|>",
    CallSequence("[", re.compile(r"\s*(,|\]\s*\Z)"), ",", r"\s*(?:,|\]|\Z)"),
    others=("<|tool_list_start|>", "<|tool_list_end|>", "<|tool_response_start|>", "<|tool_response_end|>"),
)
OLMO3 = PythonicSyntax(
    "olmo3",
    "<function_calls>",
    "</function_calls>",
    CallSequence("", re.compile(r"[ \t]*(\n|\Z)\s*"), "\n", r"[ \t]*(?:\n|\Z)"),
    others=("<functions>", "</functions>"),
)
