"""Follows what workers do with the rollouts that they were given: for people to see, and for nothing else."""

import asyncio
import logging

from rft.core.errors import RftError
from rft.core.progress import StageCounts
from rft.rollouts.shards.inbox import StaleLaunch, TrainerInbox
from rft.rollouts.shards.inbox_wire import BEAT_S

_LOG = logging.getLogger(__name__)


class WorkerStages:
    """For one event loop. `now` is as old as two beats at most; nothing where the inbox cannot be asked."""

    def __init__(self, inbox: TrainerInbox) -> None:
        self._inbox = inbox
        self._task: asyncio.Task[None] | None = None
        self._now = StageCounts()

    def now(self) -> StageCounts:
        """Of all workers together."""
        return self._now

    def start(self) -> None:
        """Begin to ask."""
        self._task = asyncio.create_task(self._follow())

    async def aclose(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            try:
                self._now = await self._inbox.stages()
            except StaleLaunch:  # Whoever reads the rollouts hears of it, too, and ends the run.
                return
            except RftError as problem:
                _LOG.debug("where rollouts are cannot be asked: %s", problem)
                self._now = StageCounts()
            await asyncio.sleep(BEAT_S)
