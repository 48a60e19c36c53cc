"""One reply for everybody who asks for the same at the same time, such as the open pages of a job whose step ended."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class _Making:
    """One reply on its way."""

    task: asyncio.Task[bytes]
    has_begun: bool = False
    """What is read for it may be older than who asks from now on."""


class SharedReplies:
    """Replies of one process that several callers get, none of them read before it was asked for.

    At most one of each key is made at a time; whoever asks meanwhile shares the one that comes after it.
    """

    def __init__(self) -> None:
        self._newest: dict[str, _Making] = {}

    @property
    def is_idle(self) -> bool:
        """Nobody waits, and nothing is kept."""
        return not self._newest

    async def get(self, key: str, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """What `make` returns or raises, called here or for another caller with this key."""
        newest = self._newest.get(key)
        if newest is None or newest.has_begun:
            before = None if newest is None else newest.task
            newest = _Making(asyncio.create_task(self._make(key, before, make)))
            newest.task.add_done_callback(_heard)
            self._newest[key] = newest
        # A caller who hangs up ends nobody else's wait.
        return await asyncio.shield(newest.task)

    async def _make(self, key: str, before: asyncio.Task[bytes] | None, make: Callable[[], Awaitable[bytes]]) -> bytes:
        if before is not None:
            await asyncio.wait((before,))
        making = self._newest[key]
        making.has_begun = True
        try:
            return await make()
        finally:
            if self._newest[key] is making:
                del self._newest[key]


def _heard(task: asyncio.Task[bytes]) -> None:
    """All who asked may have hung up: then nobody else looks at what it raised."""
    if not task.cancelled():
        task.exception()
