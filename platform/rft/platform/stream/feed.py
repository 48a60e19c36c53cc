"""One LISTEN connection per process, shared by everybody who watches a job."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import psycopg
from psycopg import AsyncConnection

from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.platform.stream.tail import JobTail

_LOG = logging.getLogger(__name__)
_RECONNECT_S = 1.0


@dataclass(frozen=True, slots=True)
class _Watched:
    tail: JobTail
    task: asyncio.Task[None]


class JobFeed:
    """One tail per watched job, sent to look when its rows changed. Listens only while somebody watches.

    A wake-up can be missed (the connection broke): tails look by themselves now and then.
    """

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._jobs: dict[str, _Watched] = {}
        self._listener: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watch(self, job_id: str) -> AsyncGenerator[JobTail]:
        """The tail of a job."""
        watched = self._jobs.get(job_id) or self._follow(job_id)
        watched.tail.watchers += 1
        try:
            yield watched.tail
        finally:
            watched.tail.watchers -= 1
            if watched.tail.watchers == 0:
                await self._leave(job_id, watched)

    def _follow(self, job_id: str) -> _Watched:
        tail = JobTail(self._database, self._settings, job_id)
        watched = self._jobs[job_id] = _Watched(tail, asyncio.create_task(tail.follow()))
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen())
        return watched

    async def _leave(self, job_id: str, watched: _Watched) -> None:
        # Out of the books first: whoever comes while the tasks end starts anew.
        del self._jobs[job_id]
        tasks = [watched.task]
        if not self._jobs and self._listener is not None:
            tasks.append(self._listener)
            self._listener = None
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task

    async def _listen(self) -> None:
        while True:
            try:
                async with await AsyncConnection.connect(self._database.url, autocommit=True) as connection:
                    await connection.execute("listen rft_jobs")
                    for watched in self._jobs.values():
                        watched.tail.look()
                    async for notification in connection.notifies():
                        if (watched := self._jobs.get(notification.payload)) is not None:
                            watched.tail.look()
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                _LOG.warning("the feed lost its connection: %s", error)
            await asyncio.sleep(_RECONNECT_S)
