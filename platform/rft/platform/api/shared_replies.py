"""One reply for all who send the same request at the same time: the open pages of a job whose step has ended."""

import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rft.platform.api.shared_reads import SharedReads

_SHARED = re.compile(r"/v1/fine_tuning/jobs/[^/]+/(?:checkpoints|endpoints|rollouts)")
"""What each page asks for after a step. Nothing in these replies depends on who is asking."""


class SharedRepliesMiddleware:
    """Asks the app once for all of them, after they sent their requests; each has been let through before."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._replies = SharedReads[Sequence[Message]]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = _key(scope)
        if key is None:
            await self.app(scope, receive, send)
            return
        for message in await self._replies.get(key, lambda: self._ask(scope)):
            # Middleware outside writes headers of its own into each caller's.
            await send({**message, "headers": list(message["headers"])} if "headers" in message else message)

    async def _ask(self, scope: Scope) -> Sequence[Message]:
        reply: list[Message] = []

        async def keep(message: Message) -> None:
            reply.append(message)

        await self.app(scope, _no_body, keep)
        return reply


def _key(scope: Scope) -> str | None:
    """What the reply depends on; None for what is not shared."""
    if scope["type"] != "http" or scope["method"] != "GET" or not _SHARED.fullmatch(scope["path"]):
        return None
    condition = Headers(scope=scope).get("if-none-match", "")
    return f"{scope['path']}?{scope['query_string'].decode('latin-1')} {condition}"


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}
