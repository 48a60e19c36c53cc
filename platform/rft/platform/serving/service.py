"""What a request goes through, from its model's name to its last event."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from rft.platform.api.dependencies import Services
from rft.platform.api.errors import ApiError, BadRequest, NotFound, Unavailable
from rft.platform.serving.asking import ProcessLost, ask
from rft.platform.serving.processes import ServingProcesses
from rft.platform.serving.repository import ServingRepository
from rft.platform.serving.served_model import ServedModel
from rft.platform.serving.told import ToldSoFar
from rft.serving_wire.records import CompletionRequest, Event, Refused

_TRIES = 3
"""A process that has ended before it said anything is started again.

It says nothing before the adapter is loaded: one whose loading kills the process does so as often.
"""
_ENDING_S = 0.05
"""The system tells of its end a little later than its connections break."""


async def events(processes: ServingProcesses, model: ServedModel, request: CompletionRequest) -> AsyncGenerator[Event]:
    """Up to `Done`. Raises ApiError: before the first event with the status that it deserves."""
    for number in range(1, _TRIES + 1):
        has_said = False
        try:
            async with (
                processes.serving(model) as endpoint,
                aclosing(ask(endpoint, request, processes.connections)) as told,
            ):
                async for event in told:
                    has_said = True
                    if isinstance(event, Refused):
                        raise to_api_error(event)
                    yield event
                return
        except ProcessLost as lost:
            if has_said or number == _TRIES:
                raise Unavailable(
                    "The model's process ended in the middle of the answer; try again.", code="serving_lost"
                ) from lost
            await asyncio.sleep(_ENDING_S * number)


def to_api_error(refused: Refused) -> ApiError:
    """As the wire has it."""
    match refused.kind:
        case "bad_request":
            return BadRequest(refused.message, param=refused.param, code=refused.code)
        case "not_found":
            return NotFound(refused.message, param=refused.param, code=refused.code)
        case "unavailable":
            return Unavailable(refused.message, code=refused.code, retry_after_s=refused.retry_after_s)
        case "broken":
            return ApiError(refused.message, code=refused.code)


async def count(services: Services, api_key_id: str, told: ToldSoFar) -> None:
    """Add a request to its key's day, as far as it came."""
    async with services.database.connection() as connection:
        await ServingRepository(connection).count(api_key_id, told.model, told.tokens)
