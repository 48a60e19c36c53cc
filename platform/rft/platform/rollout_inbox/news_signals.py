"""Wakes whoever waits for a job's inbox in this process. Another process's news are found by looking now and then."""

import asyncio
from contextlib import suppress


class NewsSignals:
    """One event per inbox that somebody waits for."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def notify(self, job_id: str) -> None:
        """There is news."""
        event = self._events.pop(job_id, None)
        if event is not None:
            event.set()

    def next(self, job_id: str) -> asyncio.Event:
        """Set by the next notification. Ask for it before looking, so that no news comes between."""
        return self._events.setdefault(job_id, asyncio.Event())


async def set_within(event: asyncio.Event, seconds: float) -> None:
    """Return when it is set, or after so long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
