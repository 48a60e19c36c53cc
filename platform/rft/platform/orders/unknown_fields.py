"""Fields of a body that mean nothing here: kept and echoed, unless they are meant for one that we know."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType

from pydantic import BaseModel

from rft.platform.api.errors import BadRequest
from rft.platform.orders.tool_schemas import Tool

_ALIASES = {Tool: {"url"}}
"""Other names of fields that we do know."""
_ALIKE = 0.8
"""One letter too many, too few or in the wrong place, in a name of five or more."""
_MOST_COMPARED = 1_000
"""Different names; a comparison may take a fifth of a millisecond, and nobody misspells so many."""


@dataclass(frozen=True, slots=True)
class UnknownField:
    """One such field."""

    path: str
    """In the request, e.g. `data_source.model_name`."""
    name: str
    known: tuple[str, ...]
    """Fields that could stand there."""


def unknown_in(body: BaseModel, path: str = "") -> Iterator[UnknownField]:
    """All of them. `path`: of the body, with its dot."""
    aliases = next((names for kind, names in _ALIASES.items() if isinstance(body, kind)), set[str]())
    known = tuple(type(body).model_fields)
    yield from (UnknownField(f"{path}{name}", name, known) for name in body.model_extra or () if name not in aliases)
    for name in body.model_fields_set & type(body).model_fields.keys():
        yield from _unknown_below(getattr(body, name), f"{path}{name}")


def refuse_misspelled(
    body: BaseModel, *, other_names: Mapping[str, str] = MappingProxyType({}), stored: Container[str] = ()
) -> None:
    """Raises BadRequest for a field that is surely another one: what was meant would silently have no effect.

    `other_names`: what known fields are called elsewhere. `stored`: fields that were there before the request.
    """
    compared: set[tuple[str, tuple[str, ...]]] = set()
    for field in unknown_in(body):
        if field.path in stored:
            continue
        if (field.name, field.known) in compared or len(compared) >= _MOST_COMPARED:
            continue
        compared.add((field.name, field.known))
        meant = get_close_matches(field.name, field.known, n=1, cutoff=_ALIKE) or [
            name for called, name in other_names.items() if called == field.name and name in field.known
        ]
        if meant:
            message = f"Unknown parameter: '{field.path}'. Did you mean '{meant[0]}'?"
            raise BadRequest(message, param=field.path, code="unknown_parameter")


def _unknown_below(value: object, path: str) -> Iterator[UnknownField]:
    match value:
        case BaseModel():
            yield from unknown_in(value, f"{path}.")
        case list():
            for index, entry in enumerate(value):
                yield from _unknown_below(entry, f"{path}[{index}]")
        case dict():
            for key, entry in value.items():
                yield from _unknown_below(entry, f"{path}.{key}")
        case _:
            return
