"""Calls per second over the last minute. Pure, no clock."""

from collections import deque
from dataclasses import dataclass, field

SPAN_S = 60


@dataclass(slots=True)
class CallRate:
    """Counts by whole seconds."""

    _counts: deque[tuple[int, int]] = field(default_factory=lambda: deque[tuple[int, int]]())
    """Second and calls, oldest first; none twice."""

    def add(self, now_s: float) -> None:
        """One more."""
        second, before = int(now_s), 0
        if self._counts and self._counts[-1][0] == second:
            before = self._counts.pop()[1]
        self._counts.append((second, before + 1))
        self._forget(now_s)

    def per_second(self, now_s: float) -> float:
        """Over the last minute, however little of it has passed."""
        self._forget(now_s)
        return sum(count for _, count in self._counts) / SPAN_S

    def _forget(self, now_s: float) -> None:
        while self._counts and self._counts[0][0] <= now_s - SPAN_S:
            self._counts.popleft()
