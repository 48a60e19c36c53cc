"""Rollout ends that are being told to callback URLs, and which open rollouts still need their end told."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Protocol

from rft.egress.drain_pending import drain_pending

_log = logging.getLogger(__name__)


class OpenRollouts(Protocol):
    """Keeps the rollouts whose beginning was told and whose end was not."""

    def begin(self, trace_id: str) -> None:
        """Its beginning is about to be told."""
        ...

    def close(self, trace_id: str, *, is_told: bool) -> None:
        """Its end was told, or could not be told within the retry budget."""
        ...


class RolloutEnds:
    """Tells ends in the background and keeps open rollouts: a later process tells what a killed one did not."""

    def __init__(self, open_rollouts: OpenRollouts | None) -> None:
        self._open_rollouts = open_rollouts
        self._underway: set[asyncio.Task[None]] = set()

    def expect(self, trace_id: str) -> None:
        """This rollout's beginning is about to be told, so that its end will have to be."""
        if self._open_rollouts is not None:
            self._open_rollouts.begin(trace_id)

    def tell(self, trace_id: str, telling: Awaitable[bool]) -> None:
        """Its end is told by this work, which fails quietly and says whether everybody was told."""
        task = asyncio.create_task(self._told(trace_id, telling))
        self._underway.add(task)
        task.add_done_callback(self._underway.discard)

    async def all_told(self, timeout_s: float) -> None:
        """Wait until every end so far is told, at most so long."""
        if self._underway:
            await asyncio.wait(self._underway, timeout=timeout_s)

    async def aclose(self, hurry: asyncio.Event | None = None) -> None:
        """Tell what was not told yet, within each call's retry budget; in seconds once `hurry` is set."""
        late = await drain_pending(self._underway, hurry)
        if late:
            _log.warning("%d ends of rollouts could not be told to their tool servers", late)

    async def _told(self, trace_id: str, telling: Awaitable[bool]) -> None:
        is_told = await telling
        if self._open_rollouts is not None:
            self._open_rollouts.close(trace_id, is_told=is_told)
