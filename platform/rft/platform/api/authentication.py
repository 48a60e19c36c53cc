"""Asks every request of the API who sends it before anything else of it is looked at: its body, its size, its path.

Where a model is to answer somebody who was let through before, it is asked meanwhile: the reply waits for the look.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import psycopg
from fastapi.security.utils import get_authorization_scheme_param
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from rft.platform.api.checked_reply import reply_once
from rft.platform.api.error_handlers import database_down, render
from rft.platform.api.errors import Forbidden, Unauthorized
from rft.platform.api.key_repository import verify_key
from rft.platform.api.session_cookie import read_cookie, refuse_foreign
from rft.platform.api.session_repository import find_session
from rft.platform.api.shared_reads import SharedReads
from rft.platform.store.database import Database

PREFIX = "/v1"
AZURE_HEADER = "api-key"
"""Where Azure's clients put the key."""
CREDENTIAL = "credential"
"""Where it is in the request's state."""
_ANSWERED_BY_MODELS = frozenset((f"{PREFIX}/chat/completions", f"{PREFIX}/responses"))
"""They change nothing, and their callers wait for the first token."""
_MOST_REMEMBERED = 1000
_REFUSALS = (Unauthorized, Forbidden, psycopg.OperationalError)


@dataclass(frozen=True, slots=True)
class Credential:
    """Who sends a request: a program with a key, or a browser that was signed in with one."""

    api_key_id: str
    session_sha256: bytes | None = None
    """None: the request carries the key itself."""


class AuthenticationMiddleware:
    """Lets a request to `/v1` through once its sender is known. A route cannot do this: its body is read before."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._senders = SharedReads[Credential]()
        self._remembered = dict[bytes, Credential]()
        """Who was let through with a key, by its hash."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_guarded(scope):
            await self.app(scope, receive, send)
            return
        if (remembered := self._remembered_sender(scope)) is not None:
            await self._answer_meanwhile(remembered, scope, receive, send)
            return
        try:
            found = await self._authenticate(scope)
        except _REFUSALS as error:
            await _refuse(error)(scope, receive, send)
        else:
            scope.setdefault("state", {})[CREDENTIAL] = found
            await self.app(scope, receive, send)

    async def _answer_meanwhile(self, sender: Credential, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})[CREDENTIAL] = sender
        check = asyncio.ensure_future(self._authenticate(scope))
        if await reply_once(check, self.app, scope, receive, send):
            return
        try:
            await check
        except _REFUSALS as error:
            await _refuse(error)(scope, receive, send)

    def _remembered_sender(self, scope: Scope) -> Credential | None:
        if scope["path"] not in _ANSWERED_BY_MODELS:
            return None
        return self._remembered.get(_digest(_sent_key(Headers(scope=scope))))

    async def _authenticate(self, scope: Scope) -> Credential:
        """Requests that a page sends at once are looked up at once, each after it came."""
        headers = Headers(scope=scope)
        database: Database = scope["app"].state.services.database
        if key := _sent_key(headers):
            return await self._by_key(database, key)
        token = read_cookie(headers)
        if token is None:
            raise _no_key()
        refuse_foreign(scope["method"], headers)
        return await self._senders.get(f"session {token}", lambda: _find_session(database, token))

    async def _by_key(self, database: Database, key: str) -> Credential:
        digest = _digest(key)
        try:
            found = await self._senders.get(f"key {key}", lambda: _find_key(database, key))
        except Unauthorized:
            self._remembered.pop(digest, None)
            raise
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[digest] = found
        return found


def credential(state: Mapping[str, Any]) -> Credential:
    """What the middleware found. Raises Unauthorized where it has not looked."""
    found = state.get(CREDENTIAL)
    if found is None:
        raise _no_key()
    return cast(Credential, found)


def unknown_key() -> Unauthorized:
    """The refusal of a key that is not ours, or not any more."""
    return Unauthorized("Incorrect API key provided.", code="invalid_api_key")


def session_ended() -> Unauthorized:
    """The refusal of a browser whose session is over."""
    return Unauthorized("This session has ended; sign in again.", code="session_ended")


def _is_guarded(scope: Scope) -> bool:
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path == PREFIX or path.startswith(f"{PREFIX}/")


async def _find_key(database: Database, key: str) -> Credential:
    async with database.connection() as connection:
        key_id = await verify_key(connection, key)
    if key_id is None:
        raise unknown_key()
    return Credential(key_id)


async def _find_session(database: Database, token: str) -> Credential:
    async with database.connection() as connection:
        session = await find_session(connection, token)
    if session is None:
        raise session_ended()
    return Credential(session.api_key_id, session.sha256)


def _refuse(error: Exception) -> ASGIApp:
    return render(error) if isinstance(error, Unauthorized | Forbidden) else database_down(error)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


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
