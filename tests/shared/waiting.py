"""Waiting for what another thread or process does, with a deadline."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import psutil

PATIENCE_S = 120.0


async def until(condition: Callable[[], bool | Awaitable[bool]], what: str, *, poll_s: float = 0.05) -> None:
    """Ask again and again; fails when it takes too long."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        has_happened = condition()
        if has_happened if isinstance(has_happened, bool) else await has_happened:
            return
        assert time.monotonic() < deadline_s, f"waited too long for: {what}"
        await asyncio.sleep(poll_s)


def is_gone(pid: int) -> bool:
    """Whether a process has ended with all its threads, whoever has yet to take note of it.

    One that was killed is a zombie while other threads of it still end, and cannot be waited for until they have.
    """
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() == 1
    except psutil.NoSuchProcess:
        return True
