"""What a sampled text may be held to."""

from typing import TypeAlias

from rft.core.base import JsonObject

Grammar: TypeAlias = JsonObject | str
"""JSON that fits this schema, or a text by these rules, in llguidance's dialect of Lark."""
