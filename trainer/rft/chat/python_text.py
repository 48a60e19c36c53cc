"""Python literals inside text, as JSON: numbers keep the digits that they were written with."""

import ast
import json
import re
import warnings

from rft.chat.json_text import object_text
from rft.core.foreign_json import encodable

_JSON_NAMES = {"true": "true", "false": "false", "null": "null"}
"""Templates print lists and objects as JSON."""
_LINE_END = re.compile(rb"\r\n|\n|\r")


def json_of_literal(written: str) -> str:
    """The JSON text of a literal. Raises ValueError, SyntaxError, RecursionError or MemoryError, as Python's parser."""
    literal = written.strip()
    return _json_of(_parsed(literal), _Source(literal))


def python_string(written: str) -> str | None:
    """What Python reads; None where it reads no string."""
    try:
        node = _parsed(written)
    except (ValueError, SyntaxError):
        return None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _parsed(written: str) -> ast.expr:
    with warnings.catch_warnings(action="ignore"):  # Of escapes that Python is going to forbid.
        return ast.parse(written, mode="eval").body


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
