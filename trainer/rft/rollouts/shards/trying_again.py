"""Outages of the platform or the queue: waited for, and told once."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from rft.rollouts.shards.inbox import BrokerDown, InboxDown

T = TypeVar("T")
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0


@dataclass(slots=True)
class Patience:
    """Tries again for as long as it takes."""

    tell_down: Callable[[str], None]
    """Called once for each outage, with its first problem, when it lasts for `told_after_s`."""
    tell_up: Callable[[float], None]
    """Called when an outage that was told is over, with how long it lasted."""
    tell_still: Callable[[], None] = lambda: None
    """Called after each further attempt that fails during an outage that was told."""
    told_after_s: float = 5.0
    _since_s: float | None = None
    """When the outage under way began."""
    _failing: int = 0
    """Calls under way whose latest attempt failed: while there are any, another's success ends no outage."""
    _is_told: bool = False

    async def until_done(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """What the attempt that gets through returns. Raises what is no outage."""
        wait_s, is_failing = _FIRST_WAIT_S, False
        try:
            while True:
                try:
                    done = await attempt()
                except (InboxDown, BrokerDown) as problem:
                    self._failing += not is_failing
                    is_failing = True
                    self._note(str(problem))
                    await asyncio.sleep(wait_s)
                    wait_s = min(2.0 * wait_s, _LONGEST_WAIT_S)
                else:
                    break
        finally:
            self._failing -= is_failing
        if not self._failing:
            self._recover()
        return done

    def _note(self, problem: str) -> None:
        now_s = _now_s()
        if self._since_s is None:
            self._since_s = now_s
        if self._is_told:
            self.tell_still()
        elif now_s - self._since_s >= self.told_after_s:
            self._is_told = True
            self.tell_down(problem)

    def _recover(self) -> None:
        if self._since_s is not None and self._is_told:
            self.tell_up(_now_s() - self._since_s)
        self._since_s, self._is_told = None, False


def _now_s() -> float:
    return asyncio.get_running_loop().time()
