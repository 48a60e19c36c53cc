"""An event loop whose clock jumps: waiting costs no time, and who waits longer still wakes later."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of sleeping until the next timer, moves the clock there."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("every task waits for something that no timer will ever bring")
        self.now_s += max(0.0, timeout)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """For code that waits on timers and tasks alone: no threads, no sockets."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jumping.now_s

    def be_busy(self, seconds: float) -> None:
        """As if the step under way took so long."""
        self._jumping.now_s += seconds


def run_in_virtual_time(main: "Coroutine[Any, Any, T]") -> T:
    """Run a coroutine on a fresh `VirtualTimeLoop`. Raises RuntimeError when everything waits for ever."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def virtual_clock() -> float:
    """The running loop's time: the `clock` that belongs to `run_in_virtual_time`."""
    return asyncio.get_running_loop().time()
