"""The event loop of rollouts, in a thread beside the trainer's loop, and the way to stop waiting for it."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from rft.core.errors import RunAborted

T = TypeVar("T")


class Background:
    """Runs coroutines for a caller that blocks, until told to stop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rollouts", daemon=True)
        self._thread.start()
        self._current: Future[Any] | None = None
        self.is_stopped = False

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result. Raises what it raises, RunAborted after `stop`."""
        if self.is_stopped:
            work.close()
            raise RunAborted("the run was told to stop")
        self._current = asyncio.run_coroutine_threadsafe(work, self._loop)
        if self.is_stopped:  # The signal came between the two lines above.
            self._current.cancel()
        try:
            return self._current.result()
        except CancelledError:
            raise RunAborted("the run was told to stop") from None
        finally:
            self._current = None

    def check(self) -> None:
        """Raises RunAborted after `stop`: called wherever stopping is cheap."""
        if self.is_stopped:
            raise RunAborted("the run was told to stop")

    def stop(self) -> None:
        """Give up what is being waited for. Safe in a signal handler."""
        self.is_stopped = True
        if self._current is not None:
            self._current.cancel()

    def finish(self, *last: Coroutine[Any, Any, None]) -> None:
        """Cancel what still runs, then do the last things, even after `stop`."""
        asyncio.run_coroutine_threadsafe(_finish(last), self._loop).result()

    def close(self) -> None:
        """End the thread; nothing is left running."""
        self.finish()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _finish(last: "tuple[Coroutine[Any, Any, None], ...]") -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for work in last:
        await work
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
