"""JSON Schemas that customers write for their tools: compiled once, refused in plain words."""

import hashlib
import json
from typing import cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from rft.core.base import JsonObject
from rft.core.errors import RftError

LONGEST_COMPLAINT = 300
_REMEMBERED = 4096


class InvalidToolSchema(RftError):
    """A tool's parameters are described with something that is no JSON Schema; refused when a job is created."""


_verdicts: dict[bytes, str | None] = {}
"""Rows of a dataset mostly repeat the same few schemas: each is judged once."""


def schema_problem(parameters: JsonObject) -> str | None:
    """Why these parameters are no usable JSON Schema, or None. For checking rows before a job starts."""
    try:
        fingerprint = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).digest()
    except RecursionError:
        return "not a JSON Schema: nested too deeply"
    if fingerprint not in _verdicts:
        if len(_verdicts) >= _REMEMBERED:
            _verdicts.clear()
        _verdicts[fingerprint] = _judge(parameters)
    return _verdicts[fingerprint]


def compile_schema(parameters: JsonObject) -> Draft202012Validator:
    """A validator of arguments. Raises InvalidToolSchema."""
    try:
        kind = cast("type[Draft202012Validator]", validator_for(parameters, default=Draft202012Validator))
        kind.check_schema(parameters)
    except SchemaError as error:
        where = f" at {error.json_path}" if error.json_path != "$" else ""
        raise InvalidToolSchema(f"not a JSON Schema{where}: {error.message[:LONGEST_COMPLAINT]}") from error
    except RecursionError as error:
        raise InvalidToolSchema("not a JSON Schema: nested too deeply") from error
    # An empty registry: without one, jsonschema would fetch remote references from wherever they point.
    return kind(parameters, registry=Registry())


def _judge(parameters: JsonObject) -> str | None:
    try:
        compile_schema(parameters).is_valid({})
    except InvalidToolSchema as error:
        return str(error)
    except (Unresolvable, RecursionError) as error:
        return f"cannot be followed: {str(error)[:LONGEST_COMPLAINT]}"
    return None
