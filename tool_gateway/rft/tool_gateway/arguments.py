"""The model's arguments: parsed and held against the row's schema. Mistakes are told to the model in plain words."""

import json
from collections.abc import Mapping
from typing import NoReturn, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.validators import validator_for
from pydantic import JsonValue
from referencing import Registry
from referencing.exceptions import Unresolvable

from rft.core.base import JsonObject
from rft.core.errors import RftError
from rft.core.messages import ToolSchema

_LONGEST_COMPLAINT = 300


class InvalidToolSchema(RftError):
    """A row describes a tool's parameters with something that is no JSON Schema; refused when a job is created."""


def schema_problem(parameters: JsonObject) -> str | None:
    """Why these parameters are no usable JSON Schema, or None. For checking rows before a job starts."""
    try:
        _compile(parameters).is_valid({})
    except InvalidToolSchema as error:
        return str(error)
    except (Unresolvable, RecursionError) as error:
        return f"cannot be followed: {str(error)[:_LONGEST_COMPLAINT]}"
    return None


class ArgumentChecker:
    """Checks arguments against schemas; each schema is compiled once, equal ones together."""

    def __init__(self, *, remembered: int = 20_000) -> None:
        self._remembered = remembered
        self._by_tool: dict[int, tuple[ToolSchema, Draft202012Validator]] = {}
        self._by_text: dict[str, Draft202012Validator] = {}

    def problem(self, tool: ToolSchema, arguments: str) -> str | None:
        """What is wrong, for the model to read; None when the arguments are fine. Raises InvalidToolSchema."""
        parsed = _parse(arguments)
        if isinstance(parsed, str):
            return parsed
        validator = self._validator(tool)
        try:
            if validator.is_valid(parsed):
                return None
            return _complaint(best_match(validator.iter_errors(parsed)))
        except Unresolvable as error:
            raise InvalidToolSchema(f"the schema of {tool.name!r} cannot be followed: {error}") from error
        except RecursionError:
            return "The arguments are nested too deeply."

    def _validator(self, tool: ToolSchema) -> Draft202012Validator:
        # Rows keep their schema objects for the whole run: finding the validator by identity spares each call the
        # serialization. The object is kept with its validator, so that an id never comes to mean another one.
        known = self._by_tool.get(id(tool))
        if known is not None:
            return known[1]
        text = json.dumps(tool.parameters, sort_keys=True)
        validator = self._by_text.get(text)
        if validator is None:
            validator = self._by_text[text] = _compile(tool.parameters)
        if len(self._by_tool) >= self._remembered:
            self._by_tool.clear()
            self._by_text = {text: validator}
        self._by_tool[id(tool)] = (tool, validator)
        return validator


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


def _compile(parameters: JsonObject) -> Draft202012Validator:
    try:
        kind = cast("type[Draft202012Validator]", validator_for(parameters, default=Draft202012Validator))
        kind.check_schema(parameters)
    except SchemaError as error:
        where = f" at {error.json_path}" if error.json_path != "$" else ""
        raise InvalidToolSchema(f"not a JSON Schema{where}: {error.message[:_LONGEST_COMPLAINT]}") from error
    except RecursionError as error:
        raise InvalidToolSchema("not a JSON Schema: nested too deeply") from error
    # An empty registry: without one, jsonschema would fetch remote references from wherever they point.
    return kind(parameters, registry=Registry())


def _complaint(error: ValidationError | None) -> str:
    if error is None:
        return "The arguments do not fit the tool's schema."
    where = error.json_path.removeprefix("$").removeprefix(".")
    words = error.message if len(error.message) <= _LONGEST_COMPLAINT else f"{error.message[:_LONGEST_COMPLAINT]}..."
    return f"The argument {where} does not fit: {words}." if where else f"The arguments do not fit: {words}."
