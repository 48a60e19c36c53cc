"""Keeping a lease alive, and knowing in time when that failed."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg_pool import PoolTimeout

from rft.platform.lifecycle.lease import Cancelled, Lease, LeaseLost, RequestedAction, Requests, keep_slot, renew
from rft.platform.store.database import LEND_TIMEOUT_S, Database
from rft.platform.store.stop_tasks import stop_tasks

_LOG = logging.getLogger(__name__)
_RETRY_S = 0.5
DISK_OF_DATABASE_FULL = "the disk that holds the database is full"
T = TypeVar("T")


@dataclass(slots=True)
class Heartbeat:
    """Renews the lease while it is entered. When the lease is lost, or may be soon, `on_lost` is called at once."""

    database: Database
    lease: Lease
    ttl_s: float
    every_s: float
    """At most a quarter of `ttl_s`, whatever is asked for: a beat, and others after one that failed, must fit in."""
    confirmed_at: float
    """`time.monotonic()` before the lease was asked for: the lease stands at least `ttl_s` from here."""
    on_lost: Callable[[], None]
    is_lost: bool = False
    is_cancelled: bool = False
    """The work was cancelled: nothing may be written any more, but there is time to stop in good order.

    Its slot is kept meanwhile."""
    is_over: bool = False
    """The work under this lease has ended: it is renewed no more."""
    action: RequestedAction | None = None
    """What the customer asks for, as of the last beat."""
    endpoints_version: int = 0
    """As of the last beat."""
    is_disk_full: bool = False
    """Whether the database had no room for the last beat or write."""
    _task: "asyncio.Task[None] | None" = None
    _beats: "list[asyncio.Task[bool]]" = field(default_factory=list["asyncio.Task[bool]"], init=False)
    """Under way, oldest first."""

    def __post_init__(self) -> None:
        self.every_s = min(self.every_s, self.ttl_s / 4)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._task is not None:
            await stop_tasks(self._task)
            await stop_tasks(*self._beats)
            if not self._task.cancelled():
                self._task.result()

    def check(self) -> None:
        """Raises LeaseLost, Cancelled for one, when nothing may be written any more."""
        if self.is_cancelled:
            raise Cancelled(f"{self.lease.id} was cancelled")
        if self.is_lost:
            why = f": {DISK_OF_DATABASE_FULL}" if self.is_disk_full else ""
            raise LeaseLost(f"the lease {self.lease.token} of {self.lease.id} could not be kept{why}")

    async def write(self, work: Callable[[AsyncConnection[TupleRow]], Awaitable[T]]) -> T:
        """`work` in one transaction, tried again for as long as a lost database leaves us the lease.

        Raises LeaseLost. `work` must be safe to repeat.
        """
        while True:
            self.check()
            try:
                async with self.database.transaction() as connection:
                    done = await work(connection)
                self._note_room(is_full=False)
                return done
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                message = self._reason(error)
                _LOG.warning("%s: the database did not take a write, trying again: %s", self.lease.id, message)
                await asyncio.sleep(_RETRY_S)

    async def _run(self) -> None:
        wait_s = self.every_s
        while True:
            await asyncio.sleep(max(0.0, min(wait_s, self._left_s())))
            if self.is_lost:
                return
            if self._left_s() <= 0:
                for beat in self._beats:
                    beat.cancel()
                away = "the database could not be reached for too long"
                return self._lose(DISK_OF_DATABASE_FULL if self.is_disk_full else away)
            wait_s = self.every_s if await self._is_confirmed() else min(_RETRY_S, self.every_s)

    async def _is_confirmed(self) -> bool:
        """Whether one more beat is answered in time.

        One that is not goes on beside the next, which has a connection of its own: the first's may lead nowhere.
        """
        for beat in self._beats[:-1]:
            beat.cancel()
        beat = asyncio.create_task(self._beat())
        self._beats.append(beat)
        beat.add_done_callback(self._beats.remove)
        # Not cancelled at the end of its time and waited for: the driver may take long to give a query up.
        await asyncio.wait((beat,), timeout=max(0.0, min(max(self.every_s, LEND_TIMEOUT_S), self._left_s())))
        if beat.done():
            return beat.result()
        _LOG.warning("%s: a heartbeat has had no answer for too long", self.lease.id)
        return False

    async def _beat(self) -> bool:
        """Whether the database renewed the lease."""
        asked_at = time.monotonic()
        try:
            async with self.database.connection() as connection:
                requests = await self._renew(connection)
        except Cancelled:
            self.is_cancelled = True
        except LeaseLost as error:
            self._lose(str(error))
        except (TimeoutError, psycopg.Error) as error:
            _LOG.warning("%s: heartbeat failed: %s", self.lease.id, self._reason(error))
        except Exception as error:  # Without beats the lease ends, and whoever works under it must know.
            _LOG.exception("%s: the heartbeat broke", self.lease.id)
            self._lose(repr(error))
        else:
            if asked_at >= self.confirmed_at:  # A later one may have been answered before.
                self.confirmed_at = asked_at
                if requests is not None:
                    self.action, self.endpoints_version = requests.action, requests.endpoints_version
            return True
        return False

    async def _renew(self, connection: AsyncConnection[TupleRow]) -> Requests | None:
        """None for what was cancelled. Raises LeaseLost."""
        if self.is_cancelled:
            return await keep_slot(connection, self.lease, ttl_s=self.ttl_s)
        return await renew(connection, self.lease, ttl_s=self.ttl_s)

    def _reason(self, error: Exception) -> str:
        """Why the database took nothing; a full disk is forgotten, unless this is only an answer that came too late."""
        is_full = isinstance(error, psycopg.errors.DiskFull)
        self._note_room(is_full=is_full or (self.is_disk_full and isinstance(error, TimeoutError | PoolTimeout)))
        return f"{DISK_OF_DATABASE_FULL}: {error}" if is_full else repr(error)

    def _note_room(self, *, is_full: bool) -> None:
        """Why a lease was lost stays as it was then, whatever becomes of a write that was under way."""
        if not self.is_lost:
            self.is_disk_full = is_full

    def _left_s(self) -> float:
        """Until which we may go on without word from the database: short of the lease's end, on our own clock."""
        return self.confirmed_at + self.ttl_s - self.every_s - time.monotonic()

    def _lose(self, reason: str) -> None:
        if self.is_over or self.is_lost:
            return
        _LOG.error("%s: lease lost: %s", self.lease.id, reason)
        self.is_lost = True
        self.on_lost()
