"""JSON on its way from the database to the wire: checked before it was stored, and not looked at again."""

from typing import Annotated, Any, TypeAlias

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from rft.core.base import JsonObject

_CHECKED: CoreSchema = TypeAdapter(JsonObject).core_schema


class _AsStored:
    """Announced as what it is; a walk through hundreds of values per object is saved."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.any_schema()

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(_CHECKED)


StoredJson: TypeAlias = Annotated[JsonObject, _AsStored()]
"""A JSON object that comes out of a `jsonb` column."""
