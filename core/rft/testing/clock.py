"""A clock that moves only when told to, or when somebody sleeps on it."""

import asyncio


class FrozenClock:
    """Stands in for `time.monotonic` and `asyncio.sleep`: sleeping takes no time but moves the clock."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s
        self.slept_s: list[float] = []
        """Every sleep asked for, in order."""

    def now(self) -> float:
        """Seconds, monotonic."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds

    async def sleep(self, seconds: float) -> None:
        """Move the clock by `seconds` and let other tasks run once."""
        self.slept_s.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)
