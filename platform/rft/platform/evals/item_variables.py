"""Template variables held against the schema of an eval's items, before any run. Pure."""

from difflib import get_close_matches

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.grader_gateway.templates import TemplateError, Variable, variables_of

_UNDECIDED = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "not"})
"""Keywords under which a schema's fields are not listed in one place: nothing is said about them."""


def item_path(reference: str) -> tuple[str | int, ...]:
    """Where in an item `item.name` leads. Raises TemplateError."""
    variables = variables_of("{{" + reference + "}}")
    if len(variables) != 1 or variables[0].namespace != "item":
        raise TemplateError(f"{reference!r} is no name like 'item.messages'")
    return variables[0].steps


def value_at(item: JsonObject, path: tuple[str | int, ...]) -> JsonValue:
    """What lies there; None where nothing does."""
    here: JsonValue = item
    for step in path:
        match here:
            case dict() if isinstance(step, str):
                here = here.get(step)
            case list() if isinstance(step, int) and -len(here) <= step < len(here):
                here = here[step]
            case _:
                return None
    return here


def item_problem(text: str, item_schema: JsonObject) -> str | None:
    """Why a template can find nothing in items of this schema, or None."""
    for variable in variables_of(text):
        problem = _problem(variable, item_schema) if variable.namespace == "item" else None
        if problem is not None:
            return f"{{{{ {variable.source} }}}}: {problem}"
    return None


def _problem(variable: Variable, schema: JsonObject) -> str | None:
    here: object = schema
    for step in variable.steps:
        if not isinstance(here, dict) or _UNDECIDED & here.keys():
            return None
        fields: object = here.get("properties")
        if not isinstance(fields, dict) or isinstance(step, int):
            # A list, or an object of which the schema lists no field: any step may lead somewhere.
            here = here.get("items") if here.get("type") == "array" else None
        elif step in fields:
            here = fields[step]
        elif here.get("additionalProperties") or here.get("patternProperties"):
            return None
        else:
            return _unknown(step, [str(name) for name in fields])
    return None


def _unknown(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    return f"the item schema has no {name!r}; it has {', '.join(sorted(known)) or 'no field'}.{meant}"
