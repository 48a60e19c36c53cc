"""How a run that is over waits for what it still has to tell customers' servers."""

import asyncio
from collections.abc import Iterable
from typing import Any

DRAIN_S = 5.0
"""How long somebody who was told to stop still tries."""


QUIET_S = 660.0
"""How long all of them may go without one that ends: whoever is told has ten minutes to answer. A server that went down
with the last rollouts would keep their job from its end for as long as calls wait for servers that are down, an hour.
"""


async def drain_pending(
    underway: Iterable[asyncio.Task[None]], hurry: asyncio.Event | None = None, *, quiet_s: float | None = QUIET_S
) -> int:
    """Wait until each has ended by itself; how many were cut short.

    Once `hurry` is set, or none has ended for `quiet_s`, they have only seconds. Cancelling the wait cancels them all.
    """
    tasks = list(underway)
    if not tasks:
        return 0
    hurried: asyncio.Task[Any] = asyncio.create_task((hurry or asyncio.Event()).wait())
    all_told: asyncio.Task[Any] = asyncio.create_task(asyncio.wait(tasks))
    try:
        ended, before = 0, -1
        while ended > before and not (all_told.done() or hurried.done()):
            before = ended
            await asyncio.wait((all_told, hurried), timeout=quiet_s, return_when=asyncio.FIRST_COMPLETED)
            ended = sum(task.done() for task in tasks)
        _, late = await asyncio.wait(tasks, timeout=DRAIN_S)
        return len(late)
    finally:
        for task in (*tasks, hurried, all_told):
            task.cancel()
        await asyncio.gather(*tasks, hurried, all_told, return_exceptions=True)
