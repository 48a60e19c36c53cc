"""Work that is done for a waiting caller only: it ends when the caller hangs up."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
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


async def each_while_connected(request: Request, items: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """The items as they come. The generator is closed, and has ended, before this raises ClientGone."""
    hung_up = asyncio.ensure_future(_hung_up(request))
    upcoming: asyncio.Future[tuple[T] | None] | None = None

    def give_up(_: asyncio.Future[None]) -> None:
        if upcoming is not None:
            upcoming.cancel()

    # Told by a callback, and not waited for beside each item: a stream has many.
    hung_up.add_done_callback(give_up)
    try:
        async with aclosing(items):
            while True:
                upcoming = asyncio.ensure_future(_next(items))
                item = await _unless(hung_up, upcoming)
                if item is None:
                    return
                yield item[0]
    finally:
        await _ended(hung_up)


async def _unless(hung_up: asyncio.Future[None], item: asyncio.Future[T]) -> T:
    """The item. It is there or has ended, whatever becomes of this."""
    try:
        if not hung_up.done():
            return await item
    except asyncio.CancelledError:
        if not hung_up.done():
            raise
    finally:
        await _ended(item)
    raise ClientGone("The client hung up in the middle of the reply.", code="client_gone")


async def _next(items: AsyncGenerator[T]) -> tuple[T] | None:
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return None


async def _hung_up(request: Request) -> None:
    # The body was read before; what comes after it is only the end of the connection.
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _ended(task: asyncio.Future[Any]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
