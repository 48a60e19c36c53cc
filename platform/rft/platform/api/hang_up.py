"""Work that is done for a waiting caller only: it ends when the caller hangs up."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request
from starlette.types import Receive

from rft.platform.api.errors import ClientGone

T = TypeVar("T")


@dataclass(slots=True)
class WaitingCaller:
    """Who waits for a reply."""

    has_hung_up: bool = False
    """Work that goes on for long has to look: a cancellation that meets the end of an `asyncio.wait_for` is lost
    before Python 3.12, and the connection pool waits with one."""


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """What the work returns. It is cancelled, and has ended, before this raises ClientGone."""
    async with connected(request.receive):
        return await work


@asynccontextmanager
async def connected(receive: Receive) -> AsyncGenerator[WaitingCaller]:
    """Cancels what is done inside when the caller hangs up, and raises ClientGone once it has ended.

    For a request whose body was read. The work has no task of its own: each change of tasks waits until all others had
    their turn.
    """
    task = asyncio.current_task()
    assert task is not None
    caller = WaitingCaller()

    def give_up(watching: "asyncio.Task[None]") -> None:
        if not watching.cancelled():
            caller.has_hung_up = True
            task.cancel()

    watching = asyncio.ensure_future(_hung_up(receive))
    watching.add_done_callback(give_up)
    try:
        yield caller
        if caller.has_hung_up:
            raise asyncio.CancelledError  # The one that was lost.
    except asyncio.CancelledError:
        # Cancelled by somebody else, too: that counts more, as with `asyncio.timeout`.
        if not caller.has_hung_up or task.uncancel() > 0:
            raise
        raise ClientGone("The client hung up before the end of the reply.", code="client_gone") from None
    finally:
        watching.remove_done_callback(give_up)
        watching.cancel()


async def _hung_up(receive: Receive) -> None:
    # The body was read before; what comes after it is only the end of the connection.
    while (await receive())["type"] != "http.disconnect":
        pass
