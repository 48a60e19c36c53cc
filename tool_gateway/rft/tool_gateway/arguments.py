"""The model's arguments: parsed and held against the row's schema. Mistakes are told to the model in plain words."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, cast

import jsonschema_rs
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from pydantic import JsonValue
from referencing.exceptions import Unresolvable

from rft.core.base import JsonObject
from rft.core.json_schema import LONGEST_COMPLAINT, InvalidToolSchema, compile_schema, schema_problem
from rft.core.messages import ToolSchema

__all__ = ["ArgumentChecker", "InvalidToolSchema", "schema_problem"]


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
        if judge.is_surely_fine(parsed):
            return None
        try:
            return _complaint(best_match(judge.validator.iter_errors(parsed)))
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
            judge = self._by_text[text] = _Judge(compile_schema(tool.parameters), _compile_quick(tool.parameters))
        if len(self._by_tool) >= self._remembered:
            self._by_tool.clear()
            self._by_text = {text: judge}
        self._by_tool[id(tool)] = (tool, judge)
        return judge


@dataclass(frozen=True, slots=True)
class _Judge:
    """Two readings of one schema: the quick one lets the good through, the other one finds the words for the rest."""

    validator: Draft202012Validator
    quick: Callable[[JsonValue], bool] | None

    def is_surely_fine(self, arguments: Mapping[str, JsonValue]) -> bool:
        """Whether the quick one has no objection; what it cannot judge is not surely fine."""
        try:
            return self.quick is not None and self.quick(cast("JsonValue", arguments))
        except (ValueError, RecursionError):
            return False


def _compile_quick(parameters: JsonObject) -> Callable[[JsonValue], bool] | None:
    """A hundred times as fast as jsonschema; None for schemas it cannot read."""
    try:
        return jsonschema_rs.validator_for(parameters, retriever=_refuse_remote).is_valid
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


def _complaint(error: ValidationError | None) -> str | None:
    if error is None:
        return None
    where = error.json_path.removeprefix("$").removeprefix(".")
    words = error.message if len(error.message) <= LONGEST_COMPLAINT else f"{error.message[:LONGEST_COMPLAINT]}..."
    return f"The argument {where} does not fit: {words}." if where else f"The arguments do not fit: {words}."
