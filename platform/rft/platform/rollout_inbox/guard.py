"""Asks every request to an inbox for its token before anything of its body is read."""

from typing import cast

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from rft.platform.api.error_handlers import database_down, render
from rft.platform.api.errors import ApiError, Unauthorized
from rft.platform.rollout_inbox.patience import Patience
from rft.platform.rollout_inbox.repository import InboxRepository, NoSuchInbox, StaleToken
from rft.platform.rollout_inbox.run_token import RunToken
from rft.platform.store.database import Database

INBOXES = "/internal/runs/"


class Stale(ApiError):
    """The launch that the token was for counts no more."""

    status = 409
    type = "invalid_request_error"


class InboxGuard:
    """Lets a request to an inbox through once its token is known. A route cannot do this: its body is read before."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or not path.startswith(INBOXES):
            await self.app(scope, receive, send)
            return
        try:
            await _check(scope, path.removeprefix(INBOXES).split("/")[0])
        except (Unauthorized, Stale) as refusal:
            await render(refusal)(scope, receive, send)
        except psycopg.OperationalError as error:
            cast(Patience, scope["app"].state.inbox_patience).begin_anew()
            await database_down(error)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def unauthorized() -> Unauthorized:
    """The refusal of what is no token of this run."""
    return Unauthorized("This is not the token of a run.", code="invalid_run_token")


async def opened(connection: AsyncConnection[TupleRow], job_id: str, token: RunToken) -> InboxRepository:
    """The inbox that the token opens, inside the caller's transaction. Raises Unauthorized, Stale."""
    inbox = InboxRepository(connection, job_id)
    try:
        await inbox.check(token)
    except NoSuchInbox:
        raise unauthorized() from None
    except StaleToken:
        raise Stale("Another launch has taken this run over, or it has ended.", code="stale_launch") from None
    return inbox


async def _check(scope: Scope, job_id: str) -> None:
    token = RunToken.of(HTTPConnection(scope).headers.get("authorization"))
    if token is None:
        raise unauthorized()
    database: Database = scope["app"].state.services.database
    async with database.transaction() as connection:
        await opened(connection, job_id, token)
