"""What a sample is held to of a schema: no properties but those that it names.

A schema that does not mention others allows them, and a model that is held to it alone may go on adding some until it
is cut. What fits the closed schema fits the schema.
"""

from itertools import combinations

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.relaxed_schema import DATA
from rft.core.schema_references import MAPS, REFERENCES

_JUDGES = ({"properties", "required"}, {"allOf"}, {"anyOf"}, {"oneOf"}, *({reference} for reference in REFERENCES))
"""Keywords of one line alone say which properties an object may have, in a plain schema."""
_INTERWOVEN = frozenset(
    {
        *("not", "if", "dependentSchemas", "dependencies", "dependentRequired"),
        *("patternProperties", "unevaluatedProperties", "minProperties"),
    }
)
"""Keywords that say more of the properties which others name."""
_DEFINITIONS = "#/$defs/"


def closed(schema: JsonObject) -> JsonObject:
    """The schema itself where closing one of its objects could refuse what another part asks for. Raises
    RecursionError."""
    closed_schema = _closed(schema) if _is_plain(schema, schema) else schema
    assert isinstance(closed_schema, dict)
    return closed_schema


def _is_plain(schema: JsonValue, root: JsonObject) -> bool:
    """Whether each value is judged by one part alone."""
    if not isinstance(schema, dict):
        return True
    if "oneOf" in schema and not _are_told_apart(schema["oneOf"], root):
        return False  # A closed branch leaves room for another.
    several = schema.get("allOf")
    is_several = isinstance(several, list) and len(several) > 1
    judges = sum(not schema.keys().isdisjoint(keywords) for keywords in _JUDGES)
    if judges > 1 or _INTERWOVEN & schema.keys() or is_several:
        return False
    return all(_is_plain(part, root) for _, part in _parts(schema))


def _are_told_apart(branches: JsonValue, root: JsonObject) -> bool:
    """Whether each requires a property that has values of its own in each, as the tag of a pydantic union."""
    if not isinstance(branches, list):
        return False
    tags = [_tags(branch, root) for branch in branches]
    return bool(tags) and any(
        all(name in tag for tag in tags) and all(a[name].isdisjoint(b[name]) for a, b in combinations(tags, 2))
        for name in tags[0]
    )


def _tags(branch: JsonValue, root: JsonObject) -> dict[str, set[str]]:
    """Values of the properties that a branch requires and that have few."""
    if isinstance(branch, dict) and isinstance(reference := branch.get("$ref"), str) and len(branch) == 1:
        definitions = root.get("$defs")
        name = reference.removeprefix(_DEFINITIONS)
        branch = definitions.get(name) if isinstance(definitions, dict) and name != reference else None
    if not isinstance(branch, dict) or branch.get("type") != "object":
        return {}
    properties, required = branch.get("properties"), branch.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return {}
    return {name: values for name, part in properties.items() if name in required and (values := _values(part))}


def _values(schema: JsonValue) -> set[str]:
    """Those that a property may have, where they are few and texts."""
    if not isinstance(schema, dict):
        return set()
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    texts = {value for value in values if isinstance(value, str)} if isinstance(values, list) else set[str]()
    return texts if isinstance(values, list) and len(texts) == len(values) else set()


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
