"""The model's arguments: parsed and held against the row's schema. Mistakes are told to the model in plain words.

Patterns are the customer's and texts the model's, so that Python's `re`, which may take hours for twenty characters,
never sees them: jsonschema_rs matches in linear time, or gives up after so many steps. What it gives up on, or cannot
read, is not held against the model: the tool itself will judge it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NoReturn, cast

import jsonschema_rs
from jsonschema.exceptions import best_match
from pydantic import JsonValue
from referencing.exceptions import Unresolvable

from rft.core.base import JsonObject
from rft.core.json_schema import LONGEST_COMPLAINT, InvalidToolSchema, compile_schema, schema_problem
from rft.core.messages import ToolSchema
from rft.tool_gateway.patternless import PatternlessValidator, without_patterns

__all__ = ["ArgumentChecker", "InvalidToolSchema", "schema_problem"]

_READ_COMPLAINTS = 50
"""Of so many the one that says most is told."""
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=20_000)
_GAVE_UP = (
    jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded,
    jsonschema_rs.ValidationErrorKind.RegexEngineFailure,
)
_MERELY_NONE_OF_SEVERAL = (jsonschema_rs.ValidationErrorKind.AnyOf, jsonschema_rs.ValidationErrorKind.OneOfNotValid)


class ArgumentChecker:
    """Checks arguments against schemas; each schema is compiled once, equal ones together."""

    def __init__(self, *, remembered: int = 20_000) -> None:
        self._remembered = remembered
        self._by_tool: dict[int, tuple[ToolSchema, _Judge]] = {}
        self._by_text: dict[str, _Judge] = {}

    def problem(self, tool: ToolSchema, arguments: str) -> str | None:
        """What is wrong, for the model to read; None when the arguments are fine. Raises InvalidToolSchema."""
        parsed = _parse(arguments)
        if isinstance(parsed, str):
            return parsed
        judge = self._judge(tool)
        try:
            return judge.complaint(parsed)
        except Unresolvable as error:
            raise InvalidToolSchema(f"the schema of {tool.name!r} cannot be followed: {error}") from error
        except RecursionError:
            return "The arguments are nested too deeply."

    def _judge(self, tool: ToolSchema) -> "_Judge":
        # Rows keep their schema objects for the whole run: finding the validator by identity spares each call the
        # serialization. The object is kept with its validator, so that an id never comes to mean another one.
        known = self._by_tool.get(id(tool))
        if known is not None:
            return known[1]
        text = json.dumps(tool.parameters, sort_keys=True)
        judge = self._by_text.get(text)
        if judge is None:
            judge = self._by_text[text] = _compile(tool.parameters)
        if len(self._by_tool) >= self._remembered:
            self._by_tool.clear()
            self._by_text = {text: judge}
        self._by_tool[id(tool)] = (tool, judge)
        return judge


@dataclass(frozen=True, slots=True)
class _Judge:
    """Two readings of one schema: the quick one, and one for schemas and texts that it cannot take."""

    quick: jsonschema_rs.Validator | None
    slow: PatternlessValidator

    def complaint(self, arguments: Mapping[str, JsonValue]) -> str | None:
        """What is wrong with the arguments in words, or None. Raises Unresolvable and RecursionError."""
        if self.quick is not None:
            try:
                return self._quick_complaint(self.quick, arguments)
            except (ValueError, RecursionError):
                pass  # lone surrogates and very deep structures
        error = best_match(self.slow.iter_errors(arguments))
        return None if error is None else _complaint(error.message, error.absolute_path)

    @staticmethod
    def _quick_complaint(quick: jsonschema_rs.Validator, arguments: Mapping[str, JsonValue]) -> str | None:
        if quick.is_valid(arguments):
            return None
        errors = [
            error
            for error in islice(quick.iter_errors(arguments), _READ_COMPLAINTS)
            if type(error.kind) not in _GAVE_UP
        ]
        error = min(errors, key=_depth, default=None)
        return None if error is None else _complaint(error.message, error.instance_path)


def _depth(error: jsonschema_rs.ValidationError) -> tuple[bool, int]:
    return isinstance(error.kind, _MERELY_NONE_OF_SEVERAL), len(error.instance_path)


def _compile(parameters: JsonObject) -> _Judge:
    """Raises InvalidToolSchema."""
    return _Judge(_compile_quick(parameters), without_patterns(compile_schema(parameters)))


def _compile_quick(parameters: JsonObject) -> jsonschema_rs.Validator | None:
    """A hundred times as fast as jsonschema; None for schemas it cannot read."""
    try:
        return jsonschema_rs.validator_for(parameters, retriever=_refuse_remote, pattern_options=_PATTERNS)
    except ValueError:
        return None


def _refuse_remote(uri: str) -> NoReturn:
    raise ValueError(f"{uri} lies outside of the schema")


class _NotJson(Exception):
    pass


def _parse(arguments: str) -> Mapping[str, JsonValue] | str:
    try:
        parsed = json.loads(arguments, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        return f"The arguments are not valid JSON: {error.msg} at character {error.pos + 1}."
    except _NotJson as error:
        return f"The arguments are not valid JSON: {error} is not a JSON number."
    except RecursionError:
        return "The arguments are nested too deeply."
    except ValueError:
        return "The arguments contain a number with too many digits."
    if not isinstance(parsed, dict):
        return "The arguments must be one JSON object."
    return cast("dict[str, JsonValue]", parsed)


def _refuse_constant(name: str) -> NoReturn:
    raise _NotJson(name)


def _complaint(message: str, path: Iterable[str | int]) -> str:
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
    words = message if len(message) <= LONGEST_COMPLAINT else f"{message[:LONGEST_COMPLAINT]}..."
    return f"The argument {where} does not fit: {words}." if where else f"The arguments do not fit: {words}."
