"""jsonschema's own validator, which takes every text, in linear time where it would need the square."""

import json
import reprlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, Protocol, TypeAlias

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from pydantic import JsonValue
from referencing import Registry

from rft.core.base import JsonObject
from rft.core.relaxed_schema import DATA
from rft.core.schema_references import MAPS


class PythonValidator(Protocol):
    """What of a validator is used."""

    def iter_errors(self, instance: object) -> Iterator[ValidationError]:
        """Everything that is wrong. Raises RecursionError."""
        ...


def python_validator(kind: type[Draft202012Validator], schema: JsonObject) -> PythonValidator:
    """A validator of a schema that names no dialect, nor does any part of it. Raises RecursionError."""
    return _linear(kind)(_with_choices(schema), registry=Registry())


_SHORT = reprlib.Repr()
"""One mistake of many: jsonschema may hold thousands of them before one is told."""
_SHORT.maxlist = _SHORT.maxdict = 20
_SHORT.maxstring = _SHORT.maxlong = 200


class _Choices(list[JsonValue]):
    """The values of an `enum`, to be found at once."""

    @cached_property
    def keys(self) -> frozenset[str]:
        return frozenset(map(_key, self))


@cache
def _linear(kind: type[Draft202012Validator]) -> Any:
    """jsonschema's types say nothing about the classes it makes."""
    own = {"uniqueItems": _unique_items, "enum": _enum, "multipleOf": _multiple_of(kind.VALIDATORS["multipleOf"])}
    return extend(kind, own)


_Keyword: TypeAlias = Callable[[Any, JsonValue, JsonValue, JsonObject], Iterator[ValidationError] | None]


def _multiple_of(quick: _Keyword) -> _Keyword:
    def checked(
        validator: Any, multiple: JsonValue, instance: JsonValue, schema: JsonObject
    ) -> Iterator[ValidationError]:
        try:
            yield from quick(validator, multiple, instance, schema) or ()
        except OverflowError:  # It divides as floats do, and one of both is an integer that none of them holds.
            assert isinstance(instance, int | float)
            assert isinstance(multiple, int | float)
            if (Fraction(instance) / Fraction(multiple)).denominator != 1:
                yield ValidationError(f"{_SHORT.repr(instance)} is not a multiple of {_SHORT.repr(multiple)}")

    return checked


def _unique_items(
    validator: Any, is_wanted: JsonValue, instance: JsonValue, schema: JsonObject
) -> Iterator[ValidationError]:
    del validator, schema
    if is_wanted and isinstance(instance, list) and len(set(map(_key, instance))) < len(instance):
        yield ValidationError(f"{_SHORT.repr(instance)} has non-unique elements")


def _enum(validator: Any, choices: JsonValue, instance: JsonValue, schema: JsonObject) -> Iterator[ValidationError]:
    del validator, schema
    if isinstance(choices, _Choices) and _key(instance) not in choices.keys:
        yield ValidationError(
            f"{_SHORT.repr(instance)} is not one of {_SHORT.repr(list(choices[: _SHORT.maxlist + 1]))}"
        )


def _key(value: JsonValue) -> str:
    """The same for values that JSON Schema calls equal. A text: numbers' own hashes are easily made to collide."""
    return json.dumps(_with_whole_numbers(value), sort_keys=True)


def _with_whole_numbers(value: JsonValue) -> JsonValue:
    """1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_with_whole_numbers(part) for part in value]
    if isinstance(value, dict):
        return {key: _with_whole_numbers(part) for key, part in value.items()}
    return value


def _with_choices(schema: JsonValue, *, is_named: bool = False) -> Any:
    """`is_named`: the keys are a customer's names, each of a schema."""
    if isinstance(schema, list):
        return [_with_choices(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    read: JsonObject = {}
    for key, part in schema.items():
        if is_named or key not in DATA:
            read[key] = _with_choices(part, is_named=key in MAPS and not is_named)
        else:
            read[key] = _Choices(part) if key == "enum" and isinstance(part, list) else part
    return read
