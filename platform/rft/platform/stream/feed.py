"""One LISTEN connection per process, shared by everybody who watches a job."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import psycopg
from psycopg import AsyncConnection

_LOG = logging.getLogger(__name__)
_RECONNECT_S = 1.0


class JobFeed:
    """Wakes the watchers of a job when its rows changed. Listens only while somebody watches.

    A wake-up can be missed (the connection broke): watchers look by themselves now and then.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._watchers: dict[str, set[asyncio.Event]] = {}
        self._listener: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watch(self, job_id: str) -> AsyncGenerator[asyncio.Event]:
        """An event that is set whenever the job may have changed; the watcher clears it."""
        changed = asyncio.Event()
        self._watchers.setdefault(job_id, set()).add(changed)
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen())
        try:
            yield changed
        finally:
            self._watchers[job_id].discard(changed)
            if not self._watchers[job_id]:
                del self._watchers[job_id]
            if not self._watchers:
                await self._stop()

    async def _stop(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.cancel()
            with suppress(asyncio.CancelledError):
                await listener

    async def _listen(self) -> None:
        while True:
            try:
                async with await AsyncConnection.connect(self._url, autocommit=True) as connection:
                    await connection.execute("listen rft_jobs")
                    async for notification in connection.notifies():
                        for changed in self._watchers.get(notification.payload, ()):
                            changed.set()
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                _LOG.warning("the feed lost its connection: %s", error)
            await asyncio.sleep(_RECONNECT_S)
