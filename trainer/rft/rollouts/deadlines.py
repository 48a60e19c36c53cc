"""Deadlines of rollouts that stand still while a rollout waits for what is not its own doing."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager


class Deadlines:
    """The deadlines of the rollouts under way. While stopped, none of them runs down.

    One whose request waits in the engine's queue stands still alone: how long it waits says how many rollouts there are
    and how many places, and nothing of itself. A queue that lets nobody in for longer than a rollout may take hangs,
    because whoever has a place leaves it by then: all that wait in it are out of time.
    """

    def __init__(self) -> None:
        self._left_s: dict[asyncio.Timeout, float] = {}
        """What each had left when it last stood still."""
        self._queued: dict[asyncio.Timeout, float] = {}
        """Those in the engine's queue, with the whole time each was given."""
        self._moved_s = 0.0
        """When the queue last let somebody in, or began."""
        self._watchdog: asyncio.TimerHandle | None = None
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

    @contextmanager
    def queued(self, deadline: asyncio.Timeout, *, limit_s: float) -> Generator[None]:
        """The deadline stands still inside; it strikes when nobody leaves the queue for `limit_s`."""
        if not self._is_stopped:
            self._stand_still(deadline)
        if not self._queued:
            self._moved_s = _now_s()
        self._queued[deadline] = limit_s
        self._watch()
        try:
            yield
            self._moved_s = _now_s()
        finally:
            del self._queued[deadline]
            self._watch()
            if not self._is_stopped and not deadline.expired():
                deadline.reschedule(_now_s() + self._left_s[deadline])

    def stop(self) -> None:
        """Let all of them stand still, those to come included."""
        if self._is_stopped:
            return
        self._is_stopped = True
        self._watch()
        for deadline in self._running():
            self._stand_still(deadline)

    def go_on(self) -> None:
        """Let them run again, each with what it had left."""
        if not self._is_stopped:
            return
        self._is_stopped = False
        self._moved_s = _now_s()
        self._watch()
        for deadline in self._running():
            deadline.reschedule(self._moved_s + self._left_s[deadline])

    def _running(self) -> list[asyncio.Timeout]:
        return [deadline for deadline in self._left_s if not deadline.expired() and deadline not in self._queued]

    def _stand_still(self, deadline: asyncio.Timeout) -> None:
        ends_s = deadline.when()
        if ends_s is not None and not deadline.expired():
            self._left_s[deadline] = max(0.0, ends_s - _now_s())
            deadline.reschedule(None)

    def _watch(self) -> None:
        """Keep one timer going while somebody waits; that the queue moves is only looked at when it fires."""
        if not self._queued or self._is_stopped:
            if self._watchdog is not None:
                self._watchdog.cancel()
                self._watchdog = None
        elif self._watchdog is None:
            due_s = self._moved_s + min(self._queued.values())
            self._watchdog = asyncio.get_running_loop().call_at(due_s, self._look)

    def _look(self) -> None:
        self._watchdog = None
        now_s = _now_s()
        out_of_time = [deadline for deadline, limit_s in self._queued.items() if now_s >= self._moved_s + limit_s]
        for deadline in out_of_time:
            if not deadline.expired():
                deadline.reschedule(now_s)
        if out_of_time:
            self._moved_s = now_s  # Who comes now waits as long before the queue is taken for hung again.
        self._watch()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
