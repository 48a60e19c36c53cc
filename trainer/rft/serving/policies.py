"""Several adapters over an engine that samples from one at a time."""

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rft.core.errors import RftError, SamplerError
from rft.engines.base import BaseModelEngine, Engine
from rft.serving.refusals import unavailable

_LOG = logging.getLogger(__name__)
_RETRY_AFTER_S = 5.0


@dataclass(slots=True, eq=False)
class _Waiting:
    adapter: Path | None
    admitted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class ServedPolicies:
    """Turns of one adapter are sampled together. Who wants another one waits until those have ended; from then on
    nobody else joins them, so that no adapter waits for ever."""

    def __init__(self, engine: Engine, *, queue_s: float) -> None:
        self._engine, self._queue_s = engine, queue_s
        self._current: Path | None = None
        """None: the base model, with which every engine begins."""
        self._version = 0
        """Of the current one."""
        self._versions = itertools.count(1)
        """One that could not be loaded is not given out again: the engine may have heard of it."""
        self._in_use = 0
        self._waiting: list[_Waiting] = []
        """In the order in which they came."""
        self._changing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def sampling_from(self, adapter: Path | None) -> AsyncGenerator[int]:
        """The policy version to ask the engine for; it stays for as long as the context is entered.

        Raises RequestRefused after `queue_s`, SamplerError where the adapter cannot be loaded.
        """
        await self._enter(adapter)
        try:
            yield self._version
        finally:
            self._leave()

    async def aclose(self) -> None:
        """Give up a change that is on its way."""
        if self._changing is not None:
            self._changing.cancel()
            await asyncio.gather(self._changing, return_exceptions=True)

    async def _enter(self, adapter: Path | None) -> None:
        waiting = _Waiting(adapter)
        self._waiting.append(waiting)
        self._admit()
        try:
            # Not `asyncio.timeout`: who is let in as its patience ends would have a place, and be sent away.
            await asyncio.wait([waiting.admitted], timeout=self._queue_s)
        except asyncio.CancelledError:
            if waiting.admitted.done() and waiting.admitted.exception() is None:
                self._leave()  # It was let in and never came.
            raise
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                self._admit()
        if not waiting.admitted.done():
            raise unavailable(
                "Another checkpoint of the same base model is answering; try again.",
                code="other_checkpoint_in_use",
                retry_after_s=_RETRY_AFTER_S,
            )
        waiting.admitted.result()

    def _leave(self) -> None:
        self._in_use -= 1
        self._admit()

    def _admit(self) -> None:
        """Let in the first and all who want the same, unless others still sample from another adapter."""
        if self._changing is not None or not self._waiting:
            return
        wanted = self._waiting[0].adapter
        if wanted == self._current:
            self._let_in(wanted)
        elif self._in_use == 0:
            self._changing = asyncio.create_task(self._change(wanted))

    def _let_in(self, adapter: Path | None) -> None:
        """While nobody waits for another adapter in front of them; all of them right after a change."""
        for waiting in [waiting for waiting in self._waiting if waiting.adapter == adapter]:
            self._waiting.remove(waiting)
            self._in_use += 1
            waiting.admitted.set_result(None)

    async def _change(self, adapter: Path | None) -> None:
        problem: str | None = None
        try:
            version = next(self._versions)
            await self._publish(version, adapter)
            self._current, self._version = adapter, version
        except RftError as error:
            problem = str(error)
        except Exception as error:  # Such as a full disk: all who wait would be told that another one answers.
            _LOG.exception("an adapter could not be loaded")
            problem = f"the adapter could not be loaded: {type(error).__name__}: {error}"
        finally:
            self._changing = None
        if problem is None:
            self._let_in(adapter)
        else:
            for waiting in [waiting for waiting in self._waiting if waiting.adapter == adapter]:
                self._waiting.remove(waiting)
                waiting.admitted.set_exception(SamplerError(problem))
        self._admit()

    async def _publish(self, version: int, adapter: Path | None) -> None:
        if adapter is not None:
            await self._engine.publish(version, adapter)
        elif isinstance(self._engine, BaseModelEngine):
            await self._engine.publish_base(version)
        else:
            raise SamplerError("the engine cannot go back from an adapter to the base model")
