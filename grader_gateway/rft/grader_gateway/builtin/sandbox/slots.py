"""Slots for what a machine can do few of at once, fair between their owners. Blocking: for threads."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

_LOOK_UP_S = 0.1


@dataclass(frozen=True, slots=True)
class SlotShare:
    """For whom slots are taken."""

    owner: str
    """A job, or the key of an API's caller."""
    most: int | None = None
    """Slots that the owner has at most, however many are free; None: all."""


class FairSlots:
    """`count` slots. A free one goes to the waiting owner that has the fewest, of these to who came first."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count
        self._held = Counter[str]()
        self._waiting: dict[int, SlotShare] = {}
        self._numbers = itertools.count()
        self._changed = threading.Condition()

    @contextmanager
    def slot(self, share: SlotShare, *, is_given_up: Callable[[], bool]) -> Generator[bool]:
        """Waits for a slot and has it; False, and none is had, once `is_given_up` says that nobody waits any more."""
        if not self._acquire(share, is_given_up):
            yield False
            return
        try:
            yield True
        finally:
            with self._changed:
                self._free += 1
                self._held[share.owner] -= 1
                self._held += Counter()  # forgets owners without slots
                self._changed.notify_all()

    def _acquire(self, share: SlotShare, is_given_up: Callable[[], bool]) -> bool:
        with self._changed:
            number = next(self._numbers)
            self._waiting[number] = share
            try:
                while self._next() != number:
                    if is_given_up():
                        return False
                    self._changed.wait(_LOOK_UP_S)
                self._free -= 1
                self._held[share.owner] += 1
                return True
            finally:
                del self._waiting[number]
                self._changed.notify_all()

    def _next(self) -> int | None:
        if not self._free:
            return None
        can = (
            (self._held[share.owner], number)
            for number, share in self._waiting.items()
            if share.most is None or self._held[share.owner] < share.most
        )
        return min(can, default=(0, None))[1]
