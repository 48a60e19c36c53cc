"""Calls and answers as a model might write them: from a row's own texts, fit for a schema. Pure and seeded."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite
from random import Random

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.messages import Role, ToolSchema
from rft.grader_gateway.answer_format import AnswerFormat
from rft.rollouts.rehearsal_patterns import UnsupportedPattern, text_matching
from rft.tool_gateway.arguments import ArgumentChecker, InvalidToolSchema

_TRIES = 8
_DEEPEST = 12
_MAX_WORDS, _MAX_PHRASE_WORDS = 400, 4
_MAX_ITEMS, _MAX_TEXT_CHARS = 1_000, 100_000
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


@dataclass(frozen=True, slots=True)
class Material:
    """What of a row arguments and answers are made of."""

    words: tuple[str, ...]
    """Of the last user message, or of the row's other texts where that has none; at least one."""
    numbers: tuple[float, ...]
    fields: dict[str, str | float | bool]
    """Single values by their name in lower case, however deep they lie; the first of a name."""

    @classmethod
    def of(cls, row: DatasetRow) -> "Material":
        """The row's own."""
        own: JsonObject = {key: value for key, value in row.item.items() if key not in ("messages", "tools")}
        values = list(_values(own, ""))
        fields: dict[str, str | float | bool] = {}
        for name, value in values:
            if name and value != "":
                fields.setdefault(name, value)
        question = next((message.content for message in reversed(row.messages) if message.role is Role.USER), "")
        texts = " ".join(value for _, value in values if isinstance(value, str))
        words = _words(question) or _words(texts) or ["example"]
        numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", question)]
        numbers += [value for value in fields.values() if isinstance(value, float)]
        return cls(tuple(words[:_MAX_WORDS]), tuple(number for number in numbers if isfinite(number)), fields)


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
    for try_number in range(_TRIES):
        draw = _Draw(rng, material, schema, is_lean=try_number >= _TRIES // 2)
        try:
            text = json.dumps(draw.value(schema), ensure_ascii=False)
        except (_Impossible, OverflowError):
            continue
        if is_fit(text):
            return text
    return None


class _Impossible(Exception):
    """No value fits, or none that we know how to make."""


@dataclass(frozen=True, slots=True)
class _Draw:
    """One draw of a whole document."""

    rng: Random
    material: Material
    root: JsonObject
    is_lean: bool
    """Leave out whatever is not required."""

    def value(self, schema: JsonValue, name: str = "", depth: int = 0) -> JsonValue:
        """A value that should fit. Raises _Impossible."""
        if not isinstance(schema, dict):
            return self._anything(schema)
        whole = self._whole(schema, depth)
        if "const" in whole:
            return whole["const"]
        if choices := _list(whole.get("enum")):
            return self.rng.choice(choices)
        return self._of_kind(whole, name, depth)

    def _anything(self, schema: JsonValue) -> JsonValue:
        if schema is False:
            raise _Impossible
        return self.rng.choice(self.material.words)

    def _of_kind(self, whole: JsonObject, name: str, depth: int) -> JsonValue:
        match self._kind(whole):
            case "object":
                return self._object(whole, depth)
            case "array":
                return self._array(whole, name, depth)
            case "integer":
                return int(self._numeric(whole, name, step=float(max(1, int(_number(whole.get("multipleOf"), 1))))))
            case "number":
                return self._numeric(whole, name, step=_number(whole.get("multipleOf"), 0.0))
            case "boolean" | "null" as kind:
                return self.rng.random() < 0.5 if kind == "boolean" else None
            case _:
                return self._string(whole, name)

    def _whole(self, schema: JsonObject, depth: int) -> JsonObject:
        """References followed, one branch chosen, all parts of `allOf` together."""
        if depth > _DEEPEST:
            raise _Impossible
        whole = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf", "oneOf", "allOf")}
        parts = _list(schema.get("allOf"))
        if isinstance(reference := schema.get("$ref"), str):
            parts = [self._referred(reference), *parts]
        for branches in (_list(schema.get("anyOf")), _list(schema.get("oneOf"))):
            if branches:
                parts = [*parts, self.rng.choice([one for one in branches if one != {"type": "null"}] or branches)]
        for part in parts:
            if isinstance(part, dict):
                whole = _merged(whole, self._whole(part, depth + 1))
        return whole

    def _referred(self, reference: str) -> JsonValue:
        here: JsonValue = self.root
        if not reference.startswith("#"):
            raise _Impossible
        for part in filter(None, reference[1:].split("/")):
            if not isinstance(here, dict) or part not in here:
                raise _Impossible
            here = here[part]
        return here

    def _kind(self, schema: JsonObject) -> str:
        kinds = schema.get("type")
        if isinstance(kinds, list) and kinds:
            kinds = self.rng.choice([kind for kind in kinds if kind != "null"] or kinds)
        if isinstance(kinds, str):
            return kinds
        if "properties" in schema or "required" in schema:
            return "object"
        if "items" in schema:
            return "array"
        return "number" if "minimum" in schema or "maximum" in schema else "string"

    def _object(self, schema: JsonObject, depth: int) -> JsonObject:
        properties = schema.get("properties")
        described = properties if isinstance(properties, dict) else {}
        required = [key for key in _list(schema.get("required")) if isinstance(key, str)]
        optional = [name for name in described if not self.is_lean and self.rng.random() < 0.5]
        names = [*(name for name in described if name in required or name in optional), *required]
        return {name: self.value(described.get(name, True), name, depth + 1) for name in dict.fromkeys(names)}

    def _array(self, schema: JsonObject, name: str, depth: int) -> list[JsonValue]:
        least = int(_number(schema.get("minItems"), 0))
        most = int(min(_number(schema.get("maxItems"), inf), max(least, 3)))
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

    def _numeric(self, schema: JsonObject, name: str, *, step: float) -> float:
        """A multiple of `step`, or any number where that is 0."""
        low, high = _bounds(schema, gap=1.0 if step else 1e-6)
        value = self._field(name)
        known = [value] if isinstance(value, float) else self.material.numbers
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
        least, most = int(_number(schema.get("minLength"), 0)), _number(schema.get("maxLength"), inf)
        if least > _MAX_TEXT_CHARS:
            raise _Impossible
        value = self._field(name)
        if isinstance(pattern := schema.get("pattern"), str):
            candidates = [*([value] if isinstance(value, str) else []), *self.material.words]
            return self._patterned(pattern, [text for text in candidates if least <= len(text) <= most])
        known = _FORMATS.get(str(schema.get("format")))
        if known is not None:
            return known.format(self.rng.randint(1, 28))
        text = value if isinstance(value, str) and self.rng.random() < 0.7 else self._phrase()
        while len(text) < max(least, 1):
            text = f"{text} {self._phrase()}"
        return text if len(text) <= most else text[: int(most)].rstrip().ljust(least, "x")

    def _patterned(self, pattern: str, candidates: list[str]) -> str:
        try:
            fitting = [text for text in candidates if re.search(pattern, text)]
            return self.rng.choice(fitting) if fitting else text_matching(pattern, self.rng)
        except (re.error, UnsupportedPattern):
            raise _Impossible from None

    def _phrase(self) -> str:
        words = self.material.words
        start = self.rng.randrange(len(words))
        return " ".join(words[start : start + self.rng.randint(1, _MAX_PHRASE_WORDS)])

    def _field(self, name: str) -> str | float | bool | None:
        wanted = name.lower()
        exact = self.material.fields.get(wanted)
        if exact is not None or len(wanted) < 4:
            return exact
        return next((value for key, value in self.material.fields.items() if wanted in key or key in wanted), None)


def _values(value: JsonValue, name: str) -> Iterator[tuple[str, str | float | bool]]:
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
            yield name, _float(value)
        case None:
            return


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return inf


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_][\w'-]*", text)


def _merged(first: JsonObject, second: JsonObject) -> JsonObject:
    merged = {**first, **second}
    for key in ("properties", "$defs"):
        ours, theirs = first.get(key), second.get(key)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            merged[key] = {**ours, **theirs}
    if "required" in first and "required" in second:
        merged["required"] = [*_list(first["required"]), *_list(second["required"])]
    return merged


def _bounds(schema: JsonObject, *, gap: float) -> tuple[float, float]:
    low = max(_number(schema.get("minimum"), -inf), _number(schema.get("exclusiveMinimum"), -inf) + gap)
    high = min(_number(schema.get("maximum"), inf), _number(schema.get("exclusiveMaximum"), inf) - gap)
    return low, high


def _number(value: JsonValue, absent: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else absent


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
