"""Server-sent events as a reply."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from rft.platform.api.errors import ClientGone
from rft.platform.api.hang_up import connected


class EventStream(StreamingResponse):
    """Pieces as they come, until the reader hangs up; the generator is closed, and has ended, either way.

    What it raises before its first piece is answered as if the endpoint had raised it.
    """

    def __init__(self, pieces: AsyncGenerator[bytes]) -> None:
        # The second is for proxies that would keep pieces until there are more of them.
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        super().__init__(pieces, media_type="text/event-stream", headers=headers)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        with suppress(ClientGone):
            async with connected(receive) as caller, aclosing(self._pieces):
                first = await anext(self._pieces, b"")
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await send({"type": "http.response.body", "body": first, "more_body": True})
                async for piece in self._pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    if caller.has_hung_up:
                        break
            # Not watched any more: behind the end of a reply there is nobody to hang up.
            await send({"type": "http.response.body", "body": b"", "more_body": False})
