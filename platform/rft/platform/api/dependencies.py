"""What endpoints ask for in their signatures. Routers are mounted behind `require_key` by the app factory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from rft.platform.api.authentication import AZURE_HEADER, Credential, credential
from rft.platform.api.task_set import TaskSet
from rft.platform.queue.publishing import Enqueuer
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.platform.store.file_store import FileStore
from rft.platform.store.secret_box import SecretBox
from rft.platform.store.unit_of_work import UnitOfWork, reading, unit_of_work

DATASETS_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Services:
    """What the app opened at start; lives in `app.state.services`."""

    settings: Settings
    database: Database
    file_store: FileStore
    secret_box: SecretBox
    enqueuer: Enqueuer | None = None
    """None: Celery."""
    refuse_unknown_model: "Callable[[UnitOfWork, str], Awaitable[object]] | None" = None
    """Raises NotFound and BadRequest for the name of a model that cannot be measured; None: any name will do."""
    background: TaskSet = field(default_factory=TaskSet)
    dataset_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(DATASETS_AT_ONCE))
    """For reading a large dataset, which takes a process of its own."""


# Not one of these waits for anything; but what is no coroutine would be called in a thread of its own.
async def get_services(request: Request) -> Services:
    """The process's open services."""
    return _services(request)


async def get_settings(request: Request) -> Settings:
    """The settings the app was made with."""
    return _services(request).settings


async def get_database(request: Request) -> Database:
    """The pool, for endpoints that need more than one transaction (streams)."""
    return _services(request).database


async def get_uow(request: Request) -> AsyncIterator[UnitOfWork]:
    """One transaction for the request, committed before the reply is sent."""
    services = _services(request)
    async with unit_of_work(services.database, services.enqueuer) as uow:
        yield uow


async def get_reading(request: Request) -> AsyncIterator[UnitOfWork]:
    """For requests that change nothing: two round trips to the database less."""
    async with reading(_services(request).database) as uow:
        yield uow


def _services(request: Request) -> Services:
    return request.app.state.services


_BEARER = HTTPBearer(auto_error=False, description="An API key: `rft_<id>_<random>`.")
_AZURE = APIKeyHeader(name=AZURE_HEADER, auto_error=False, description="The same key, as Azure's clients send it.")


async def require_key(
    request: Request,
    _documented: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
    _azure: Annotated[str | None, Depends(_AZURE)],
) -> str:
    """The id of the caller's API key, which the middleware has verified. Raises Unauthorized."""
    return credential(request.scope["state"]).api_key_id


async def get_credential(request: Request) -> Credential:
    """Who the middleware found to be calling. Raises Unauthorized."""
    return credential(request.scope["state"])


AppServices = Annotated[Services, Depends(get_services)]
AppSettings = Annotated[Settings, Depends(get_settings)]
AppDatabase = Annotated[Database, Depends(get_database)]
Uow = Annotated[UnitOfWork, Depends(get_uow, scope="function")]
Reading = Annotated[UnitOfWork, Depends(get_reading, scope="function")]
KeyId = Annotated[str, Depends(require_key)]
Caller = Annotated[Credential, Depends(get_credential)]
