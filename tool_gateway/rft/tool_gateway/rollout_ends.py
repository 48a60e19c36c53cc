"""Rollout ends that are being told to callback URLs, and which open rollouts still need their end told."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Protocol

from rft.core.failure import Failure, FailureCode
from rft.core.grade import Grade
from rft.egress.drain_pending import drain_pending
from rft.egress.retry import RETRYABLE

_log = logging.getLogger(__name__)
_LEFT_AT_ONCE = 32
"""Ends that earlier processes left: so many at once, that beginnings and calls of this one do not wait behind all."""
_LATER = RETRYABLE | {FailureCode.UNAUTHORIZED}
"""What another process may tell. A refusal, or a URL that leads elsewhere, comes out the same again."""
_CARRIED_OUT_NOTHING = frozenset({FailureCode.CONNECT_ERROR, FailureCode.TLS_ERROR, FailureCode.RATE_LIMITED})
"""Where these are the last of several attempts at a server that bears no repeated call, so were all before."""


def is_worth_another_try(failure: Failure) -> bool:
    """Whether an end that could not be told so may be taken later."""
    return failure.code in _LATER


def may_have_been_taken(failure: Failure) -> bool:
    """Whether the server may have had it, and done something, all the same."""
    return failure.attempts > 0 and failure.code not in _CARRIED_OUT_NOTHING


class OpenRollouts(Protocol):
    """Keeps the rollouts whose beginning was told and whose end was not."""

    def begin(self, trace_id: str) -> None:
        """Its beginning is about to be told."""
        ...

    def end(self, trace_id: str, outcome: Grade | Failure) -> None:
        """It has ended so, which is about to be told, and is told again if need be."""
        ...

    def close(self, trace_id: str, *, is_over: bool) -> None:
        """Nothing more is to be told of it; not `is_over`: it could not be told within the retry budget."""
        ...


class RolloutEnds:
    """Tells ends in the background and keeps open rollouts: a later process tells what a killed one did not."""

    def __init__(self, open_rollouts: OpenRollouts | None) -> None:
        self._open_rollouts = open_rollouts
        self._underway: set[asyncio.Task[None]] = set()
        self._few = asyncio.Semaphore(_LEFT_AT_ONCE)
        self._waiting: set[asyncio.Task[None]] = set()
        """Left by earlier processes, and not begun to be told: all of them still open."""

    def expect(self, trace_id: str) -> None:
        """This rollout's beginning is about to be told, so that its end will have to be."""
        if self._open_rollouts is not None:
            self._open_rollouts.begin(trace_id)

    def tell(
        self,
        trace_id: str,
        outcome: Grade | Failure | None,
        telling: Callable[[], Awaitable[bool]],
        *,
        is_left: bool = False,
    ) -> None:
        """Its end is told by this work, which fails quietly and says whether nothing more is to be told.

        `is_left`: an earlier process left it.
        """
        if self._open_rollouts is not None and outcome is not None:
            try:
                self._open_rollouts.end(trace_id, outcome)
            except OSError:
                _log.exception("if this process dies now, the end of rollout %s is told as a cancelled one's", trace_id)
        task = asyncio.create_task(self._told(trace_id, telling, is_left=is_left))
        self._underway.add(task)
        task.add_done_callback(self._underway.discard)
        if is_left:
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def all_told(self, timeout_s: float) -> None:
        """Wait until every end so far is told, at most so long."""
        if self._underway:
            await asyncio.wait(self._underway, timeout=timeout_s)

    async def aclose(self, hurry: asyncio.Event | None = None) -> None:
        """Tell what was not told yet, within each call's retry budget; in seconds once `hurry` is set.

        What earlier processes left and nobody has begun to tell is left again.
        """
        left = list(self._waiting)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        late = await drain_pending(self._underway, hurry)
        if late:
            _log.warning("%d ends of rollouts could not be told to their tool servers", late)

    async def _told(self, trace_id: str, telling: Callable[[], Awaitable[bool]], *, is_left: bool) -> None:
        async with self._few if is_left else nullcontext():
            if is_left and (task := asyncio.current_task()) is not None:
                self._waiting.discard(task)
            is_over = await telling()
        if self._open_rollouts is not None:
            self._open_rollouts.close(trace_id, is_over=is_over)
