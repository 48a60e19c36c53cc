"""jsonschema without Python's `re`: a schema's patterns are left out, and with them what depends on them."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Protocol, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from pydantic import JsonValue
from referencing import Registry

_DATA = frozenset({"const", "default", "enum", "examples"})


class PatternlessValidator(Protocol):
    """What of a validator is used."""

    def iter_errors(self, instance: object) -> Iterator[ValidationError]:
        """Everything that is wrong."""
        ...


def without_patterns(validator: Draft202012Validator) -> PatternlessValidator:
    """The same schema, read without its patterns."""
    schema = _without_dialects(cast("JsonValue", validator.schema))
    return _patternless(type(validator))(schema, registry=Registry())


@cache
def _patternless(kind: type[Draft202012Validator]) -> Any:
    """jsonschema's types say nothing about the classes it makes."""
    additional = kind.VALIDATORS["additionalProperties"]

    def additional_properties(
        validator: Any, value: JsonValue, instance: JsonValue, schema: dict[str, JsonValue]
    ) -> Iterator[ValidationError]:
        # Which properties are additional depends on the patterns.
        if "patternProperties" not in schema:
            yield from additional(validator, value, instance, schema) or ()

    ignored = dict.fromkeys(("pattern", "patternProperties", "unevaluatedProperties"), _nothing)
    return extend(kind, {**ignored, "additionalProperties": additional_properties})


def _nothing(*_: object) -> Iterator[ValidationError]:
    return iter(())


def _without_dialects(schema: JsonValue) -> JsonValue:
    """Without `$schema`: a part that names its own would be read by a validator that knows patterns."""
    if isinstance(schema, list):
        return [_without_dialects(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: part if key in _DATA else _without_dialects(part)
        for key, part in schema.items()
        if not (key == "$schema" and isinstance(part, str))
    }
