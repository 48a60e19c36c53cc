"""Work that a request starts and does not wait for. It ends with the process at the latest."""

import asyncio
import logging
from collections.abc import Coroutine

from rft.platform.store.stop_tasks import stop_tasks

AT_ONCE = 2
"""Heavy tasks of one process."""
_END_S = 5.0
"""What a task may take to end in good order."""
_LOG = logging.getLogger(__name__)


class TaskSet:
    """The tasks of one process and event loop."""

    def __init__(self) -> None:
        self.slots = asyncio.Semaphore(AT_ONCE)
        """For work that is heavy: it waits here for a free slot."""
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[None, None, None], *, name: str) -> None:
        """Run it beside everything else. What it raises is logged."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    async def aclose(self) -> None:
        """Cancel all and wait for them."""
        await stop_tasks(*self._tasks, again_s=_END_S)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("%s broke", task.get_name(), exc_info=error)
