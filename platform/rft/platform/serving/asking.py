"""One request to a serving process: a connection of its own, which says by its end that nobody waits any more."""

from collections.abc import AsyncGenerator

from pydantic import ValidationError

from rft.core.errors import RftError
from rft.platform.serving.connections import SpareConnections
from rft.serving_wire.lines import read_line, write_line
from rft.serving_wire.records import EVENTS, CompletionRequest, Done, Event, Prompt, Refused, ServingEndpoint


class ProcessLost(RftError):
    """It is not there, or went away in the middle of an answer."""


async def ask(
    endpoint: ServingEndpoint, request: CompletionRequest, connections: SpareConnections
) -> AsyncGenerator[Event]:
    """Events up to `Done` or `Refused`. Closed early, it takes the request back. Raises ProcessLost."""
    try:
        reader, writer = await connections.take(endpoint.port)
    except OSError as error:
        raise ProcessLost("the serving process does not answer") from error
    try:
        await write_line(writer, request.model_copy(update={"token": endpoint.token}))
        while True:
            event = _event(await read_line(reader))
            yield event
            if isinstance(event, Prompt):  # What is sampled from it takes its time.
                connections.refill(endpoint.port)
            if isinstance(event, Done | Refused):
                return
    except ConnectionError as error:
        raise ProcessLost("the serving process went away") from error
    finally:
        writer.close()


def _event(line: bytes | None) -> Event:
    if line is None:
        raise ProcessLost("the serving process went away")
    try:
        return EVENTS.validate_json(line)
    except ValidationError as error:
        raise ProcessLost("the serving process answered something else than an event") from error
