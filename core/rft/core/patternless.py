"""JSON Schemas without their patterns: what depends on these is left out, so that nothing right is refused."""

from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue

from rft.core.base import JsonObject

_DATA = frozenset({"const", "default", "enum", "examples"})
_NAMED = frozenset({"properties", "dependentSchemas", "dependencies", "$defs", "definitions"})
"""What stands below is named by the customer, whatever it spells."""
_PATTERNS = frozenset({"pattern", "patternProperties"})
_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
"""They depend on all that is beside them; and jsonschema needs the square of a value's length for them."""
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_CONDITION = ("if", "then", "else")


@dataclass(slots=True)
class _Reading:
    """One part of a schema, and whether it still says all that it said."""

    schema: JsonValue
    is_exact: bool = True


def without_patterns(schema: JsonObject) -> JsonObject:
    """What a value that fits the schema fits as well: the same schema where it has no patterns. Raises RecursionError.

    Without `$schema`, too: a part that names its own dialect would be read by another validator than the whole.
    """
    holds_patterns = _holds_patterns(schema)
    return cast(JsonObject, _read(schema, are_references_exact=not holds_patterns).schema)


def _holds_patterns(schema: JsonValue) -> bool:
    if isinstance(schema, list):
        return any(map(_holds_patterns, schema))
    if not isinstance(schema, dict):
        return False
    return not (_PATTERNS | _UNEVALUATED).isdisjoint(schema) or any(map(_holds_patterns, schema.values()))


def _read(schema: JsonValue, *, are_references_exact: bool, is_named: bool = False) -> _Reading:
    """`is_named`: the keys are a customer's names, each of a schema."""
    if isinstance(schema, list):
        parts = [_read(part, are_references_exact=are_references_exact) for part in schema]
        return _Reading([part.schema for part in parts], all(part.is_exact for part in parts))
    if not isinstance(schema, dict):
        return _Reading(schema)
    read: dict[str, _Reading] = {}
    for key, part in schema.items():
        if key in _DATA and not is_named:
            read[key] = _Reading(part)
        elif is_named or not (key == "$schema" and isinstance(part, str)):
            is_map = key in _NAMED and not is_named
            read[key] = _read(part, are_references_exact=are_references_exact, is_named=is_map)
    left_out = set[str]() if is_named else _depending_on_patterns(read)
    is_exact = not left_out and all(part.is_exact for part in read.values())
    if not is_named and not are_references_exact:
        is_exact = is_exact and _REFERENCES.isdisjoint(read)
    kept = {key: part.schema for key, part in read.items() if key not in left_out}
    if "oneOf" in left_out:  # More branches fit than did.
        others = kept.get("allOf")
        kept["allOf"] = [*(others if isinstance(others, list) else ()), {"anyOf": read["oneOf"].schema}]
    return _Reading(kept, is_exact)


def _depending_on_patterns(read: dict[str, _Reading]) -> set[str]:
    """The keywords that have to go: patterns, and what may refuse more where others refuse less."""
    left_out = (_PATTERNS | _UNEVALUATED) & read.keys()
    if "patternProperties" in read:  # Which properties are additional depends on it.
        left_out |= {"additionalProperties"}
    left_out |= {key for key in ("not", "oneOf") if key in read and not read[key].is_exact}
    if "contains" in read and not read["contains"].is_exact:
        left_out |= {"maxContains"}
    if "if" in read and not read["if"].is_exact:
        left_out |= set(_CONDITION)
    return set(left_out & read.keys())
