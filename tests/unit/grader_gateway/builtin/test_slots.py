"""Slots are fair between owners, whoever came first and however many."""

import threading
import time
from collections.abc import Callable

import pytest

from rft.grader_gateway.builtin.sandbox.slots import FairSlots, SlotShare


class Queue:
    """Threads that want slots; each holds its own until it is let go."""

    def __init__(self, slots: FairSlots) -> None:
        self.slots, self.begun = slots, list[str]()
        self._ends: dict[str, threading.Event] = {}
        self._waiting = set[str]()
        """Who has had to wait at least once."""
        self._threads = list[threading.Thread]()

    def want(self, name: str, share: SlotShare) -> None:
        self._ends[name] = threading.Event()
        self._threads.append(threading.Thread(target=self._hold, args=(name, share), daemon=True))
        self._threads[-1].start()
        assert soon(lambda: name in self.begun or name in self._waiting), "they come in this order"

    def end(self, name: str) -> None:
        self._ends[name].set()

    def end_all(self) -> None:
        for name in self._ends:
            self.end(name)
        for thread in self._threads:
            thread.join(5)

    def _hold(self, name: str, share: SlotShare) -> None:
        def is_given_up() -> bool:
            self._waiting.add(name)
            return self._ends[name].is_set()

        with self.slots.slot(share, is_given_up=is_given_up) as is_had:
            if is_had:
                self.begun.append(name)
                self._ends[name].wait()


def soon(condition: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.005)
    return condition()


@pytest.mark.parametrize("others_most", [None, 4])
def test_a_free_slot_goes_to_the_owner_with_the_fewest(others_most: int | None) -> None:
    queue = Queue(FairSlots(3))
    for number in range(8):
        queue.want(f"crowd {number}", SlotShare("crowd", others_most))
    queue.want("late", SlotShare("late"))
    assert queue.begun == ["crowd 0", "crowd 1", "crowd 2"]
    queue.end("crowd 1")
    assert soon(lambda: len(queue.begun) == 4)
    assert queue.begun[3] == "late"
    queue.end("late")
    assert soon(lambda: len(queue.begun) == 5)
    assert queue.begun[4] == "crowd 3"
    queue.end_all()


def test_an_owner_never_has_more_than_its_share() -> None:
    queue = Queue(FairSlots(4))
    for number in range(5):
        queue.want(f"a {number}", SlotShare("a", most=2))
    assert queue.begun == ["a 0", "a 1"]
    queue.want("b", SlotShare("b", most=2))
    assert soon(lambda: queue.begun == ["a 0", "a 1", "b"])
    queue.end_all()


def test_who_gives_up_waiting_leaves_the_queue_and_takes_nothing() -> None:
    slots = FairSlots(1)
    with slots.slot(SlotShare("a"), is_given_up=lambda: False) as is_had:
        assert is_had
        with slots.slot(SlotShare("b"), is_given_up=lambda: True) as also:
            assert not also
    with slots.slot(SlotShare("b"), is_given_up=lambda: True) as is_had:
        assert is_had
