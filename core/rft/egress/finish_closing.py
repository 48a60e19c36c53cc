"""Closing what a work has opened to its end: customers hear ends there, which a cancellation must not lose."""

import asyncio
from collections.abc import Awaitable, Callable


async def finish_closing(close: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Await `close`, however often the caller is cancelled meanwhile. Raises what it raises, then CancelledError.

    Its event says that it must hurry: the caller was cancelled, before or while it closes.
    """
    hurry, is_cancelled = asyncio.Event(), False
    caller = asyncio.current_task()
    if caller is not None and caller.cancelling():
        hurry.set()
    closing = asyncio.ensure_future(close(hurry))
    while not closing.done():
        try:
            await asyncio.wait((closing,))
        except asyncio.CancelledError:
            is_cancelled = True
            hurry.set()
    closing.result()
    if is_cancelled:
        raise asyncio.CancelledError
