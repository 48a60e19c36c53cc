"""Asks every request of the API for its key before anything else of it is looked at: its body, its size, its path."""

from collections.abc import Mapping
from typing import Any, cast

import psycopg
from fastapi.security.utils import get_authorization_scheme_param
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from rft.platform.api.error_handlers import database_down, render
from rft.platform.api.errors import Unauthorized
from rft.platform.api.keys import verify_key
from rft.platform.store.database import Database

PREFIX = "/v1"
AZURE_HEADER = "api-key"
"""Where Azure's clients put the key."""
KEY_ID = "api_key_id"
"""Where the id of the caller's key is in the request's state."""


class AuthenticationMiddleware:
    """Lets a request to `/v1` through once its key is known. A route cannot do this: its body is read before."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_guarded(scope):
            await self.app(scope, receive, send)
            return
        try:
            key_id = await _key_id(scope)
        except Unauthorized as refusal:
            await render(refusal)(scope, receive, send)
        except psycopg.OperationalError as error:
            await database_down(error)(scope, receive, send)
        else:
            scope.setdefault("state", {})[KEY_ID] = key_id
            await self.app(scope, receive, send)


def caller(state: Mapping[str, Any]) -> str:
    """The id of the caller's key. Raises Unauthorized where no middleware has looked."""
    key_id = state.get(KEY_ID)
    if key_id is None:
        raise _no_key()
    return cast(str, key_id)


def _is_guarded(scope: Scope) -> bool:
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path == PREFIX or path.startswith(f"{PREFIX}/")


async def _key_id(scope: Scope) -> str:
    key = _sent_key(Headers(scope=scope))
    if not key:
        raise _no_key()
    database: Database = scope["app"].state.services.database
    async with database.connection() as connection:
        key_id = await verify_key(connection, key)
    if key_id is None:
        raise Unauthorized("Incorrect API key provided.", code="invalid_api_key")
    return key_id


def _sent_key(headers: Headers) -> str:
    """The caller's key; empty where there is none. Two different ones are judged by the first."""
    scheme, key = get_authorization_scheme_param(headers.get("authorization"))
    return key if scheme.lower() == "bearer" and key else headers.get(AZURE_HEADER, "")


def _no_key() -> Unauthorized:
    return Unauthorized(
        "You didn't provide an API key. Send it in an Authorization header, 'Authorization: Bearer YOUR_KEY',"
        f" or as '{AZURE_HEADER}: YOUR_KEY'.",
        code="missing_api_key",
    )
