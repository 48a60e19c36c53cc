"""What the endpoints that ask a model share: the processes, and that whatever comes of a request is counted."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Request

from rft.platform.api.admission import AdmissionMonitor
from rft.platform.api.authentication import Credential, credential
from rft.platform.api.dependencies import Services
from rft.platform.serving.processes import ServingProcesses
from rft.platform.serving.served_model import ServedModel, find_base, find_served
from rft.platform.serving.service import count
from rft.platform.serving.told import ToldSoFar
from rft.platform.store.unit_of_work import reading
from rft.serving_wire.records import Event

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, and what answers need."""

    services: Services
    processes: ServingProcesses
    """Those that the app keeps."""
    admissions: AdmissionMonitor
    credential: Credential

    def admitted(self, events: AsyncGenerator[T]) -> AsyncGenerator[T]:
        """The same; raises Unauthorized once the caller's key or session is over."""
        return self.admissions.while_admitted(self.credential, events)


async def get_asker(request: Request) -> Asker:
    """All in one: each dependency of its own costs every request time. Raises Unauthorized."""
    state = request.app.state
    return Asker(state.services, state.serving, state.admissions, credential(request.scope["state"]))


Asking = Annotated[Asker, Depends(get_asker)]


async def named(services: Services, name: str) -> ServedModel:
    """The model; a base model is found without the database. Raises as `find_served` does."""
    if (base := find_base(services.settings, name)) is not None:
        return base
    async with reading(services.database) as uow:
        return await find_served(uow, services.settings, name)


async def counted(events: AsyncGenerator[Event], asker: Asker, told: ToldSoFar) -> AsyncGenerator[Event]:
    """The same; whatever comes of the request, its tokens are counted."""
    try:
        async with aclosing(events):
            async for event in events:
                told.take(event)
                yield event
    finally:
        if told.prompt is not None:
            asker.services.background.start(
                count(asker.services, asker.credential.api_key_id, told), name="counting tokens"
            )


async def drain(events: AsyncGenerator[Event]) -> None:
    """To their end."""
    async with aclosing(events):
        async for _ in events:
            pass
