"""What a job's answers must be (contract section 1.13), without the two shapes it has on the wire."""

from typing import Literal

from rft.core.base import JsonObject, Record


class ResponseFormat(Record):
    """JSON: any object, or what fits a schema."""

    type: Literal["json_object", "json_schema"]
    json_schema: JsonObject | None = None
    """None for any object."""
