"""The model's arguments: parsed and held against the row's schema. Mistakes are told to the model in plain words."""

import json
import math
from typing import NoReturn, cast

from pydantic import JsonValue
from referencing.exceptions import Unresolvable

from rft.core.json_schema import InvalidToolSchema, schema_problem
from rft.core.messages import ToolSchema
from rft.core.schema_fit import Misfit, SchemaFit

__all__ = ["ArgumentChecker", "InvalidToolSchema", "schema_problem"]


class ArgumentChecker:
    """Checks arguments against schemas; each schema is compiled once, equal ones together."""

    def __init__(self, *, remembered: int = 20_000) -> None:
        self._remembered = remembered
        self._by_tool: dict[int, tuple[ToolSchema, SchemaFit]] = {}
        self._by_text: dict[str, SchemaFit] = {}

    def problem(self, tool: ToolSchema, arguments: str) -> str | None:
        """What is wrong, for the model to read; None when the arguments are fine. Raises InvalidToolSchema."""
        parsed = _parse(arguments)
        if isinstance(parsed, str):
            return parsed
        fit = self._fit(tool)
        try:
            misfit = fit.misfit(parsed)
        except Unresolvable as error:
            raise InvalidToolSchema(f"the schema of {tool.name!r} cannot be followed: {error}") from error
        except RecursionError:
            return "The arguments are nested too deeply."
        return None if misfit is None else _complaint(misfit)

    def _fit(self, tool: ToolSchema) -> SchemaFit:
        # Rows keep their schema objects for the whole run: finding the validator by identity spares each call the
        # serialization. The object is kept with its validator, so that an id never comes to mean another one.
        known = self._by_tool.get(id(tool))
        if known is not None:
            return known[1]
        text = json.dumps(tool.parameters, sort_keys=True)
        fit = self._by_text.get(text)
        if fit is None:
            fit = self._by_text[text] = SchemaFit.compiled(tool.parameters)
        if len(self._by_tool) >= self._remembered:
            self._by_tool.clear()
            self._by_text = {text: fit}
        self._by_tool[id(tool)] = (tool, fit)
        return fit


class _NotJson(Exception):
    pass


class _TooLarge(Exception):
    pass


def _parse(arguments: str) -> dict[str, JsonValue] | str:
    try:
        parsed = json.loads(arguments, parse_constant=_refuse_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        return f"The arguments are not valid JSON: {error.msg} at character {error.pos + 1}."
    except _NotJson as error:
        return f"The arguments are not valid JSON: {error} is not a JSON number."
    except _TooLarge as error:
        return f"The arguments contain a number that is too large: {error}."
    except RecursionError:
        return "The arguments are nested too deeply."
    except ValueError:
        return "The arguments contain a number with too many digits."
    if not isinstance(parsed, dict):
        return "The arguments must be one JSON object."
    return cast("dict[str, JsonValue]", parsed)


def _finite(digits: str) -> float:
    """It would reach the tool as `Infinity`, which is no JSON."""
    if math.isinf(number := float(digits)):
        raise _TooLarge(digits if len(digits) <= 40 else f"{digits[:40]}…")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise _NotJson(name)


def _complaint(misfit: Misfit) -> str:
    if misfit.place:
        return f"The argument {misfit.place} does not fit: {misfit.message}."
    return f"The arguments do not fit: {misfit.message}."
