"""ASGI: work that ends with its caller. Servers say that somebody hung up only to who asks."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, TypeVar

T = TypeVar("T")


async def unless_gone(
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]], work: Coroutine[Any, Any, T]
) -> T | None:
    """What the work returns or raises; None when the caller hung up first, and the work is cancelled.

    For a request whose body was read.
    """
    working, gone = asyncio.create_task(work), asyncio.create_task(_disconnect(receive))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        gone.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


async def _disconnect(receive: Callable[[], Awaitable[MutableMapping[str, Any]]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
