"""A clock that a test turns, in place of a module's `time`: no stall of the machine counts."""

import time
from types import SimpleNamespace
from typing import Any

import pytest


class TurnedClock:
    """`time.monotonic` of one module: it stands still until it is turned, or goes on by itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
        self._now_s: float | None = time.monotonic()
        self._asked = 0
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=self._monotonic, time=time.time))

    @property
    def asked(self) -> int:
        """How often it was looked at."""
        return self._asked

    def turn(self, by_s: float) -> None:
        """It is that much later."""
        assert self._now_s is not None
        self._now_s += by_s

    def go(self) -> None:
        """From now on it tells the time."""
        self._now_s = None

    def _monotonic(self) -> float:
        self._asked += 1
        return time.monotonic() if self._now_s is None else self._now_s
