"""Server-sent events, from lines to messages."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sent:
    """One message of a stream."""

    event: str
    data: str
    last_id: str | None
    """The id to go on after: this message's, or the last one before it."""


def messages(lines: Iterable[str], last_id: str | None = None) -> Iterator[Sent]:
    """Whole messages; one that was cut off in the middle is dropped, as the format wants it."""
    event, data, seen = "message", list[str](), last_id
    for raw in lines:
        line = raw.rstrip("\r\n")
        if not line:
            last_id = seen
            if data:
                yield Sent(event, "\n".join(data), last_id)
            event, data = "message", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            event = value
        elif field == "data":
            data.append(value)
        elif field == "id" and "\0" not in value:
            seen = value
