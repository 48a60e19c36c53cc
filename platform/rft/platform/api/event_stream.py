"""Server-sent events as a reply."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from rft.platform.api.errors import ClientGone
from rft.platform.api.hang_up import connected

_SILENCE_S = 10.0
_STILL_THERE = b": still there\n\n"


class EventStream(StreamingResponse):
    """Pieces as they come, until the reader hangs up; the generator is closed, and has ended, either way.

    What it raises before its first piece is answered as if the endpoint had raised it. From then on, a comment fills
    each `silence_s` without a piece: proxies and clients give up what is silent for too long.
    """

    def __init__(self, pieces: AsyncGenerator[bytes], *, silence_s: float = _SILENCE_S) -> None:
        # The second is for proxies that would keep pieces until there are more of them.
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        super().__init__(pieces, media_type="text/event-stream", headers=headers)
        self._pieces, self._silence_s = pieces, silence_s
        self._sent_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        with suppress(ClientGone):
            async with connected(receive) as caller, aclosing(self._pieces):
                first = await anext(self._pieces, b"")
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await self._send(send, first)
                async with self._filling_silence(send):
                    async for piece in self._pieces:
                        await self._send(send, piece)
                        if caller.has_hung_up:
                            break
            # Not watched any more: behind the end of a reply there is nobody to hang up.
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, piece: bytes) -> None:
        self._sent_at = asyncio.get_running_loop().time()
        await send({"type": "http.response.body", "body": piece, "more_body": True})

    @asynccontextmanager
    async def _filling_silence(self, send: Send) -> AsyncGenerator[None]:
        """The pieces get no task of their own for it: each change of tasks would cost them time."""
        filling = asyncio.create_task(self._fill_silence(send))
        try:
            yield
        finally:
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)

    async def _fill_silence(self, send: Send) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            if (left_s := self._sent_at + self._silence_s - clock()) > 0:
                await asyncio.sleep(left_s)
            else:
                await self._send(send, _STILL_THERE)
