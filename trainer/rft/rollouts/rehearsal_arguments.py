"""Calls a model might make: arguments drawn from a row's own texts, fit for the tool's schema. Pure and seeded."""

import json
import re
from dataclasses import dataclass
from math import ceil, floor, inf
from random import Random

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.messages import ToolSchema
from rft.grader_gateway.answer_format import AnswerFormat
from rft.rollouts.rehearsal_material import Material
from rft.rollouts.rehearsal_patterns import UnsupportedPattern, text_matching
from rft.tool_gateway.arguments import ArgumentChecker, InvalidToolSchema

_TRIES = 8
_DEEPEST = 12
_LONGEST_PHRASE = 4
_MOST_ITEMS, _LONGEST_TEXT = 1_000, 100_000
_FORMATS = {
    "date": "2026-01-{:02d}", "date-time": "2026-01-{:02d}T09:30:00Z", "time": "09:{:02d}:00Z",
    "email": "person{}@example.com", "uri": "https://example.com/{}", "ipv4": "192.0.2.{}",
    "hostname": "host{}.example", "uuid": "00000000-0000-4000-8000-{:012d}",
}  # fmt: skip


class _Impossible(Exception):
    """No value fits, or none that we know how to make."""


def arguments_for(tool: ToolSchema, material: Material, rng: Random, checker: ArgumentChecker) -> str | None:
    """JSON text that the tool's schema accepts; None when we cannot make any."""
    for attempt in range(_TRIES):
        draw = _Draw(rng, material, tool.parameters, is_lean=attempt >= _TRIES // 2)
        try:
            arguments = json.dumps(draw.value({"type": "object", **tool.parameters}), ensure_ascii=False)
            if checker.problem(tool, arguments) is None:
                return arguments
        except (_Impossible, OverflowError):
            continue
        except InvalidToolSchema:
            return None
    return None


def answer_for(wanted: AnswerFormat, schema: JsonObject, material: Material, rng: Random) -> str | None:
    """JSON text that answers may be; None when we cannot make any."""
    for attempt in range(_TRIES):
        try:
            answer = json.dumps(_Draw(rng, material, schema, is_lean=attempt >= _TRIES // 2).value(schema))
        except (_Impossible, OverflowError):
            continue
        if wanted.problem(answer) is None:
            return answer
    return None


@dataclass(frozen=True, slots=True)
class _Draw:
    """One attempt at a whole document."""

    rng: Random
    material: Material
    root: JsonObject
    is_lean: bool
    """Leave out whatever is not required."""

    def value(self, schema: JsonValue, name: str = "", depth: int = 0) -> JsonValue:
        """A value that should fit. Raises _Impossible."""
        if depth > _DEEPEST or schema is False:
            raise _Impossible
        if not isinstance(schema, dict):
            return self.rng.choice(self.material.words)
        whole = self._whole(schema, depth)
        if "const" in whole:
            return whole["const"]
        choices = whole.get("enum")
        if isinstance(choices, list) and choices:
            return self.rng.choice(choices)
        return self._of_kind(self._kind(whole), whole, name, depth)

    def _of_kind(self, kind: str, whole: JsonObject, name: str, depth: int) -> JsonValue:
        match kind:
            case "object":
                return self._object(whole, depth)
            case "array":
                return self._array(whole, name, depth)
            case "integer":
                return self._integer(whole, name)
            case "number":
                return self._number(whole, name)
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
        rest = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf", "oneOf", "allOf")}
        parts: list[JsonValue] = []
        if isinstance(reference := schema.get("$ref"), str):
            parts.append(self._referred(reference))
        for key in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(key), list) and branches:
                useful = [branch for branch in branches if branch != {"type": "null"}]
                parts.append(self.rng.choice(useful or branches))
        if isinstance(all_of := schema.get("allOf"), list):
            parts.extend(all_of)
        for part in parts:
            if isinstance(part, dict):
                rest = _merged(rest, self._whole(part, depth + 1))
        return rest

    def _referred(self, reference: str) -> JsonValue:
        here: JsonValue = self.root
        if not reference.startswith("#"):
            raise _Impossible
        for part in reference.removeprefix("#").strip("/").split("/"):
            if not part:
                continue
            if not isinstance(here, dict) or part not in here:
                raise _Impossible
            here = here[part]
        return here

    def _kind(self, schema: JsonObject) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = [entry for entry in kind if entry != "null"] or kind
            kind = self.rng.choice(kinds) if kinds else None
        if isinstance(kind, str):
            return kind
        if "properties" in schema or "required" in schema:
            return "object"
        if "items" in schema:
            return "array"
        return "number" if "minimum" in schema or "maximum" in schema else "string"

    def _object(self, schema: JsonObject, depth: int) -> JsonObject:
        properties = schema.get("properties")
        described = properties if isinstance(properties, dict) else {}
        required = [key for key in _list(schema.get("required")) if isinstance(key, str)]
        names = [*(name for name in described if name in required or self._wants_optional()), *required]
        return {name: self.value(described.get(name, True), name, depth + 1) for name in dict.fromkeys(names)}

    def _wants_optional(self) -> bool:
        return not self.is_lean and self.rng.random() < 0.5

    def _array(self, schema: JsonObject, name: str, depth: int) -> list[JsonValue]:
        least = int(_number(schema.get("minItems"), 0))
        most = int(min(_number(schema.get("maxItems"), inf), max(least, 3)))
        if least > _MOST_ITEMS:
            raise _Impossible
        prefix = _list(schema.get("prefixItems"))
        items = schema.get("items", True)
        length = max(len(prefix), self.rng.randint(least, max(least, most)), min(1, most))
        values: list[JsonValue] = []
        for index in range(length):
            wanted = prefix[index] if index < len(prefix) else items
            for _ in range(_TRIES):
                value = self.value(wanted, name, depth + 1)
                if not schema.get("uniqueItems") or value not in values:
                    values.append(value)
                    break
        return values

    def _integer(self, schema: JsonObject, name: str) -> int:
        low, high = _bounds(schema, gap=1.0)
        low, high = ceil(low) if low > -inf else low, floor(high) if high < inf else high
        known = [int(number) for number in self._numbers(name) if number.is_integer() and low <= number <= high]
        step = max(1, int(_number(schema.get("multipleOf"), 1)))
        known = [number for number in known if number % step == 0]
        if known and self.rng.random() < 0.7:
            return self.rng.choice(known)
        first, last = _span(low, high, 100.0)
        lowest, highest = ceil(first / step), floor(last / step)
        if highest < lowest:
            raise _Impossible
        return self.rng.randint(lowest, highest) * step

    def _number(self, schema: JsonObject, name: str) -> float:
        step = _number(schema.get("multipleOf"), 0)
        if step:
            return self._integer({**schema, "multipleOf": 1}, name) * step if step < 1 else self._integer(schema, name)
        low, high = _bounds(schema, gap=1e-6)
        known = [number for number in self._numbers(name) if low <= number <= high]
        if known and self.rng.random() < 0.7:
            return self.rng.choice(known)
        first, last = _span(low, high, 100.0)
        return min(max(round(self.rng.uniform(first, last), 2), first), last)

    def _numbers(self, name: str) -> list[float]:
        value = self._field(name)
        return [value] if isinstance(value, float) else list(self.material.numbers)

    def _string(self, schema: JsonObject, name: str) -> str:
        least, most = int(_number(schema.get("minLength"), 0)), _number(schema.get("maxLength"), inf)
        if least > _LONGEST_TEXT:
            raise _Impossible
        pattern = schema.get("pattern")
        if isinstance(pattern, str):
            return self._patterned(pattern, least, most, name)
        known = _FORMATS.get(str(schema.get("format")))
        if known is not None:
            return known.format(self.rng.randint(1, 28))
        value = self._field(name)
        text = str(value) if isinstance(value, str) and self.rng.random() < 0.7 else self._phrase()
        while len(text) < max(least, 1):
            text = f"{text} {self._phrase()}"
        return text if len(text) <= most else text[: int(most)].rstrip().ljust(least, "x")

    def _patterned(self, pattern: str, least: int, most: float, name: str) -> str:
        try:
            compiled = re.compile(pattern)
        except re.error:
            raise _Impossible from None
        value = self._field(name)
        candidates = ([value] if isinstance(value, str) else []) + list(self.material.words)
        fitting = [text for text in candidates if least <= len(text) <= most and compiled.search(text)]
        if fitting:
            return self.rng.choice(fitting)
        try:
            return text_matching(pattern, self.rng)
        except UnsupportedPattern:
            raise _Impossible from None

    def _phrase(self) -> str:
        words = self.material.words
        start = self.rng.randrange(len(words))
        return " ".join(words[start : start + self.rng.randint(1, _LONGEST_PHRASE)])

    def _field(self, name: str) -> str | float | bool | None:
        wanted = name.lower()
        exact = self.material.fields.get(wanted)
        if exact is not None or len(wanted) < 4:
            return exact
        return next((value for key, value in self.material.fields.items() if wanted in key or key in wanted), None)


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


def _span(low: float, high: float, width: float) -> tuple[float, float]:
    if low == -inf and high == inf:
        return 0.0, width
    if low == -inf:
        return high - width, high
    if high == inf:
        return low, low + width
    return low, high


def _number(value: JsonValue, absent: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else absent


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
