"""JSON Schemas that say less: what depends on what is left out goes with it, so that nothing right is refused."""

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.schema_references import MAPS, REFERENCES

DATA = frozenset({"const", "default", "enum", "examples"})
"""Keywords below which no schemas stand."""
_PATTERNS = frozenset({"pattern", "patternProperties"})
_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
"""They depend on all that is beside them; and jsonschema needs the square of a value's length for them."""
_LONG_CHOICE = 200
"""Of values that are no texts."""
_CONDITION = ("if", "then", "else")


@dataclass(slots=True)
class _Reading:
    """One part of a schema, and whether it still says all that it said."""

    schema: JsonValue
    is_exact: bool = True
    loses_conditions: bool = False
    """What an `if` led to is gone, and with it what that said of a value's parts."""


def without_patterns(schema: JsonObject) -> JsonObject:
    """What a value that fits the schema fits as well: the same schema where it has no patterns. Raises RecursionError.

    Without `$schema`, too: a part that names its own dialect would be read by another validator than the whole.
    """
    return _without(_patterns, schema)


def without_long_choices(schema: JsonObject) -> JsonObject:
    """The same without each `enum` of many numbers, objects or lists. Raises RecursionError."""
    return _without(_long_choices, schema)


def has_long_choices(schema: JsonObject) -> bool:
    """Whether there is such an `enum`. Raises RecursionError."""
    return _leaves_out_any(_long_choices, schema)


def _patterns(schema: JsonObject) -> Set[str]:
    return (_PATTERNS | _UNEVALUATED) & schema.keys()


def _long_choices(schema: JsonObject) -> Set[str]:
    choices = schema.get("enum")
    is_long = isinstance(choices, list) and sum(not isinstance(choice, str) for choice in choices) > _LONG_CHOICE
    return frozenset({"enum"} if is_long else ())


_LeavesOut = Callable[[JsonObject], Set[str]]
"""Which keywords of a schema go for their own sake."""


def _without(leaves_out: _LeavesOut, schema: JsonObject) -> JsonObject:
    relaxing = _Relaxing(leaves_out, are_references_exact=not _leaves_out_any(leaves_out, schema))
    return cast(JsonObject, relaxing.read(schema).schema)


def _leaves_out_any(leaves_out: _LeavesOut, schema: JsonValue) -> bool:
    left: list[tuple[JsonValue, bool]] = [(schema, False)]
    while left:
        part, is_named = left.pop()
        if isinstance(part, list):
            left += [(one, False) for one in part]
        elif isinstance(part, dict):
            if not is_named and leaves_out(part):
                return True
            left += [
                (below, key in MAPS and not is_named) for key, below in part.items() if is_named or key not in DATA
            ]
    return False


@dataclass(frozen=True, slots=True)
class _Relaxing:
    leaves_out: _LeavesOut
    are_references_exact: bool

    def read(self, schema: JsonValue, *, is_named: bool = False) -> _Reading:
        """`is_named`: the keys are a customer's names, each of a schema."""
        if isinstance(schema, list):
            parts = [self.read(part) for part in schema]
            return _Reading(
                [part.schema for part in parts],
                all(part.is_exact for part in parts),
                any(part.loses_conditions for part in parts),
            )
        if not isinstance(schema, dict):
            return _Reading(schema)
        read: dict[str, _Reading] = {}
        for key, part in schema.items():
            if key in DATA and not is_named:
                read[key] = _Reading(part)
            elif is_named or not (key == "$schema" and isinstance(part, str)):
                read[key] = self.read(part, is_named=key in MAPS and not is_named)
        left_out: Set[str] = frozenset() if is_named else _depending(self.leaves_out(schema), read)
        leads_elsewhere = (
            not is_named and not self.are_references_exact and any(reference in read for reference in REFERENCES)
        )
        loses_conditions = (
            leads_elsewhere
            or not left_out.isdisjoint(_CONDITION)
            or any(part.loses_conditions for part in read.values())
        )
        if loses_conditions and not is_named:
            left_out |= _UNEVALUATED & read.keys()
        is_exact = not left_out and not leads_elsewhere and all(part.is_exact for part in read.values())
        kept = {key: part.schema for key, part in read.items() if key not in left_out}
        if "oneOf" in left_out:  # More branches fit than did.
            others = kept.get("allOf")
            kept["allOf"] = [*(others if isinstance(others, list) else ()), {"anyOf": read["oneOf"].schema}]
        return _Reading(kept, is_exact, loses_conditions)


def _depending(own: Set[str], read: dict[str, _Reading]) -> Set[str]:
    """The keywords that have to go with these: what may refuse more where others refuse less."""
    left_out = set(own)
    if "patternProperties" in own:  # Which properties are additional depends on it.
        left_out |= {"additionalProperties"}
    left_out |= {key for key in ("not", "oneOf") if key in read and not read[key].is_exact}
    if "contains" in read and not read["contains"].is_exact:
        left_out |= {"maxContains"}
    if "if" in read and not read["if"].is_exact:
        left_out |= set(_CONDITION)
    return left_out & read.keys()
