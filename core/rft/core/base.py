"""Base of every record that crosses a process border."""

from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue

JsonObject: TypeAlias = dict[str, JsonValue]
"""A JSON object whose keys belong to the customer (a dataset row, metadata), never to us."""


class Record(BaseModel):
    """Frozen, closed to unknown fields: what two of our own processes say to each other."""

    model_config = ConfigDict(frozen=True, extra="forbid")
