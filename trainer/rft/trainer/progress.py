"""Tells the platform what the run is doing now, beside the event log: it costs a small file, however long a step is."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rft.core.endpoint_load import NamedLoad
from rft.core.progress import Activity, RoundProgress, RunProgress
from rft.core.rollout import Split
from rft.rollouts.live import LiveRollouts
from rft.run_directory.progress import write_progress

_LOG = logging.getLogger(__name__)
_EVERY_S = 1.0


@dataclass(slots=True)
class ProgressReporter:
    """Looks once a second and writes what has changed. Lives in the loop of the rollouts."""

    folder: Path
    live: LiveRollouts
    clock: Callable[[], float] = time.time
    loads: Callable[[], tuple[NamedLoad, ...]] = tuple[NamedLoad, ...]
    """What endpoints are given to bear now."""
    note_alive: Callable[[], None] = lambda: None
    """Called again and again while conversations go on."""
    _told: RunProgress | None = None
    _task: asyncio.Task[None] | None = field(default=None, repr=False)

    async def start(self) -> None:
        """Begin to look."""
        self.tell()
        self._task = asyncio.create_task(self._report())

    async def aclose(self) -> None:
        """Stop looking; idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def tell(self) -> None:
        """Look now. A disk that takes nothing is no reason to end a run: what matters is in the event log."""
        progress = self._look()
        if progress == self._told:
            return
        try:
            write_progress(self.folder, progress)
        except OSError as error:
            _LOG.warning("the progress cannot be written: %s", error)
        self._told = progress

    def _look(self) -> RunProgress:
        now, told = self.live.progress(), self._told
        if now is not None:
            activity = Activity.ROLLING_OUT
        else:
            # There is something to train on, or to load, before and after every round.
            activity = Activity.LOADING if told is None or told.activity is Activity.LOADING else Activity.TRAINING
        is_same = told is not None and told.activity is activity and _round_of(told.round) == _round_of(now)
        since = told.since if told is not None and is_same else self.clock()
        return RunProgress(activity=activity, since=since, round=now, endpoints=self.loads())

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            self.tell()
            if self.live.has_conversations:
                self.note_alive()


def _round_of(now: RoundProgress | None) -> tuple[int, Split] | None:
    return None if now is None else (now.step, now.split)
