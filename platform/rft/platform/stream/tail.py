"""The end of one job's history, read once for everybody who watches it in this process."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

from rft.platform.jobs.event_repository import EventRepository
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.platform.stream.messages import News, Told, read_news

_LOG = logging.getLogger(__name__)
_LOOK_ANYWAY_S = 1.0
"""How long we trust the feed before we look for ourselves."""
_KEPT = 200
"""Events kept; a watcher further behind reads for itself."""


class JobTail:
    """Looks at a job when the feed says so, and tells its watchers what it saw.

    A watcher takes `turn`, says what `news_after` has, or reads for itself where that is None, and awaits the turn.
    """

    def __init__(self, database: Database, settings: Settings, job_id: str) -> None:
        self._database = database
        self._settings = settings
        self._job_id = job_id
        self._newest: News | None = None
        self._reaches_back_to = 0
        """All events beyond this one are kept."""
        self._last_seq = self._told_seq = 0
        self._kept: deque[Told] = deque()
        self._changed = asyncio.Event()
        self.has_news = asyncio.Event()
        """Set, and replaced by another, whenever there is something new."""
        self.watchers = 0
        self._is_left = False

    def leave(self) -> None:
        """Nobody watches any more: `follow` returns when it has looked once more. Not cancelled, for a query that is
        cut off costs more than its end."""
        self._is_left = True
        self._changed.set()

    def look(self) -> None:
        """The job may have changed."""
        self._changed.set()

    def wake(self) -> None:
        """Wake everybody who waits for news, though there is none."""
        done, self.has_news = self.has_news, asyncio.Event()
        done.set()

    def news_after(self, seq: int) -> News | None:
        """All there is beyond this event; None when that is not known here."""
        if self._newest is None or seq < self._reaches_back_to:
            return None
        return News(self._newest.job, self._newest.has_ended, [told for told in self._kept if told.seq > seq])

    async def follow(self) -> None:
        """Read the job's news until nobody watches it any more."""
        while not self._is_left:
            self._changed.clear()
            try:
                await self._look()
            except Exception as error:
                # Whatever it is, those who wait for news must not wait in vain.
                _LOG.warning("%s cannot be watched right now: %r", self._job_id, error)
                await asyncio.sleep(_LOOK_ANYWAY_S)
            else:
                await self._wait()

    async def _look(self) -> None:
        if self._newest is None:
            # Who came before reads up to here by themselves.
            self._last_seq = self._reaches_back_to = await self._newest_seq()
        while True:
            async with self._database.transaction() as connection:
                news = await read_news(connection, self._settings, self._job_id, after_seq=self._last_seq)
            self._keep(news.events)
            if news.is_all:
                break
        is_new = self._newest is None or self._newest.job != news.job or self._last_seq > self._told_seq
        self._newest, self._told_seq = news, self._last_seq
        if is_new:
            self.wake()

    async def _newest_seq(self) -> int:
        async with self._database.transaction() as connection:
            return await EventRepository(connection).newest_seq(self._job_id)

    def _keep(self, events: Sequence[Told]) -> None:
        self._kept.extend(events)
        if events:
            self._last_seq = events[-1].seq
        while len(self._kept) > _KEPT:
            self._reaches_back_to = self._kept.popleft().seq

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(_LOOK_ANYWAY_S):
                await self._changed.wait()
        except TimeoutError:
            return
