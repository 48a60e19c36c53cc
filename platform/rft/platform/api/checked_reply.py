"""A reply that is worked on while its right to be sent is still looked up."""

import asyncio
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


async def reply_once(check: "asyncio.Future[Any]", app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> bool:
    """Runs the app; nothing that it says leaves before `check` is done.

    False where `check` raised: the app was cancelled, has ended, and said nothing.
    """
    task = asyncio.current_task()
    assert task is not None
    reply = _Reply(check, task, send)
    check.add_done_callback(reply.look)
    try:
        await app(scope, receive, reply.send_checked)
    except BaseException:
        # Cancelled by somebody else, too: that counts more, as with `asyncio.timeout`.
        if not _has_failed(check) or reply.end() > 0:
            raise
    finally:
        reply.end()
    if not check.done():  # The app had nobody left to say anything to.
        await asyncio.wait((check,))
    return not _has_failed(check)


@dataclass(slots=True)
class _Reply:
    check: "asyncio.Future[Any]"
    task: "asyncio.Task[Any]"
    send: Send
    has_cancelled: bool = False
    has_ended: bool = False

    def look(self, check: "asyncio.Future[Any]") -> None:
        # Futures call back a little later: what is said by then is none of the app's.
        if not self.has_ended and _has_failed(check):
            self.has_cancelled = True
            self.task.cancel()

    async def send_checked(self, message: Message) -> None:
        if not self.check.done():
            await asyncio.wait((self.check,))
        if _has_failed(self.check):
            raise asyncio.CancelledError  # Also where the first one was lost, or is still to come.
        await self.send(message)

    def end(self) -> int:
        """How often others have cancelled the request."""
        self.has_ended = True
        if self.has_cancelled:
            self.has_cancelled = False
            self.task.uncancel()
        return self.task.cancelling()


def _has_failed(check: "asyncio.Future[Any]") -> bool:
    return check.done() and (check.cancelled() or check.exception() is not None)
