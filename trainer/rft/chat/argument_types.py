"""Arguments of syntaxes that write strings and numbers alike: only the tool's schema tells `75001` from "75001"."""

import json
from collections.abc import Sequence

from pydantic import JsonValue

from rft.chat.json_text import read_json, skip_space
from rft.chat.python_text import json_of_literal
from rft.core.base import JsonObject
from rft.core.foreign_json import encodable
from rft.core.messages import ToolSchema

_DEEPEST = 8
"""References and unions within each other; some references lead in a circle."""
_PYTHON_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
"""As templates print them that leave it to Python."""
_NESTED = {"array", "object"}


class ArgumentTypes:
    """What the schema of one tool says of its arguments; nothing, where the tool is unknown."""

    def __init__(self, tools: Sequence[ToolSchema], name: str) -> None:
        tool = next((tool for tool in tools if tool.name == name), None)
        self._schema: JsonObject = {} if tool is None else tool.parameters
        found = self._schema.get("properties")
        self._properties: JsonObject = found if isinstance(found, dict) else {}

    def to_json(self, key: str, text: str) -> str:
        """The JSON text of an argument that was written without quotes.

        A number, a list, an object, `true` and `null` stay the slice they were written as where the schema allows
        them, and so do lists and objects that Python would read, as JSON; all other text is a string.
        """
        allowed = _types(self._properties.get(key), self._schema)
        if allowed != {"string"}:
            constant = _PYTHON_CONSTANTS.get(text.strip())
            if constant is not None and allowed is not None and _type_of(json.loads(constant)) in allowed:
                return constant
            slice = _json_slice(text) or (_python_slice(text) if allowed is not None and allowed & _NESTED else None)
            if slice is not None and (allowed is None or _fits(slice, allowed)):
                return slice
        return json.dumps(encodable(text), ensure_ascii=False)


def _json_slice(text: str) -> str | None:
    """The text without white space around it, where it is one JSON value other than a string."""
    try:
        found = read_json(text, 0)
    except (ValueError, RecursionError):
        return None
    is_whole = skip_space(text, found.end) == len(text)
    return encodable(found.text) if is_whole and not isinstance(found.value, str) else None


def _python_slice(text: str) -> str | None:
    """The JSON text of what Python would read, where that is a list or an object."""
    try:
        return json_of_literal(text) if text.lstrip()[:1] in ("[", "{") else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # What Python's own parser raises of bad literals.
        return None


def _fits(slice: str, allowed: set[str]) -> bool:
    kind = _type_of(json.loads(slice))
    return kind in allowed or (kind in ("integer", "number") and bool(allowed & {"integer", "number"}))


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "string"


def _types(schema: JsonValue, root: JsonObject, depth: int = 0) -> set[str] | None:
    """The types a schema allows; None where it says nothing of them. References lead to other parts of `root`."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return None
    match schema.get("type"):
        case str() as one:
            return {one} | ({"null"} if schema.get("nullable") is True else set())
        case list() as many:
            return {kind for kind in many if isinstance(kind, str)}
        case _:
            pass
    values = schema.get("enum")
    if isinstance(values, list):
        return {_type_of(value) for value in values}
    for key in ("anyOf", "oneOf"):
        branches = schema.get(key)
        if isinstance(branches, list):
            found = [_types(branch, root, depth + 1) for branch in branches]
            return None if None in found else {kind for kinds in found if kinds is not None for kind in kinds}
    match schema:
        case {"$ref": str() as reference}:
            return _types(_referred(reference, root), root, depth + 1)
        case {"allOf": [only]}:
            return _types(only, root, depth + 1)
        case _:
            return None


def _referred(reference: str, root: JsonObject) -> JsonValue:
    """The part that a reference such as `#/$defs/Zip` names; None where it leads elsewhere."""
    start, *names = reference.split("/")
    found: JsonValue = root if start == "#" else None
    for name in names:
        found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found
