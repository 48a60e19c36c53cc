"""What endpoints ask for in their signatures. Routers are mounted behind `require_key` by the app factory."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from rft.platform.api.background import Background
from rft.platform.api.errors import Unauthorized
from rft.platform.api.keys import verify_key
from rft.platform.files.storage import FileStore
from rft.platform.settings import Settings
from rft.platform.store.bell import Ringer
from rft.platform.store.database import Database
from rft.platform.store.secret_box import SecretBox
from rft.platform.store.unit_of_work import UnitOfWork, unit_of_work


@dataclass(frozen=True, slots=True)
class Services:
    """What the app opened at start; lives in `app.state.services`."""

    settings: Settings
    database: Database
    file_store: FileStore
    secret_box: SecretBox
    ringer: Ringer | None = None
    """None: Celery."""
    background: Background = field(default_factory=Background)


def get_services(request: Request) -> Services:
    """The process's open services."""
    return request.app.state.services


def get_settings(request: Request) -> Settings:
    """The settings the app was made with."""
    return get_services(request).settings


def get_database(request: Request) -> Database:
    """The pool, for endpoints that need more than one transaction (streams)."""
    return get_services(request).database


async def get_uow(request: Request) -> AsyncIterator[UnitOfWork]:
    """One transaction for the request, committed before the reply is sent."""
    services = get_services(request)
    async with unit_of_work(services.database, services.ringer) as uow:
        yield uow


_BEARER = HTTPBearer(auto_error=False, description="An API key: `rft_<id>_<random>`.")


async def require_key(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]
) -> str:
    """The id of the caller's API key. Raises Unauthorized."""
    if credentials is None:
        raise Unauthorized(
            "You didn't provide an API key. Send it in an Authorization header: 'Authorization: Bearer YOUR_KEY'.",
            code="missing_api_key",
        )
    async with get_database(request).connection() as connection:
        key_id = await verify_key(connection, credentials.credentials)
    if key_id is None:
        raise Unauthorized("Incorrect API key provided.", code="invalid_api_key")
    return key_id


AppServices = Annotated[Services, Depends(get_services)]
AppSettings = Annotated[Settings, Depends(get_settings)]
AppDatabase = Annotated[Database, Depends(get_database)]
Uow = Annotated[UnitOfWork, Depends(get_uow, scope="function")]
KeyId = Annotated[str, Depends(require_key)]
