"""One read for everybody who asks for the same at the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Reading(Generic[T]):
    """One read that has not ended."""

    task: asyncio.Task[T]
    has_begun: bool = False
    """What is read for it may be older than who asks from now on."""


class SharedReads(Generic[T]):
    """What one process reads for several callers, none of it read before they asked.

    At most one read of each key goes on at a time; whoever asks meanwhile shares the one that comes after it.
    """

    def __init__(self) -> None:
        self._newest: dict[str, _Reading[T]] = {}

    @property
    def is_idle(self) -> bool:
        """Nobody waits, and nothing is kept."""
        return not self._newest

    async def get(self, key: str, read: Callable[[], Awaitable[T]]) -> T:
        """What `read` returns or raises, called here or for another caller with this key."""
        newest = self._newest.get(key)
        if newest is None or newest.has_begun:
            before = None if newest is None else newest.task
            newest = _Reading(asyncio.create_task(self._read(key, before, read)))
            newest.task.add_done_callback(_heard)
            self._newest[key] = newest
        # A caller who hangs up ends nobody else's wait.
        return await asyncio.shield(newest.task)

    async def _read(self, key: str, before: asyncio.Task[T] | None, read: Callable[[], Awaitable[T]]) -> T:
        if before is not None:
            await asyncio.wait((before,))
        reading = self._newest[key]
        reading.has_begun = True
        try:
            return await read()
        finally:
            if self._newest[key] is reading:
                del self._newest[key]


def _heard(task: asyncio.Task[T]) -> None:
    """All who asked may have hung up: then nobody else looks at what it raised."""
    if not task.cancelled():
        task.exception()
