"""The trainer's side of the failure ledger: attempts are collected, and told in batches."""

import asyncio

from rft.core.attempt import Attempt
from rft.core.events import AttemptsMade
from rft.trainer.events import EventWriter

BATCH = 500
"""Attempts in one event at most."""
PATIENCE_S = 1.0
"""How long an attempt waits at most before it is told."""


class Ledger:
    """Used only in the rollouts' event loop, where attempts are made."""

    def __init__(self, events: EventWriter) -> None:
        self._events = events
        self._pending: list[Attempt] = []
        self._timer: asyncio.TimerHandle | None = None
        self._step = 0

    def begin(self, step: int) -> None:
        """From now on attempts are made for this step."""
        self.flush()
        self._step = step

    def add(self, attempt: Attempt) -> None:
        """One more line. Costs next to nothing: what it takes to tell of it is paid once per batch."""
        self._pending.append(attempt)
        if len(self._pending) >= BATCH:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self.flush)

    def flush(self) -> None:
        """Tell of everything collected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            pending, self._pending = self._pending, []
            self._events.append(AttemptsMade(step=self._step, attempts=tuple(pending)))

    async def aclose(self) -> None:
        """Tell of the last ones."""
        self.flush()
