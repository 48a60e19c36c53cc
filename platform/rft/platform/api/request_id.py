"""Gives every request an id, and turns a crash into a reply that tells nothing but that id."""

import logging
import secrets

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rft.platform.api.error_handlers import render
from rft.platform.api.errors import ApiError

_LOG = logging.getLogger(__name__)
HEADER = "x-request-id"


class RequestIdMiddleware:
    """Outermost of ours: whatever is raised below becomes a 500 in the contract's envelope."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = f"req_{secrets.token_hex(16)}"
        has_started = False

        async def send_with_id(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception:
            _LOG.exception("%s %s failed (%s)", scope["method"], scope["path"], request_id)
            if has_started:
                raise
            crash = ApiError(f"The server had an error while processing your request ({request_id}).")
            await render(crash)(scope, receive, send_with_id)
