"""What one grade may use. Its time is told by a clock of its own: a busy machine must cost no answer its score."""

import os
import time
from contextlib import suppress
from typing import NamedTuple

_LOOKS = 20
"""At a child within its time limit, at the least."""
_LOOK_S = 0.25
_CPU_CLOCK = 2
"""Of a process, in the kernel's numbering of clocks: the processor time it had."""


class Limits(NamedTuple):
    """What one grade may use."""

    timeout_s: float
    """Of its own time (`OwnTime`)."""
    memory_bytes: int

    @property
    def look_s(self) -> float:
        """How often its time is looked at."""
        return min(_LOOK_S, self.timeout_s / _LOOKS)


def patience_s(timeout_s: float) -> float:
    """Wall time after which a grade that has not used up its own time is given up: the machine has none for it."""
    return 3.0 * timeout_s + 30.0


class OwnTime:
    """What a child had of its time limit: seconds that it computed, or slept by its own choice.

    Waiting for a processor, for memory to come back from a disk, or being stopped is not its doing. Where the kernel
    does not show whether it sleeps, all of its wall time counts. Look at it while it lives.
    """

    def __init__(self, child: int, *, look_s: float) -> None:
        self._child, self._longest_s = child, 2.0 * look_s
        self._looked_s = time.monotonic()
        self._computed_s = self._slept_s = 0.0

    def spent_s(self) -> float:
        """Up to now."""
        now_s, computed_s = time.monotonic(), self._computed_s
        with suppress(OSError):
            computed_s = time.clock_gettime((~self._child << 3) | _CPU_CLOCK)
        # Where we were stopped ourselves, nobody knows what it did all that time.
        passed_s = min(now_s - self._looked_s, self._longest_s)
        if self._sleeps():
            self._slept_s += max(0.0, passed_s - (computed_s - self._computed_s))
        self._looked_s, self._computed_s = now_s, computed_s
        return computed_s + self._slept_s

    def _sleeps(self) -> bool:
        try:
            stat = os.open(f"/proc/{self._child}/stat", os.O_RDONLY)
        except OSError:
            return True
        try:
            # `pid (any name) state ...`
            return os.read(stat, 1024).rpartition(b") ")[2][:1] == b"S"
        finally:
            os.close(stat)
