"""Caps the size of request bodies, announced or not, with a refusal in the contract's envelope."""

from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rft.platform.api.error_handlers import render
from rft.platform.api.errors import TooLarge


class BodyLimitMiddleware:
    """`limit_bytes` tells what a request of this method and path may send."""

    def __init__(self, app: ASGIApp, limit_bytes: Callable[[str, str], int]) -> None:
        self.app, self.limit_bytes = app, limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit = self.limit_bytes(scope["method"], scope["path"])
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdigit() and int(announced) > limit:
            await render(too_large())(scope, receive, send)
            return
        seen = 0

        async def receive_counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                # The one exception that both the form's and the JSON's reader let through.
                raise HTTPException(413)
            return message

        await self.app(scope, receive_counted, send)


def too_large() -> TooLarge:
    """The refusal."""
    return TooLarge("The request's body is too large.", code="request_too_large")
