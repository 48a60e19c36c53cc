"""The event loop of rollouts, in a thread beside the trainer's loop, and the way to stop waiting for it."""

import asyncio
import threading
from collections.abc import Coroutine
from collections.abc import Set as AbstractSet
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, TypeVar

from rft.core.errors import RunAborted

T = TypeVar("T")
_LOOK_S = 0.5


class LoopThread:
    """Runs coroutines beside a caller that waits for them, until told to stop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rollouts", daemon=True)
        self._thread.start()
        self._current: Future[Any] | None = None
        self._works: set[asyncio.Task[Any]] = set()
        """What was called and has not ended in the loop, although its caller may have stopped waiting."""
        self.is_stopped = False
        self._failure: Exception | None = None
        self.stopped = asyncio.Event()
        """The same for who waits in the loop."""

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result. Raises what it raises, RunAborted after `stop`."""
        return self.wait(self.start(work))

    def start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Begin with it; its result is waited for later, or never. Raises RunAborted after `stop`."""
        try:
            self.check()
        except Exception:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(self._tracked(work), self._loop)

    def wait(self, started: "Future[T]") -> T:
        """The result of what was started. Raises what it raises, RunAborted after `stop`."""
        self._current = started
        if self.is_stopped or self._failure is not None:  # It came before the line above.
            started.cancel()
        try:
            while not started.done():
                # Not for ever: a signal's handler that cancels it between `result`'s look and its wait wakes nobody.
                with suppress(TimeoutError):
                    started.result(_LOOK_S)
            return started.result()
        except CancelledError:
            self.check()
            raise RunAborted("the run was told to stop") from None
        finally:
            self._current = None

    def give_up(self) -> None:
        """Cancel whatever was started, and wait until it has ended. Raises RunAborted after `stop`."""
        self.call(self._give_up())

    def check(self) -> None:
        """Raises RunAborted after `stop`, and what `fail` was told: called wherever stopping is cheap."""
        if self.is_stopped:
            raise RunAborted("the run was told to stop")
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Give up what is being waited for. Safe in a signal handler."""
        self.is_stopped = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.stopped.set)
        if self._current is not None:
            self._current.cancel()

    def fail(self, failure: Exception) -> None:
        """Give up what is being waited for, here and from now on, for a reason that another thread came to know."""
        self._failure = self._failure or failure
        if (current := self._current) is not None:
            current.cancel()

    def finish(self, *last: Coroutine[Any, Any, None]) -> None:
        """Cancel what was called and still runs, then do the last things, even after `stop`.

        What the work left running, such as the last notifications of the customer's servers, is cancelled after those.
        """
        asyncio.run_coroutine_threadsafe(self._finish(last), self._loop).result()

    def close(self) -> None:
        """End the thread; nothing is left running."""
        self.finish()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _tracked(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._works.add(task)
        try:
            return await work
        finally:
            self._works.discard(task)

    async def _give_up(self) -> None:
        await _cancelled(self._works - {asyncio.current_task()})

    async def _finish(self, last: tuple[Coroutine[Any, Any, None], ...]) -> None:
        await _cancelled(self._works)
        for work in last:
            await work
        await _cancelled(asyncio.all_tasks() - {asyncio.current_task()})
        loop = asyncio.get_running_loop()
        await loop.shutdown_asyncgens()
        await loop.shutdown_default_executor()


async def _cancelled(tasks: "AbstractSet[asyncio.Task[Any] | None]") -> None:
    """Cancel them and wait until they are gone."""
    underway = [task for task in tasks if task is not None]
    for task in underway:
        task.cancel()
    await asyncio.gather(*underway, return_exceptions=True)
