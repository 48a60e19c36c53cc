"""The sandbox processes of one grader: started when needed, used again, replaced when lost."""

import os
import threading
import time
import weakref
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from pydantic import JsonValue

from rft.grader_gateway.builtin.sandbox.child import ChildProcess, SandboxLost
from rft.grader_gateway.builtin.sandbox.process import SandboxProcess, SandboxSetup
from rft.grader_gateway.builtin.sandbox.slots import FairSlots, SlotShare

AT_ONCE = max(4, os.cpu_count() or 1)
"""Grades under way in one process of ours, of all graders together: each may take gigabytes."""
_SLOTS = FairSlots(AT_ONCE)


class Ticket:
    """One grade under way, so that it can be given up from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: ChildProcess | None = None
        self._is_given_up = False
        self.elapsed_s = 0.0
        """What the grade took, without its wait for a process."""

    @property
    def is_given_up(self) -> bool:
        """Whether nobody waits for it any more."""
        return self._is_given_up

    def give_up(self) -> None:
        """End the grade; its sandbox goes with it."""
        with self._lock:
            self._is_given_up = True
            if self._process is not None:
                self._process.kill()

    @contextmanager
    def using(self, process: ChildProcess) -> Generator[None]:
        """While `process` works for this grade. Raises SandboxLost where it was given up before."""
        with self._lock:
            if self._is_given_up:
                raise SandboxLost("the grade was given up")
            self._process = process
        try:
            yield
        finally:
            with self._lock:
                self._process = None


class SandboxPool:
    """At most `processes` grades at once, `AT_ONCE` with those of other pools; the others wait, fairly by owner."""

    def __init__(self, setup: SandboxSetup, *, processes: int, share: SlotShare) -> None:
        self._setup, self._share = setup, share
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="rft-grader")
        self._idle: list[SandboxProcess] = []
        self._tickets: set[Ticket] = set()
        self._lock = threading.Lock()
        self._is_closed = False
        self._never: dict[str, JsonValue] | None = None
        """What was said of the source, where no process of it will ever start."""
        # A pool that nobody closes takes its processes along when it is forgotten.
        self._forgotten = weakref.finalize(self, _close_all, self._idle)

    @property
    def threads(self) -> ThreadPoolExecutor:
        """Where `grade` is to be run."""
        return self._threads

    def grade(self, request: dict[str, JsonValue], ticket: Ticket) -> dict[str, JsonValue]:
        """A sandbox's verdict. What this machine ended is tried once more in a new process, then raises SandboxLost."""
        if self._never is not None:
            return self._never
        with self._lock:
            self._tickets.add(ticket)
        try:
            with self._slot(ticket):
                try:
                    return self._graded(self._taken(), request, ticket)
                except SandboxLost:
                    if ticket.is_given_up or self._is_closed:
                        raise
                    return self._graded(None, request, ticket)
        finally:
            with self._lock:
                self._tickets.discard(ticket)

    @contextmanager
    def _slot(self, ticket: Ticket) -> Generator[None]:
        """A slot among all pools of this process. Raises SandboxLost where nobody waits for it any more."""
        with _SLOTS.slot(self._share, is_given_up=lambda: ticket.is_given_up or self._is_closed) as is_had:
            if not is_had:
                raise SandboxLost("the grade was given up")
            yield

    def _taken(self) -> SandboxProcess | None:
        with self._lock:
            if self._is_closed:
                raise SandboxLost("the grader was closed")
            return self._idle.pop() if self._idle else None

    def _graded(
        self, process: SandboxProcess | None, request: dict[str, JsonValue], ticket: Ticket
    ) -> dict[str, JsonValue]:
        is_new = process is None
        process = process or SandboxProcess(self._setup)
        is_well = False
        try:
            with ticket.using(process):
                if is_new and "ready" not in (said := process.start()):
                    self._never = said if "unusable" in said else None
                    return _unless_lost(said)
                started_s = time.monotonic()
                verdict = _unless_lost(process.grade(request))
                ticket.elapsed_s = time.monotonic() - started_s
            is_well = True
            return verdict
        finally:
            self._put_back(process, is_well=is_well)

    def _put_back(self, process: SandboxProcess, *, is_well: bool) -> None:
        with self._lock:
            if is_well and not self._is_closed:
                self._idle.append(process)
                return
        process.close()

    def close(self) -> None:
        """Give up what is under way and end all processes."""
        with self._lock:
            self._is_closed = True
            tickets = list(self._tickets)  # one that came later finds the pool closed
        for ticket in tickets:
            ticket.give_up()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._forgotten()


def _unless_lost(said: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Raises SandboxLost where this machine ended what the code was about."""
    if "lost" in said:
        raise SandboxLost(str(said["lost"]))
    return said


def _close_all(processes: list[SandboxProcess]) -> None:
    while processes:
        processes.pop().close()
