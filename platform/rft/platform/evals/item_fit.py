"""Whether an item fits its eval's schema."""

from rft.core.base import JsonObject
from rft.core.schema_fit import Misfit, SchemaFit


def item_misfit(fit: SchemaFit, item: JsonObject) -> Misfit | None:
    """What is wrong with the item, or None."""
    try:
        return fit.misfit(item)
    except RecursionError:  # Of a schema that refers to itself, each level of the item costs several.
        return Misfit("it cannot be held against the schema: it is nested too deeply", "")
