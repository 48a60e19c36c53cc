"""Deadlines of rollouts that stand still while nobody under way is to blame for waiting."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Deadlines:
    """The deadlines of the rollouts under way. While stopped, none of them runs down."""

    def __init__(self) -> None:
        self._left_s: dict[asyncio.Timeout, float] = {}
        """What each had left when it last stood still."""
        self._is_stopped = False

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncGenerator[asyncio.Timeout]:
        """As `asyncio.timeout`: TimeoutError once the time is used up."""
        async with asyncio.timeout(None if self._is_stopped else seconds) as deadline:
            self._left_s[deadline] = seconds
            try:
                yield deadline
            finally:
                del self._left_s[deadline]

    def stop(self) -> None:
        """Let all of them stand still, those to come included."""
        if self._is_stopped:
            return
        self._is_stopped = True
        now_s = asyncio.get_running_loop().time()
        for deadline in self._running():
            ends_s = deadline.when()
            if ends_s is not None:
                self._left_s[deadline] = max(0.0, ends_s - now_s)
                deadline.reschedule(None)

    def go_on(self) -> None:
        """Let them run again, each with what it had left."""
        if not self._is_stopped:
            return
        self._is_stopped = False
        now_s = asyncio.get_running_loop().time()
        for deadline in self._running():
            deadline.reschedule(now_s + self._left_s[deadline])

    def _running(self) -> list[asyncio.Timeout]:
        return [deadline for deadline in self._left_s if not deadline.expired()]
