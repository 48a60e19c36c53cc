"""`response_format` on the wire (contract section 1.13), in both of its shapes."""

from typing import Annotated, Any, TypeAlias, cast

from pydantic import BeforeValidator, Field, JsonValue
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from rft.core.base import JsonObject
from rft.core.json_schema import schema_problem
from rft.core.response_format import ResponseFormat
from rft.platform.api.wire import refused_at

_TYPES = ("text", "json_object", "json_schema")


def _known_response_format(value: Any) -> Any:
    if not isinstance(value, dict) or value.get("type") not in _TYPES:
        raise PydanticCustomError(
            "invalid_value", "must be null, or an object of type 'text', 'json_object' or 'json_schema'"
        )
    if value["type"] == "json_schema":
        _refuse_bad_schema(value)
    return value


def _refuse_bad_schema(response_format: dict[str, Any]) -> None:
    nested = _with_schema(response_format)
    schema = nested.get("schema") if isinstance(nested, dict) else None
    if not isinstance(schema, dict):
        raise PydanticCustomError("invalid_value", "of type 'json_schema' needs a schema")
    problem = schema_problem(schema)
    if problem is not None:
        raise refused_at((*(() if nested is response_format else ("json_schema",)), "schema"), problem)


def _with_schema(response_format: dict[str, Any]) -> Any:
    """The schema lies under `json_schema`, as chat completions have it, or flat, as responses have it."""
    return response_format.get("json_schema", response_format)


_FORMATS: JsonDict = {
    "required": ["type"],
    "anyOf": [
        {"properties": {"type": {"enum": ["text", "json_object"]}}},
        {"properties": {"type": {"const": "json_schema"}, "schema": {"type": "object"}}, "required": ["schema"]},
        {
            "properties": {
                "type": {"const": "json_schema"},
                "json_schema": {"properties": {"schema": {"type": "object"}}, "required": ["schema"], "type": "object"},
            },
            "required": ["json_schema"],
        },
    ],
}
"""What a response format is, in the document's words."""

ResponseFormatWanted: TypeAlias = Annotated[
    Annotated[dict[str, JsonValue], Field(json_schema_extra=_FORMATS)], BeforeValidator(_known_response_format)
]


def to_response_format(wanted: dict[str, JsonValue] | None) -> ResponseFormat | None:
    """What answers must be; None where any text will do."""
    match wanted:
        case {"type": "json_object"}:
            return ResponseFormat(type="json_object")
        case {"type": "json_schema"}:
            return ResponseFormat(type="json_schema", json_schema=cast("JsonObject", _with_schema(wanted)["schema"]))
        case _:
            return None
