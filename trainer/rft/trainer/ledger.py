"""The trainer's side of the failure ledger: attempts are collected, and told in batches."""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from rft.core.attempt import Attempt
from rft.core.events import AttemptsMade, CallsFailed
from rft.egress.failed_calls import FailedCalls
from rft.trainer.events import EventWriter

BATCH = 500
"""Attempts in one event at most."""
PATIENCE_S = 1.0
"""How long an attempt waits at most before it is told."""


_STEP: ContextVar[int] = ContextVar("step", default=0)
"""For which attempts are made. Rounds of several steps run at once, each in a task of its own."""


class Ledger:
    """Used only in the rollouts' event loop, where attempts are made."""

    def __init__(self, events: EventWriter, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._events, self._clock = events, clock
        self.failed_calls = FailedCalls()
        """Told beside the attempts."""
        self._pending: dict[int, list[Attempt]] = {}
        """By step."""
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def step(self, step: int) -> Generator[None]:
        """What is attempted inside, and in tasks that begin inside, is attempted for this step."""
        token = _STEP.set(step)
        try:
            yield
        finally:
            self.flush()
            _STEP.reset(token)

    def add(self, attempt: Attempt) -> None:
        """One more line. Costs next to nothing: what it takes to tell of it is paid once per batch."""
        step = _STEP.get()
        pending = self._pending.setdefault(step, [])
        pending.append(attempt)
        if len(pending) >= BATCH:
            self._tell(step)
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self.flush)

    def flush(self) -> None:
        """Tell of everything collected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        steps = list(self._pending)
        for step in steps:
            self._tell(step)
        if steps:
            self._tell_failed(is_last=False)

    def _tell(self, step: int) -> None:
        self._events.append(AttemptsMade(step=step, attempts=tuple(self._pending.pop(step))))

    async def aclose(self) -> None:
        """Tell of the last ones."""
        self.flush()
        self._tell_failed(is_last=True)

    def _tell_failed(self, *, is_last: bool) -> None:
        failed = self.failed_calls.take(self._clock(), is_last=is_last)
        if failed:
            self._events.append(CallsFailed(calls=tuple(failed)))
