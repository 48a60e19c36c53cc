"""Work that is done for a waiting caller only: it ends when the caller hangs up."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from rft.platform.api.errors import ClientGone

T = TypeVar("T")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What the work returns. It is cancelled, and has ended, before this raises ClientGone."""
    task = asyncio.ensure_future(work)
    hung_up = asyncio.ensure_future(_hung_up(request))
    try:
        await asyncio.wait((task, hung_up), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            await _ended(task)
            raise ClientGone("The client hung up before the reply.", code="client_gone")
        return task.result()
    finally:
        await _ended(task)
        await _ended(hung_up)


async def _hung_up(request: Request) -> None:
    # The body was read before; what comes after it is only the end of the connection.
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _ended(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait((task,))
