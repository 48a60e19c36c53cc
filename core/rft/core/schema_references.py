"""Where the references of a JSON Schema lead, each followed once: before anything is held against the schema."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, cast

from pydantic import JsonValue
from referencing import Registry, Specification
from referencing.exceptions import Unresolvable

from rft.core.base import JsonObject

MAX_EXPANDED = 10_000
"""Schemas in a schema, each counted as often as references lead to it: so many a validator may have to try."""
MAX_CHAIN = 200
"""Schemas that judge one and the same value, one inside the other."""

_HERE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)  # fmt: skip
"""Keywords whose schemas judge the same value."""
_BELOW = frozenset(
    {
        "properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames", "items",
        "prefixItems", "additionalItems", "unevaluatedItems", "contains", "contentSchema",
    }
)  # fmt: skip
"""Keywords whose schemas judge parts of the value."""
_KEPT = frozenset({"$defs", "definitions"})
"""Keywords whose schemas judge nothing until a reference leads to them."""
MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"}) | _KEPT
"""Keywords whose keys are the customer's names, whatever they spell, each of a schema."""
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class _Finder(Protocol):
    def lookup(self, ref: str) -> Any: ...
    def in_subresource(self, subresource: Any) -> "_Finder": ...


class _Edge(NamedTuple):
    to: int
    is_here: bool


class UnusableSchema(ValueError):
    """What keeps a schema from being used, in words."""


@dataclass(slots=True)
class _Map:
    """Every schema of a document and which others it applies."""

    specification: Specification[Any]
    schemas: dict[int, JsonObject] = field(default_factory=dict[int, JsonObject])
    edges: dict[int, list[_Edge]] = field(default_factory=dict[int, list[_Edge]])
    strange: dict[int, JsonObject] = field(default_factory=dict[int, JsonObject])
    """What only references lead to, at places where a document need not hold schemas."""
    _waiting: list[tuple[JsonObject, _Finder]] = field(default_factory=list[tuple[JsonObject, _Finder]])

    def draw(self, root: JsonObject) -> None:
        """Raises UnusableSchema."""
        finder = Registry[Any]().resolver_with_root(self.specification.create_resource(root))
        self._meet(root, cast(_Finder, finder))
        while self._waiting:
            schema, finder = self._waiting.pop()
            if schema is not root and ("$id" in schema or "id" in schema):
                finder = finder.in_subresource(self.specification.create_resource(schema))
            self._look_into(schema, finder)
        ordinary = {id(root)}
        for schema in self.schemas.values():
            ordinary.update(id(inner) for _, inner in _parts(schema))
        self.strange = {key: schema for key, schema in self.schemas.items() if key not in ordinary}

    def _look_into(self, schema: JsonObject, finder: _Finder) -> None:
        edges = self.edges[id(schema)]
        for keyword, inner in _parts(schema):
            self._meet(inner, finder)
            if keyword not in _KEPT:
                edges.append(_Edge(id(inner), keyword in _HERE))
        for keyword in REFERENCES:
            reference = schema.get(keyword)
            if isinstance(reference, str):
                found = look_up(reference, finder)
                if isinstance(found.contents, dict):
                    self._meet(found.contents, found.resolver)
                    edges.append(_Edge(id(found.contents), True))
                elif not isinstance(found.contents, bool):
                    raise UnusableSchema(f"cannot be followed: {reference} leads to what is no schema")

    def _meet(self, schema: JsonObject, finder: _Finder) -> None:
        if id(schema) in self.schemas:
            return
        if len(self.schemas) >= MAX_EXPANDED:
            raise UnusableSchema(f"holds more than {MAX_EXPANDED:,} schemas")
        self.schemas[id(schema)] = schema
        self.edges[id(schema)] = []
        self._waiting.append((schema, finder))


class Followed(NamedTuple):
    """What a document holds."""

    schemas: list[JsonObject]
    strange: list[JsonObject]
    """Those of them at places where none need be: references lead there."""


def follow_references(root: JsonObject, specification: Specification[Any]) -> Followed:
    """All schemas of a document, each once. Raises UnusableSchema, RecursionError."""
    drawn = _Map(specification)
    drawn.draw(root)
    _refuse_long_chains(drawn.edges)
    _refuse_explosion(id(root), drawn.edges)
    return Followed(list(drawn.schemas.values()), list(drawn.strange.values()))


def _parts(schema: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Every schema directly within, with its keyword; those that are only true or false cost nothing."""
    for keyword, value in schema.items():
        if keyword in _HERE or keyword in _BELOW or keyword in _KEPT:
            for inner in _inner(keyword, value):
                if isinstance(inner, dict):
                    yield keyword, inner


def _inner(keyword: str, value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, list):
        yield from value
    elif keyword in MAPS and isinstance(value, dict):
        yield from value.values()
    else:
        yield value


def look_up(reference: str, finder: _Finder) -> Any:
    """What a reference leads to: `contents`, and the `resolver` that holds there. Raises UnusableSchema."""
    try:
        return finder.lookup(reference)
    except (Unresolvable, ValueError, TypeError, LookupError) as error:
        raise UnusableSchema(f"cannot be followed: {reference[:200]} leads nowhere within the schema") from error


def _refuse_long_chains(edges: dict[int, list[_Edge]]) -> None:
    """Raises UnusableSchema where a value would be judged for ever, or by schemas too deep within each other."""
    lengths: dict[int, int] = {}
    under_way: list[int] = []

    def length(key: int) -> int:
        if key in lengths:
            return lengths[key]
        if key in under_way:
            raise UnusableSchema("cannot be followed: a schema refers to itself without an end")
        if len(under_way) >= MAX_CHAIN:
            raise UnusableSchema("not a JSON Schema: nested too deeply")
        under_way.append(key)
        lengths[key] = 1 + max((length(edge.to) for edge in edges[key] if edge.is_here), default=0)
        under_way.pop()
        return lengths[key]

    for key in edges:
        if length(key) > MAX_CHAIN:
            raise UnusableSchema("not a JSON Schema: nested too deeply")


def _refuse_explosion(root: int, edges: dict[int, list[_Edge]]) -> None:
    """Raises UnusableSchema where references repeat schemas without measure; a recursion counts once."""
    totals: dict[int, int] = {}
    under_way: set[int] = set()

    def total(key: int) -> int:
        if key in totals:
            return totals[key]
        if key in under_way:
            return 1
        under_way.add(key)
        totals[key] = 1 + sum(total(edge.to) for edge in edges[key])
        under_way.remove(key)
        if totals[key] > MAX_EXPANDED:
            raise UnusableSchema(f"its references repeat more than {MAX_EXPANDED:,} schemas")
        return totals[key]

    total(root)
