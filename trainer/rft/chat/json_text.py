"""JSON inside text: what stands where, and the very slice it was written as.

Numbers and spacing reach the customer's tool as the model wrote them, so nothing is parsed and written again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from rft.core.foreign_json import encodable


@dataclass(frozen=True, slots=True)
class JsonSlice:
    """A JSON value and where it stands."""

    value: object
    text: str
    """The slice the model wrote."""
    end: int
    """Where the text after it begins."""


def read_json(text: str, start: int) -> JsonSlice:
    """The value at `start`, white space before it skipped. Raises ValueError or RecursionError."""
    begin = skip_space(text, start)
    value, stop = cast(tuple[object, int], _DECODER.raw_decode(text, begin))
    return JsonSlice(value, text[begin:stop], stop)


def read_members(text: str, start: int) -> tuple[dict[str, JsonSlice], int]:
    """The members of the object at `start`, and its end; the last of a key wins. Raises ValueError, RecursionError."""
    expect(text, start, "{")
    members: dict[str, JsonSlice] = {}
    position = skip_space(text, start + 1)
    if text.startswith("}", position):
        return members, position + 1
    while True:
        key = read_json(text, position)
        if not isinstance(key.value, str):
            raise ValueError("a key is not a string")
        position = skip_space(text, key.end)
        expect(text, position, ":")
        member = members[key.value] = read_json(text, position + 1)
        position = skip_space(text, member.end)
        if text.startswith("}", position):
            return members, position + 1
        expect(text, position, ",")
        position = skip_space(text, position + 1)


def object_text(arguments: Mapping[str, str]) -> str:
    """The JSON text of an object whose values are JSON text already."""
    members = (f"{json.dumps(encodable(key), ensure_ascii=False)}: {value}" for key, value in arguments.items())
    return "{" + ", ".join(members) + "}"


def is_object(text: str) -> bool:
    """Whether it is one JSON object and nothing else."""
    try:
        return isinstance(_DECODER.decode(text), dict)
    except (ValueError, RecursionError):
        return False


def expect(text: str, position: int, mark: str) -> None:
    """Raises ValueError when `mark` does not stand there."""
    if not text.startswith(mark, position):
        raise ValueError(f"expected {mark!r} at {position}")


def skip_space(text: str, position: int) -> int:
    """Where JSON's white space ends."""
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
