"""Calls and answers as a model might write them: from a row's own texts, fit for a schema. Pure and seeded."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, floor, inf, isfinite
from random import Random
from typing import Any, TypeAlias, TypeGuard

from pydantic import JsonValue
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.messages import Role, ToolSchema
from rft.core.schema_fit import SchemaFit
from rft.core.schema_references import UnusableSchema, look_up
from rft.grader_gateway.answer_format import AnswerFormat
from rft.rollouts.rehearsal_patterns import Steps, TooMuch, UnsupportedPattern, text_matching
from rft.tool_gateway.arguments import ArgumentChecker, InvalidToolSchema

_TRIES = 8
_MAX_STEPS = 100_000
"""Of all tries of one text, about a second's: parts that refer to parts and nested arrays multiply."""
_STEPS_TO_MATCH = 10
_DEEPEST = 12
_MAX_WORDS, _MAX_PHRASE_WORDS = 400, 4
_MAX_ITEMS, _MAX_TEXT_CHARS = 1_000, 100_000
_MOST_DIGITS = 300
"""Of a number that a float can be compared with."""
_USUAL_WIDTH = 100.0
"""Of a range of numbers that is open at one end."""
_FORMATS = {
    "date": "2026-01-{:02d}", "date-time": "2026-01-{:02d}T09:30:00Z", "time": "09:{:02d}:00Z",
    "email": "person{}@example.com", "uri": "https://example.com/{}", "ipv4": "192.0.2.{}",
    "hostname": "host{}.example", "uuid": "00000000-0000-4000-8000-{:012d}",
}  # fmt: skip
_ANSWER_FIELDS = (
    "answer", "reference_answer", "reference", "expected_answer", "expected", "expected_output", "target",
    "ground_truth", "solution", "label", "output",
)  # fmt: skip


_Value: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Material:
    """What of a row arguments and answers are made of."""

    words: tuple[str, ...]
    """Of the last user message, or of the row's other texts where that has none; at least one."""
    numbers: tuple[int | float, ...]
    """Whole ones as such: identifiers have more digits than a float."""
    fields: dict[str, _Value]
    """Single values by their name in lower case, however deep they lie; the first of a name."""
    _found: dict[str, _Value | None] = field(default_factory=dict[str, "_Value | None"], compare=False, repr=False)
    """What was looked up, since one name may be asked for thousands of times in a row of thousands of fields."""

    @classmethod
    def of(cls, row: DatasetRow) -> "Material":
        """The row's own."""
        values = list(_values({key: row.item[key] for key in row.item if key not in ("messages", "tools")}, ""))
        fields: dict[str, _Value] = {}
        for name, value in values:
            if name and value != "":
                fields.setdefault(name, value)
        question = next((message.content for message in reversed(row.messages) if message.role is Role.USER), "")
        texts = " ".join(value for _, value in values if isinstance(value, str))
        words = _words(question) or _words(texts) or ["example"]
        numbers = [_read(number) for number in re.findall(r"-?\d+(?:\.\d+)?", question)]
        numbers += [value for value in fields.values() if _is_number(value)]
        return cls(tuple(words[:_MAX_WORDS]), tuple(filter(isfinite, numbers)), fields)

    def named(self, name: str) -> _Value | None:
        """The value of that name, or of one that is part of it, or that it is part of."""
        if name not in self._found:
            self._found[name] = self._look_up(name.lower())
        return self._found[name]

    def _look_up(self, wanted: str) -> _Value | None:
        exact = self.fields.get(wanted)
        if exact is not None or len(wanted) < 4:
            return exact
        return next((value for key, value in self.fields.items() if wanted in key or key in wanted), None)

    def phrase(self, rng: Random) -> str:
        """A few words in a row."""
        start = rng.randrange(len(self.words))
        return " ".join(self.words[start : start + rng.randint(1, _MAX_PHRASE_WORDS)])


def arguments_for(tool: ToolSchema, material: Material, rng: Random, checker: ArgumentChecker) -> str | None:
    """JSON text that the tool's schema accepts; None when we cannot make any."""
    try:
        return _text_for(
            {"type": "object", **tool.parameters}, material, rng, lambda text: checker.problem(tool, text) is None
        )
    except InvalidToolSchema:
        return None


def answer_for(wanted: AnswerFormat, schema: JsonObject, material: Material, rng: Random) -> str | None:
    """JSON text that answers may be; None when we cannot make any."""
    return _text_for(schema, material, rng, lambda text: wanted.problem(text) is None)


def answer_of(row: DatasetRow, material: Material, rng: Random) -> str:
    """What a model might answer: the row's reference answer where it has one, otherwise one of its words."""
    known = next((value for name in _ANSWER_FIELDS if (value := row.item.get(name)) is not None), None)
    if known is None:
        return rng.choice(material.words)
    return known if isinstance(known, str) else json.dumps(known, ensure_ascii=False)


def _text_for(schema: JsonObject, material: Material, rng: Random, is_fit: Callable[[str], bool]) -> str | None:
    steps = Steps(_MAX_STEPS)
    resolver = Registry[Any]().resolver_with_root(DRAFT202012.create_resource(schema))
    for try_number in range(_TRIES):
        is_lean = try_number >= _TRIES // 2
        draw = _Draw(rng, material, lambda reference: look_up(reference, resolver).contents, steps, is_lean)
        try:
            text = json.dumps(draw.value(schema), ensure_ascii=False)
        except TooMuch:
            return None
        except (_Impossible, OverflowError, UnusableSchema, UnsupportedPattern, InvalidToolSchema):
            continue
        if is_fit(text):
            return text
    return None


class _Impossible(Exception):
    """No value fits, or none that we know how to make."""


@dataclass(frozen=True, slots=True)
class _Draw:
    """One draw of a whole document. Every method raises _Impossible, TooMuch, or what references and patterns raise."""

    rng: Random
    material: Material
    referred: Callable[[str], Any]
    """The schema that a reference leads to."""
    steps: Steps
    is_lean: bool
    """Leave out whatever is not required."""

    def value(self, schema: JsonValue, name: str = "", depth: int = 0) -> JsonValue:
        """A value that should fit."""
        self.steps.take()
        if schema is False:
            raise _Impossible
        whole = self._whole(schema, depth) if isinstance(schema, dict) else {}
        if "const" in whole:
            return whole["const"]
        if choices := _list(whole.get("enum")):
            return self.rng.choice(choices)
        match self._kind(whole):
            case "object":
                return self._object(whole, depth)
            case "array":
                return self._array(whole, name, depth)
            case "integer":
                return int(self._number(whole, name, step=max(1, int(_float(whole.get("multipleOf"), 1)))))
            case "number":
                return self._number(whole, name, step=_float(whole.get("multipleOf"), 0.0))
            case "boolean":
                return self.rng.random() < 0.5
            case "null":
                return None
            case _:
                return self._string(whole, name)

    def _whole(self, schema: JsonObject, depth: int) -> JsonObject:
        """References followed, one branch chosen, all parts of `allOf` together."""
        if depth > _DEEPEST:
            raise _Impossible
        self.steps.take()
        whole = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf", "oneOf", "allOf")}
        parts = [self.referred(reference)] if isinstance(reference := schema.get("$ref"), str) else []
        parts += _list(schema.get("allOf"))
        for branches in filter(None, (_list(schema.get("anyOf")), _list(schema.get("oneOf")))):
            parts.append(self.rng.choice([one for one in branches if one != {"type": "null"}] or branches))
        for part in parts:
            if isinstance(part, dict):
                whole = _merged(whole, self._whole(part, depth + 1))
        return whole

    def _kind(self, schema: JsonObject) -> JsonValue:
        kinds = schema.get("type")
        if isinstance(kinds, list) and kinds:
            return self.rng.choice([kind for kind in kinds if kind != "null"] or kinds)
        implied = {
            "properties": "object",
            "required": "object",
            "items": "array",
            "minimum": "number",
            "maximum": "number",
        }
        return kinds or next((kind for keyword, kind in implied.items() if keyword in schema), "string")

    def _object(self, schema: JsonObject, depth: int) -> JsonObject:
        properties = schema.get("properties")
        described = properties if isinstance(properties, dict) else {}
        required = [key for key in _list(schema.get("required")) if isinstance(key, str)]
        optional = [name for name in described if not self.is_lean and self.rng.random() < 0.5]
        names = [*(name for name in described if name in required or name in optional), *required]
        return {name: self.value(described.get(name, True), name, depth + 1) for name in dict.fromkeys(names)}

    def _array(self, schema: JsonObject, name: str, depth: int) -> list[JsonValue]:
        least = int(_float(schema.get("minItems"), 0))
        most = int(min(_float(schema.get("maxItems"), inf), max(least, 3)))
        if least > _MAX_ITEMS:
            raise _Impossible
        prefix, items = _list(schema.get("prefixItems")), schema.get("items", True)
        values: list[JsonValue] = []
        for index in range(max(len(prefix), self.rng.randint(least, max(least, most)), min(1, most))):
            for _ in range(_TRIES):
                value = self.value(prefix[index] if index < len(prefix) else items, name, depth + 1)
                if not schema.get("uniqueItems") or value not in values:
                    values.append(value)
                    break
        return values

    def _number(self, schema: JsonObject, name: str, *, step: float) -> float:
        """A multiple of `step`, or any number where that is 0."""
        gap = 1.0 if step else 1e-6
        low = max(_float(schema.get("minimum"), -inf), _float(schema.get("exclusiveMinimum"), -inf) + gap)
        high = min(_float(schema.get("maximum"), inf), _float(schema.get("exclusiveMaximum"), inf) - gap)
        value = self.material.named(name)
        known = [value] if _is_number(value) else self.material.numbers
        fitting = [number for number in known if low <= number <= high and (not step or number % step == 0)]
        if fitting and self.rng.random() < 0.7:
            return self.rng.choice(fitting)
        if low == -inf:
            low = 0.0 if high == inf else high - _USUAL_WIDTH
        high = low + _USUAL_WIDTH if high == inf else high
        if not step:
            return min(max(round(self.rng.uniform(low, high), 2), low), high)
        if floor(high / step) < ceil(low / step):
            raise _Impossible
        return self.rng.randint(ceil(low / step), floor(high / step)) * step

    def _string(self, schema: JsonObject, name: str) -> str:
        least, most = int(_float(schema.get("minLength"), 0)), _float(schema.get("maxLength"), inf)
        if least > _MAX_TEXT_CHARS:
            raise _Impossible
        value = self.material.named(name)
        own = [str(value)] if isinstance(value, str | int) and not isinstance(value, bool) else []
        if isinstance(pattern := schema.get("pattern"), str):
            texts = [text for text in (*own, *self.material.words) if least <= len(text) <= most]
            self.steps.take(_STEPS_TO_MATCH * len(texts))
            fit = _fit_of(pattern)
            fitting = [text for text in texts if fit.misfit(text) is None]
            return self.rng.choice(fitting) if fitting else text_matching(pattern, self.rng, self.steps)
        if (known := _FORMATS.get(str(schema.get("format")))) is not None:
            return known.format(self.rng.randint(1, 28))
        text = own[0] if own and self.rng.random() < 0.7 else self.material.phrase(self.rng)
        while len(text) < max(least, 1):
            self.steps.take()
            text = f"{text} {self.material.phrase(self.rng)}"
        return text if len(text) <= most else text[: int(most)].rstrip().ljust(least, "x")


@lru_cache(maxsize=64)
def _fit_of(pattern: str) -> SchemaFit:
    """Not Python's `re`: patterns and texts are a customer's. Raises InvalidToolSchema."""
    return SchemaFit.compiled({"pattern": pattern})


def _is_number(value: _Value | None) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _read(number: str) -> int | float:
    return float(number) if "." in number or len(number) > _MOST_DIGITS else int(number)


def _values(value: JsonValue, name: str) -> Iterator[tuple[str, _Value]]:
    """Every single value inside, under its name in lower case; entries of lists have none."""
    match value:
        case dict():
            for key, entry in value.items():
                yield from _values(entry, key.lower())
        case list():
            for entry in value:
                yield from _values(entry, "")
        case str() | bool():
            yield name, value
        case int() | float():
            yield name, value if abs(value) < 10**_MOST_DIGITS else inf
        case None:
            return


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_][\w'-]*", text)


def _merged(first: JsonObject, second: JsonObject) -> JsonObject:
    merged = {**first, **second}
    for key in first.keys() & second.keys() & {"properties", "$defs", "required"}:
        ours, theirs = first[key], second[key]
        if isinstance(ours, dict) and isinstance(theirs, dict):
            merged[key] = {**ours, **theirs}
        elif isinstance(ours, list) and isinstance(theirs, list):
            merged[key] = [*ours, *theirs]
    return merged


def _float(value: JsonValue, absent: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else absent


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
