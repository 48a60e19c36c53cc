"""What a sample is held to of a schema: no properties but those that it names.

A schema that does not mention others allows them, and a model that is held to it alone may go on adding some until it
is cut. What fits the closed schema fits the schema.
"""

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.relaxed_schema import DATA
from rft.core.schema_references import MAPS, REFERENCES

_JUDGES = ({"properties", "required"}, {"allOf"}, {"anyOf"}, *({reference} for reference in REFERENCES))
"""Keywords of one line alone say which properties an object may have, in a plain schema."""
_INTERWOVEN = frozenset(
    {
        *("oneOf", "not", "if", "dependentSchemas", "dependencies", "dependentRequired"),
        *("patternProperties", "unevaluatedProperties", "minProperties"),
    }
)
"""Keywords that say more of the properties which others name. Of `oneOf`, a closed branch leaves room for another."""


def closed(schema: JsonObject) -> JsonObject:
    """The schema itself where closing one of its objects could refuse what another part asks for. Raises
    RecursionError."""
    closed_schema = _closed(schema) if _is_plain(schema) else schema
    assert isinstance(closed_schema, dict)
    return closed_schema


def _is_plain(schema: JsonValue) -> bool:
    """Whether each value is judged by one part alone."""
    if not isinstance(schema, dict):
        return True
    several = schema.get("allOf")
    is_several = isinstance(several, list) and len(several) > 1
    judges = sum(not schema.keys().isdisjoint(keywords) for keywords in _JUDGES)
    if judges > 1 or _INTERWOVEN & schema.keys() or is_several:
        return False
    return all(_is_plain(part) for _, part in _parts(schema))


def _closed(schema: JsonValue, *, is_named: bool = False) -> JsonValue:
    """`is_named`: the keys are a customer's names, each of a schema."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    read: JsonObject = {
        key: part if key in DATA and not is_named else _closed(part, is_named=key in MAPS and not is_named)
        for key, part in schema.items()
    }
    properties, required = schema.get("properties"), schema.get("required", [])
    if is_named or not isinstance(properties, dict) or "additionalProperties" in schema:
        return read
    are_all_named = isinstance(required, list) and all(name in properties for name in required)
    return {**read, "additionalProperties": False} if are_all_named else read


def _parts(schema: JsonObject) -> list[tuple[str, JsonValue]]:
    """The schemas in a schema."""
    parts: list[tuple[str, JsonValue]] = []
    for key, below in schema.items():
        if key in MAPS and isinstance(below, dict):
            parts += below.items()
        elif key not in DATA:
            parts += [(key, part) for part in (below if isinstance(below, list) else [below])]
    return parts
