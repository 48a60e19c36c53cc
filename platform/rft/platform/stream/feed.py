"""One LISTEN connection per process, shared by everybody who watches a job."""

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager

import psycopg
from psycopg import AsyncConnection

from rft.platform.lifecycle.events import listen
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.platform.stream.tail import JobTail

_LOG = logging.getLogger(__name__)
_RECONNECT_S = 1.0


class JobFeed:
    """One tail per watched job, sent to look when its rows changed. Listens only while somebody watches.

    A wake-up can be missed (the connection broke): tails look by themselves now and then.
    """

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._tails: dict[str, JobTail] = {}
        self._followers: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Task[None] | None = None

    @contextmanager
    def watch(self, job_id: str) -> Generator[JobTail]:
        """The tail of a job."""
        tail = self._tails.get(job_id) or self._follow(job_id)
        tail.watchers += 1
        try:
            yield tail
        finally:
            # Nothing is awaited here: whoever hangs up is cancelled wherever they wait.
            tail.watchers -= 1
            if tail.watchers == 0:
                del self._tails[job_id]
                tail.leave()
            if not self._tails and self._listener is not None:
                self._listener.cancel()
                self._listener = None

    def _follow(self, job_id: str) -> JobTail:
        tail = self._tails[job_id] = JobTail(self._database, self._settings, job_id)
        follower = asyncio.create_task(tail.follow())
        self._followers.add(follower)
        follower.add_done_callback(self._followers.discard)
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen())
        return tail

    async def _listen(self) -> None:
        while self._listener is asyncio.current_task():
            try:
                async with await AsyncConnection.connect(self._database.url, autocommit=True) as connection:
                    await listen(connection)
                    for tail in self._tails.values():
                        tail.look()
                    async for notification in connection.notifies():
                        if (tail := self._tails.get(notification.payload)) is not None:
                            tail.look()
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                _LOG.warning("the feed lost its connection: %s", error)
            await asyncio.sleep(_RECONNECT_S)
