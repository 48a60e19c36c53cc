"""Ends tasks that work on a database: a cancellation alone may not."""

import asyncio
from typing import Any

_AGAIN_S = 0.2


async def stop_tasks(*tasks: asyncio.Task[Any], again_s: float = _AGAIN_S) -> None:
    """Cancel them until all have ended; what they raise is not raised here.

    `again_s`: longer than they take to end in good order, which another cancellation would disturb.

    Up to Python 3.11 `asyncio.wait_for`, which the database's driver uses, can lose a cancellation: then another one is
    needed.
    """
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=again_s)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # Looked at, so that nobody complains that it was not.
