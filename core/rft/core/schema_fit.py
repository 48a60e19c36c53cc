"""Whether what a model wrote fits a customer's JSON Schema, and what is wrong with it in plain words.

Patterns are the customer's and texts the model's, so that Python's `re`, which may take hours for twenty characters,
never sees them: jsonschema_rs matches in linear time, or gives up after so many steps. What it gives up on, or cannot
read, is not held against the model.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import NoReturn

import jsonschema_rs
from jsonschema.exceptions import best_match
from pydantic import JsonValue
from referencing.jsonschema import specification_with

from rft.core.base import JsonObject
from rft.core.foreign_json import encodable
from rft.core.json_schema import LONGEST_COMPLAINT, InvalidToolSchema, compile_schema, dialect_of
from rft.core.python_validator import PythonValidator, python_validator
from rft.core.relaxed_schema import has_long_choices, without_long_choices, without_patterns
from rft.core.schema_references import UnusableSchema, follow_references

_READ_COMPLAINTS = 50
"""Of so many the one that says most is told."""
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=20_000)
_GAVE_UP = (
    jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded,
    jsonschema_rs.ValidationErrorKind.RegexEngineFailure,
)
_PANIC = "PanicException"
"""What a RecursionError inside the maps of jsonschema becomes, which are Rust's; it is no `Exception`."""
_MERELY_NONE_OF_SEVERAL = (jsonschema_rs.ValidationErrorKind.AnyOf, jsonschema_rs.ValidationErrorKind.OneOfNotValid)


@dataclass(frozen=True, slots=True)
class Misfit:
    """What does not fit."""

    message: str
    place: str
    """Where in the value, e.g. `rows[0].name`; empty for the whole of it."""


@dataclass(frozen=True, slots=True)
class SchemaFit:
    """Two readings of one schema: the quick one, and one for schemas and texts that would cost it too much."""

    quick: jsonschema_rs.Validator | None
    slow: PythonValidator
    needs_both: bool = False
    """Whether the quick one leaves out what it would search value by value, each time anew."""

    @classmethod
    def compiled(cls, schema: JsonObject) -> "SchemaFit":
        """Raises InvalidToolSchema."""
        kind = type(compile_schema(schema))
        dialect = dialect_of(kind)
        try:
            rest = _if_followed(without_patterns(schema), dialect)
            needs_both = has_long_choices(schema)  # jsonschema_rs looks up texts only.
            quick = None if needs_both else _compile_quick(schema)
            if quick is None:  # Also for a dialect that it does not know.
                quick = _compile_quick(_if_followed(without_long_choices(schema), dialect))
            if quick is None:  # For a pattern that only Python reads.
                quick = _compile_quick(_if_followed(without_long_choices(rest), dialect))
            rest.pop("$schema", None)  # Named below a reference, it would be read by a validator that knows patterns.
            return cls(quick, python_validator(kind, rest), needs_both)
        except RecursionError:
            raise InvalidToolSchema("not a JSON Schema: nested too deeply") from None

    def misfit(self, value: JsonValue) -> Misfit | None:
        """What is wrong with the value, or None. Raises Unresolvable and RecursionError."""
        if self.quick is not None:
            try:
                misfit = self._quick_misfit(self.quick, value)
            except (ValueError, RecursionError):
                pass  # lone surrogates and very deep structures
            else:
                if misfit is not None or not self.needs_both:
                    return misfit
        return self._slow_misfit(value)

    def _slow_misfit(self, value: JsonValue) -> Misfit | None:
        try:
            error = best_match(islice(self.slow.iter_errors(value), _READ_COMPLAINTS))
        except BaseException as error:
            if type(error).__name__ != _PANIC:
                raise
            raise RecursionError("the value is nested too deeply for the schema") from error
        return None if error is None else _misfit(error.message, error.absolute_path)

    @staticmethod
    def _quick_misfit(quick: jsonschema_rs.Validator, value: JsonValue) -> Misfit | None:
        if quick.is_valid(value):
            return None
        errors = [
            error for error in islice(quick.iter_errors(value), _READ_COMPLAINTS) if type(error.kind) not in _GAVE_UP
        ]
        error = min(errors, key=_depth, default=None)
        return None if error is None else _misfit(error.message, error.instance_path)


def _depth(error: jsonschema_rs.ValidationError) -> tuple[bool, int]:
    return isinstance(error.kind, _MERELY_NONE_OF_SEVERAL), len(error.instance_path)


def _compile_quick(schema: JsonObject) -> jsonschema_rs.Validator | None:
    """A hundred times as fast as jsonschema; None for schemas it cannot read."""
    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse_remote, pattern_options=_PATTERNS)
    except ValueError:
        return None


def _if_followed(rest: JsonObject, dialect: str) -> JsonObject:
    """In its dialect; nothing is held against a model by a schema whose references lead into what is left out."""
    try:
        follow_references(rest, specification_with(dialect))
    except UnusableSchema:
        return {}
    return {**rest, "$schema": dialect}


def _refuse_remote(uri: str) -> NoReturn:
    raise ValueError(f"{uri} lies outside of the schema")


def _misfit(message: str, path: Iterable[str | int]) -> Misfit:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
    return Misfit(_told(message), _told(place))


def _told(text: str) -> str:
    """As it can be stored and shown: the model chooses the keys that a place is made of."""
    return encodable(text if len(text) <= LONGEST_COMPLAINT else f"{text[:LONGEST_COMPLAINT]}...")
