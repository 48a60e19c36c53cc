"""Since when workers could say that they live. While the API, its database or the way to them was away nobody could
tell them from dead ones, and whoever lives needs a moment to say so."""

import asyncio
import time

from rft.platform.rollout_inbox.repository import InboxRepository
from rft.rollouts.shards.inbox_wire import SHARD_LEASE_S

_PATIENCE_S = SHARD_LEASE_S
"""How long workers have to say it once they can."""
_LOOK_S = 1.0
_GAP_S = 2.0
"""Whoever was not heard for longer than this may not have been able to speak."""
_UNREAD_S = 4.0
"""The same of a trainer, which may take seconds to read large rollouts on a slow line: each time that is given keeps
dead workers' shards, too. No outage under some five seconds costs a worker its lease (`SHARD_LEASE_S`), which it makes
anew every `BEAT_S`."""


class Patience:
    """One per process of the API; it begins with the process."""

    def __init__(self) -> None:
        self._since_s = time.monotonic()
        self._looked_at = time.time()

    def begin_anew(self) -> None:
        """Workers could not be heard just now."""
        self._since_s = time.monotonic()

    def had_s(self, *, asked_at_s: float) -> float | None:
        """How long workers had at least; None before they had their time.

        `asked_at_s`: `time.monotonic()` before the database was asked.
        """
        self._look()
        if time.monotonic() - asked_at_s > _GAP_S:  # So long had workers to wait for it, too.
            self.begin_anew()
        return _PATIENCE_S if time.monotonic() > self._since_s + _PATIENCE_S else None

    async def watch(self) -> None:
        """Notice, until cancelled, when this process was stopped or its machine slept."""
        while True:
            self._look()
            await asyncio.sleep(_LOOK_S)

    def _look(self) -> None:
        now = time.time()  # The monotonic clock stands still while a machine sleeps, and the database's may not.
        if now - self._looked_at > _GAP_S:
            self.begin_anew()
        self._looked_at = now


async def hear_trainer(inbox: InboxRepository) -> None:
    """A trainer that could not read was kept off by what may have kept its workers off, too.

    In the database: a trainer's next read may come to another process of the API.
    """
    if await inbox.note_read() > _UNREAD_S:
        await inbox.give_time(_PATIENCE_S)
