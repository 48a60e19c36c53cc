"""JSON Schemas that customers write for their tools: compiled once, refused in plain words."""

import hashlib
import json
import re
import warnings
from typing import cast

import jsonschema_rs
from jsonschema import Draft3Validator, Draft202012Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.jsonschema import specification_with

from rft.core.base import JsonObject
from rft.core.errors import RftError
from rft.core.pattern_syntax import parse_pattern
from rft.core.schema_references import UnusableSchema, follow_references

LONGEST_COMPLAINT = 300
_REMEMBERED = 4096
_PATTERN_CHARS = 10_000


class InvalidToolSchema(RftError):
    """A tool's parameters are described with something that is no JSON Schema; refused when a job is created."""


_problems: dict[bytes, str | None] = {}
"""Rows of a dataset mostly repeat the same few schemas: each is judged once."""


def schema_problem(parameters: JsonObject) -> str | None:
    """Why these parameters are no usable JSON Schema, or None. For checking rows before a job starts."""
    try:
        fingerprint = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).digest()
    except RecursionError:
        return "not a JSON Schema: nested too deeply"
    if fingerprint not in _problems:
        if len(_problems) >= _REMEMBERED:
            _problems.clear()
        _problems[fingerprint] = _compile_problem(parameters)
    return _problems[fingerprint]


def parameters_problem(parameters: JsonObject) -> str | None:
    """Why these are no parameters of a tool, or None: a usable JSON Schema that objects can fit."""
    problem = schema_problem(parameters)
    if problem is None and parameters.get("type", "object") not in ("object", ["object"]):
        return "must describe an object (`type`: 'object'): a tool's arguments are one"
    return problem


def compile_schema(parameters: JsonObject) -> Draft202012Validator:
    """A validator of arguments. Raises InvalidToolSchema."""
    kind = _kind(parameters)
    try:
        _hold_against_its_dialect(parameters, kind)
        followed = follow_references(parameters, specification_with(dialect_of(kind)))
        for strange in followed.strange:
            _hold_against_its_dialect(strange, kind)
        _read_patterns(followed.schemas)
    except UnusableSchema as error:
        raise InvalidToolSchema(str(error)) from error
    except RecursionError as error:
        raise InvalidToolSchema("not a JSON Schema: nested too deeply") from error
    # An empty registry: without one, jsonschema would fetch remote references from wherever they point.
    return kind(parameters, registry=Registry())


def _kind(parameters: JsonObject) -> type[Draft202012Validator]:
    """The dialect that the schema names, the newest where it names none that is known."""
    kind = validator_for(parameters, default=Draft202012Validator)
    if kind is Draft3Validator:
        raise InvalidToolSchema("not a JSON Schema: draft 3 is too old, draft 4 is the oldest that is read")
    return cast("type[Draft202012Validator]", kind)


def dialect_of(kind: type[Draft202012Validator]) -> str:
    """Its address."""
    return str(cast("dict[str, object]", kind.META_SCHEMA)["$schema"])


def _hold_against_its_dialect(schema: JsonObject, kind: type[Draft202012Validator]) -> None:
    """Raises InvalidToolSchema. Read by jsonschema_rs: long lists cost jsonschema the square of their length."""
    try:
        # Told which dialect, it does not ask the network what another one would be.
        jsonschema_rs.meta.validate({**schema, "$schema": dialect_of(kind)})
    except jsonschema_rs.ValidationError as error:
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
        at = f" at ${where}" if where else ""
        raise InvalidToolSchema(f"not a JSON Schema{at}: {error.message[:LONGEST_COMPLAINT]}") from error
    except ValueError as error:
        raise InvalidToolSchema(f"not a JSON Schema: {str(error)[:LONGEST_COMPLAINT]}") from error


def _read_patterns(schemas: list[JsonObject]) -> None:
    """Raises InvalidToolSchema."""
    patterns = {pattern for schema in schemas if isinstance(pattern := schema.get("pattern"), str)}
    for schema in schemas:
        by_pattern = schema.get("patternProperties")
        patterns.update(by_pattern if isinstance(by_pattern, dict) else ())
    if sum(map(len, patterns)) > _PATTERN_CHARS:
        raise InvalidToolSchema(f"its patterns have more than {_PATTERN_CHARS:,} characters")
    for pattern in sorted(patterns):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                parse_pattern(pattern)  # What compiling would make of it is used nowhere.
        except (re.error, OverflowError, ValueError) as error:
            raise InvalidToolSchema(f"not a JSON Schema: {pattern[:100]!r} is no pattern ({error})") from error


def _compile_problem(parameters: JsonObject) -> str | None:
    try:
        compile_schema(parameters)
    except InvalidToolSchema as error:
        return str(error)
    return None
