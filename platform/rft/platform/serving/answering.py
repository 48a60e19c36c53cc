"""What the endpoints that ask a model share: the processes, and that whatever comes of a request is counted."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from fastapi import Depends, Request

from rft.platform.api.dependencies import Services
from rft.platform.serving.processes import ServingProcesses
from rft.platform.serving.served_model import ServedModel, find_base, find_served
from rft.platform.serving.service import count
from rft.platform.serving.told import ToldSoFar
from rft.platform.store.unit_of_work import reading
from rft.serving_wire.records import Event


async def get_processes(request: Request) -> ServingProcesses:
    """Those that the app keeps."""
    return request.app.state.serving


Processes = Annotated[ServingProcesses, Depends(get_processes)]


async def named(services: Services, name: str) -> ServedModel:
    """The model; a base model is found without the database. Raises as `find_served` does."""
    if (base := find_base(services.settings, name)) is not None:
        return base
    async with reading(services.database) as uow:
        return await find_served(uow, services.settings, name)


async def counted(
    events: AsyncGenerator[Event], services: Services, key_id: str, told: ToldSoFar
) -> AsyncGenerator[Event]:
    """The same; whatever comes of the request, its tokens are counted."""
    try:
        async with aclosing(events):
            async for event in events:
                told.take(event)
                yield event
    finally:
        if told.prompt is not None:
            services.background.start(count(services, key_id, told), name="counting tokens")


async def drain(events: AsyncGenerator[Event]) -> None:
    """To their end."""
    async with aclosing(events):
        async for _ in events:
            pass


async def first_of(events: AsyncGenerator[Event]) -> Event:
    """It decides between a refusal with its status and a stream."""
    return await anext(events)
