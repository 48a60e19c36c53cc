"""How a run that is over waits for what it still has to tell customers' servers."""

import asyncio
from collections.abc import Iterable
from typing import Any

DRAIN_S = 5.0
"""How long somebody who was told to stop still tries."""


async def drain_pending(underway: Iterable[asyncio.Task[None]], hurry: asyncio.Event | None = None) -> int:
    """Wait until each has ended by itself; how many were cut short.

    Once `hurry` is set they have only seconds. Cancelling the wait cancels them all.
    """
    tasks = list(underway)
    if not tasks:
        return 0
    hurried: asyncio.Task[Any] = asyncio.create_task((hurry or asyncio.Event()).wait())
    all_told: asyncio.Task[Any] = asyncio.create_task(asyncio.wait(tasks))
    try:
        await asyncio.wait((all_told, hurried), return_when=asyncio.FIRST_COMPLETED)
        _, late = await asyncio.wait(tasks, timeout=DRAIN_S)
        return len(late)
    finally:
        for task in (*tasks, hurried, all_told):
            task.cancel()
        await asyncio.gather(*tasks, hurried, all_told, return_exceptions=True)
