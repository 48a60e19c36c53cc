"""Waiting for what another thread does, with a deadline."""

import asyncio
import time
from collections.abc import Awaitable, Callable

DEADLINE_S = 30.0


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Ask again and again; fails when it takes too long."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        answer = condition()
        if answer if isinstance(answer, bool) else await answer:
            return
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)
