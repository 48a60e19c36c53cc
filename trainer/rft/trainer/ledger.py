"""The trainer's side of the failure ledger: attempts are collected, and told in batches."""

import asyncio
import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rft.core.attempt import Attempt
from rft.core.events import AttemptsMade, CallsFailed, RolloutBegan
from rft.egress.failed_calls import FailedCalls
from rft.trainer.events import EventWriter

_LOG = logging.getLogger(__name__)
BATCH = 500
"""Attempts in one event at most."""
PATIENCE_S = 1.0
"""How long an attempt waits at most before it is told."""


_KEPT_STEPS = 16
"""Attempts for a rollout may come after its step: its end is told when the others have ended, too."""


class Ledger:
    """Used only in the rollouts' event loop, where attempts are made."""

    def __init__(self, events: EventWriter, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._events, self._clock = events, clock
        self.failed_calls = FailedCalls()
        """Told beside the attempts."""
        self._pending: dict[int, list[Attempt]] = {}
        """By step."""
        self._timer: asyncio.TimerHandle | None = None
        self._step = 0
        self._step_of: dict[str, int] = {}
        """By trace id. Whoever tells of an attempt may do so for rollouts of several steps."""

    @contextmanager
    def step(self, step: int) -> Generator[None]:
        """A round of this step; rounds of several may be under way. Attempts for no known rollout are its."""
        self._step = step
        try:
            yield
        finally:
            self.flush()
            self._step_of = {name: of for name, of in self._step_of.items() if of > step - _KEPT_STEPS}

    def began(self, rollout: RolloutBegan) -> None:
        """What is attempted for it is attempted for its step."""
        self._step_of[rollout.trace_id] = rollout.key.step

    def add(self, attempt: Attempt) -> None:
        """One more line. Costs next to nothing: what it takes to tell of it is paid once per batch. Raises OSError."""
        step = self._step_of.get(attempt.trace_id, self._step)
        pending = self._pending.setdefault(step, [])
        pending.append(attempt)
        if len(pending) >= BATCH:
            self._tell(step)
        elif self._timer is None:
            self._wait()

    def flush(self) -> None:
        """Tell of everything collected. Raises OSError: what could not be told stays collected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        steps = list(self._pending)
        for step in steps:
            self._tell(step)
        if steps:
            self._tell_failed(is_last=False)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self._flush_later)

    def _flush_later(self) -> None:
        """Nobody would hear that it failed: what a full disk does not take is told once there is room."""
        try:
            self.flush()
        except OSError as error:
            _LOG.warning("attempts cannot be told of yet: %s", error)
            self._wait()

    def _tell(self, step: int) -> None:
        pending = self._pending[step]
        while pending:
            self._events.append(AttemptsMade(step=step, attempts=tuple(pending[:BATCH])))
            del pending[:BATCH]
        del self._pending[step]

    async def aclose(self) -> None:
        """Tell of the last ones."""
        self.flush()
        self._tell_failed(is_last=True)

    def _tell_failed(self, *, is_last: bool) -> None:
        failed = self.failed_calls.take(self._clock(), is_last=is_last)
        if failed:
            self._events.append(CallsFailed(calls=tuple(failed)))
