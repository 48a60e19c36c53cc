"""LFM2: `<|tool_call_start|>[NAME(key=value, ...), ...]<|tool_call_end|>`, calls as Python would write them."""

import ast
import json
import re
import warnings
from collections.abc import Collection, Mapping, Sequence

from rft.chat.argument_types import object_text
from rft.chat.syntax import PlainIds, WrittenCall, WrittenTurn, unreadable
from rft.chat.syntaxes.blocks import Places
from rft.chat.thinking import THINK_TAGS, split_thinking
from rft.core.foreign_json import encodable
from rft.core.messages import ToolSchema

_OPEN, _CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"
_JSON_NAMES = {"true": "true", "false": "false", "null": "null"}
"""Templates print lists and objects as JSON."""
_HEAD = re.compile(r"\s*([^\s(),\[\]'\"=]+)\(\s*")
_KEY = re.compile(r"([^\s=(),]+)\s*=\s*")
_BEHIND_STRING = r"(?=\s*(?:,\s*[^\s=(),]+\s*=|\)\s*(?:,|\]|\Z)))"
_STRING_ENDS = {quote: re.compile(quote + _BEHIND_STRING) for quote in "'\""}
_UNESCAPED_ENDS = {quote: re.compile(rf"(?<!\\)(?:\\\\)*{quote}{_BEHIND_STRING}") for quote in "'\""}
_NEXT_KEY = re.compile(r"\s*,\s*([^\s=(),]+)\s*=")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BETWEEN_ARGUMENTS, _BETWEEN_CALLS = re.compile(r"\s*(,\s*|\))"), re.compile(r"\s*(,|\]\s*\Z)")


class PythonicSyntax(PlainIds):
    """Python literals; numbers keep the digits they were written with."""

    name = "lfm2"
    markers = (_OPEN,)
    control_literals = (
        *(_OPEN, _CLOSE, "<think>", "</think>", "<|tool_list_start|>", "<|tool_list_end|>"),
        *("<|tool_response_start|>", "<|tool_response_end|>"),
    )
    stop_literals = ()
    thought_marks = THINK_TAGS
    call_shape = "a list of calls with named arguments: `[NAME(KEY=VALUE, ...)]`"

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """A section that is not a list of calls with named arguments cannot be read."""
        keys = {tool.name: _keys(tool) for tool in tools}
        reasoning, visible = split_thinking(text, call_open=_OPEN, is_opened=is_thinking)
        content, *sections = visible.split(_OPEN)
        said, calls = [content], list[WrittenCall]()
        for section in sections:
            body, _, after = section.partition(_CLOSE)
            calls.extend(_read_section(body, keys))
            said.append(after)
        return WrittenTurn("".join(said).strip(), tuple(calls), reasoning)


def _keys(tool: ToolSchema) -> Collection[str] | None:
    """Those that its schema names; None where it names none."""
    properties = tool.parameters.get("properties")
    return properties if isinstance(properties, dict) and properties else None


def _read_section(text: str, keys: Mapping[str, Collection[str] | None]) -> tuple[WrittenCall, ...]:
    """All calls of a list, or one call that cannot be read."""
    try:
        return _read_calls(text.strip(), keys)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # What Python's own parser raises of bad literals.
        return (unreadable(text),)


def _read_calls(text: str, keys: Mapping[str, Collection[str] | None]) -> tuple[WrittenCall, ...]:
    """Not by Python's parser as a whole: names may hold hyphens, and templates leave quotes in strings as they are."""
    if not text.startswith("["):
        raise ValueError("not a list of calls")
    calls: list[WrittenCall] = []
    strings, position = _Strings(text), 1
    while True:
        call, position = _read_call(text, position, strings, keys)
        calls.append(call)
        between = _expect(_BETWEEN_CALLS, text, position)
        position = between.end()
        if between[1] != ",":
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
    literal = text[start:end].strip()
    return _json_of(_parsed(literal), _Source(literal)), end


class _Strings:
    """The strings of a section, some with quotes in them as they are: templates do not all escape them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = {quote: Places(pattern, text) for quote, pattern in _STRING_ENDS.items()}
        self._unescaped_ends = {quote: Places(pattern, text) for quote, pattern in _UNESCAPED_ENDS.items()}
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
        string = None if end in self._misread else _python_string(self._text[start:end])
        if string is None:
            self._misread.add(end)
            string, end = self._text[start + 1 : first[1] - 1], first[1]
            key = _NEXT_KEY.match(self._text, end)
            if keys is not None and key is not None and key[1] not in keys:
                raise ValueError("where a string ends cannot be told")
        return json.dumps(encodable(string), ensure_ascii=False), end


def _python_string(written: str) -> str | None:
    """What Python reads; None where it reads no string."""
    try:
        node = _parsed(written)
    except (ValueError, SyntaxError):
        return None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


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


def _parsed(written: str) -> ast.expr:
    with warnings.catch_warnings(action="ignore"):  # Of escapes that Python is going to forbid.
        return ast.parse(written.strip(), mode="eval").body


class _Source:
    """What nodes were read from. `ast.get_source_segment` would take the whole apart for each of them."""

    def __init__(self, text: str) -> None:
        self._bytes = text.encode()
        self._lines = [0, *(found.end() for found in _LINE_END.finditer(self._bytes))]

    def of(self, node: ast.expr) -> str:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._lines[node.lineno - 1] + node.col_offset
        return self._bytes[start : self._lines[node.end_lineno - 1] + node.end_col_offset].decode()


def _json_of(node: ast.expr, source: _Source) -> str:
    """The JSON text of a literal. Raises ValueError."""
    match node:
        case ast.Constant(value=str() as text):
            return json.dumps(encodable(text), ensure_ascii=False)
        case ast.Constant(value=bool() | None as constant):
            return json.dumps(constant)
        case (
            ast.Constant(value=int() | float())
            | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float()))
        ):
            return _number(source.of(node))
        case ast.Name(id=name) if name in _JSON_NAMES:
            return _JSON_NAMES[name]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return "[" + ", ".join(_json_of(item, source) for item in items) + "]"
        case ast.Dict(keys=keys, values=values):
            return object_text({_key(key): _json_of(value, source) for key, value in zip(keys, values, strict=True)})
        case _:
            raise ValueError("not a literal")


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError("a key is not a string")


def _number(written: str) -> str:
    """The digits as they stand, where JSON knows them; `1_000` and `0x10` it does not. Raises ValueError."""
    try:
        json.loads(written, parse_constant=_refuse)
    except ValueError:
        return json.dumps(ast.literal_eval(written), allow_nan=False)
    return written


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _expect(pattern: re.Pattern[str], text: str, position: int) -> re.Match[str]:
    found = pattern.match(text, position)
    if found is None:
        raise ValueError(f"{pattern.pattern} was expected at {position}")
    return found
