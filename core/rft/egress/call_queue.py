"""Calls that wait for a slot at one endpoint, fair to those who make them."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import TypeAlias

from rft.egress.calls_inside import Slot
from rft.egress.reply import AttemptFailure


class EndpointDown(Exception):
    """The endpoint has been down for longer than calls may wait for it."""

    def __init__(self, last_failure: AttemptFailure, down_s: float) -> None:
        super().__init__(f"down for {down_s:.0f} s")
        self.last_failure, self.down_s = last_failure, down_s


_Waiter: TypeAlias = "asyncio.Future[Slot]"
_Line: TypeAlias = "OrderedDict[_Waiter, None]"
"""Those that give up leave it wherever they stand."""


class CallQueue:
    """Waiting calls by owner (a job), retries apart from first attempts.

    The owner with the fewest calls inside goes first, of several the one that was served longest ago, and within one
    owner first come, first served.
    """

    def __init__(self) -> None:
        self.first_attempts = self.retries = 0
        """How many wait."""
        self._firsts: dict[str, _Line] = {}
        self._again: dict[str, _Line] = {}

    def __len__(self) -> int:
        return self.first_attempts + self.retries

    def join(self, owner: str, *, is_retry: bool) -> _Waiter:
        """What the call is to await."""
        waiter: _Waiter = asyncio.get_running_loop().create_future()
        (self._again if is_retry else self._firsts).setdefault(owner, OrderedDict())[waiter] = None
        self._count(1, is_retry=is_retry)
        return waiter

    def next(self, inside: Mapping[str, int], *, is_retry: bool) -> tuple[str, _Waiter]:
        """The owner whose turn it is, and its first call; there is one. `inside`: calls by owner."""
        lines = self._again if is_retry else self._firsts
        owner = min(lines, key=lambda waiting: inside.get(waiting, 0))
        line = lines.pop(owner)
        waiter, _ = line.popitem(last=False)
        if line:
            lines[owner] = line  # Behind all others: of owners with equally few calls inside each has its turn.
        self._count(-1, is_retry=is_retry)
        return owner, waiter

    def drop(self, owner: str, waiter: _Waiter, *, is_retry: bool) -> None:
        """The call waits no longer; nothing where it was taken out already."""
        lines = self._again if is_retry else self._firsts
        line = lines.get(owner)
        if line is None or waiter not in line:
            return
        del line[waiter]
        if not line:
            del lines[owner]
        self._count(-1, is_retry=is_retry)

    def fail_all(self, error: EndpointDown) -> None:
        """Nobody waits any longer."""
        # One exception each: a traceback grows with every place it is raised at.
        for lines in (self._firsts, self._again):
            for waiter in (waiter for line in lines.values() for waiter in line if not waiter.done()):
                waiter.set_exception(EndpointDown(error.last_failure, error.down_s))
            lines.clear()
        self.first_attempts = self.retries = 0

    def _count(self, change: int, *, is_retry: bool) -> None:
        if is_retry:
            self.retries += change
        else:
            self.first_attempts += change
