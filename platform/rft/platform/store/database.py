"""The connection pool. One per process and event loop."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

OPEN_TIMEOUT_S = 15.0
LEND_TIMEOUT_S = 5.0
"""How long a request waits for a free, living connection."""


class Database:
    """A pool that hands out transactions.

    Open it inside the event loop that uses it: the API for its lifetime, a queue task for one run.
    """

    def __init__(self, url: str, *, max_connections: int = 10) -> None:
        self.url = url
        self._pool = AsyncConnectionPool[AsyncConnection[TupleRow]](
            url,
            open=False,
            min_size=1,
            max_size=max_connections,
            timeout=LEND_TIMEOUT_S,
            # A server that was restarted leaves dead connections behind: look before lending one.
            check=AsyncConnectionPool.check_connection,
            kwargs={"autocommit": True},
        )

    async def open(self) -> None:
        """Connect. Raises psycopg_pool.PoolTimeout when the server does not answer."""
        await self._pool.open(wait=True, timeout=OPEN_TIMEOUT_S)

    async def close(self) -> None:
        """Give all connections back."""
        await self._pool.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[AsyncConnection[TupleRow]]:
        """A connection that commits each statement by itself: for LISTEN and advisory locks."""
        async with self._pool.connection() as connection:
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection[TupleRow]]:
        """A connection inside one transaction: committed on leaving, rolled back on any exception."""
        async with self._pool.connection() as connection, connection.transaction():
            yield connection
