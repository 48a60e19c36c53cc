"""Refuses requests that were sent to another name, where the operator says which names are ours."""

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from rft.gateway_service.hosts import is_own_host
from rft.platform.api.error_handlers import render
from rft.platform.api.errors import BadRequest


class HostMiddleware:
    """Lets through what asks for a loopback name or one of `allowed`."""

    def __init__(self, app: ASGIApp, allowed: Sequence[str]) -> None:
        self.app, self.allowed = app, allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_own_host(Headers(scope=scope).get("host", "localhost"), self.allowed):
            await self.app(scope, receive, send)
            return
        refusal = BadRequest("This API goes by another name (RFT_ALLOWED_HOSTS).", code="unknown_host")
        await render(refusal)(scope, receive, send)
