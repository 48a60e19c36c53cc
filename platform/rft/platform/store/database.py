"""The connection pool. One per process and event loop."""

import select
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from pydantic_core import from_json

OPEN_TIMEOUT_S = 15.0
LEND_TIMEOUT_S = 5.0
"""How long a request waits for a free, living connection."""
_TIMEOUTS = {
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
"""Of libpq. Without them a host that is gone without a word is waited for as the kernel has it: a quarter of an hour
for an answer, two hours on a connection that only listens. A host that lives and takes its time is waited for."""

_OF_THE_SERVER = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "idle_in_transaction_session_timeout": "60s",
}
"""The same for the server's end. Without them it keeps the locks of a host that is gone for two hours, and those of a
process that is frozen in the middle of a transaction for as long as it is."""


class NoFreeConnection(PoolTimeout):
    """All connections of the pool are in use; the database itself may well answer."""


class ReadOnlyServer(psycopg.OperationalError):
    """The server takes no writes now, as in a failover."""


class TransactionTimedOut(psycopg.OperationalError):
    """The server ended a transaction in which nothing was asked for too long."""


def with_timeouts(url: str) -> str:
    """How to connect to `url`: as it says, else by `_TIMEOUTS`. Raises psycopg.ProgrammingError."""
    given = conninfo_to_dict(url)
    return make_conninfo(url, **{name: value for name, value in _TIMEOUTS.items() if name not in given})


async def _configure(connection: AsyncConnection[TupleRow]) -> None:
    set_json_loads(from_json, connection)  # three times as fast as the standard library's
    await connection.execute(
        "select set_config(name, value, false) from unnest(%s::text[], %s::text[]) as settings (name, value)",
        (list(_OF_THE_SERVER), list(_OF_THE_SERVER.values())),
    )


async def _check(connection: AsyncConnection[TupleRow]) -> None:
    """A server that was restarted leaves dead connections behind: checked before one is lent.

    A closed connection is readable: only a readable one is asked, which costs a round trip.
    """
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    if poller.poll(0):
        await AsyncConnectionPool.check_connection(connection)


async def _give_back_apart(_: AsyncConnection[TupleRow]) -> None:
    """Nothing has to be reset. But with something to reset, the pool takes connections back in a task of its own:
    a caller who is cancelled while giving back would take the connection along, and the turn of who waits for it."""


class Database:
    """A pool that hands out transactions. Raises psycopg.ProgrammingError for a URL that is none.

    Open it inside the event loop that uses it: the API for its lifetime, a queue task for one run.
    """

    def __init__(self, url: str, *, max_connections: int = 10) -> None:
        self.url, self._max_connections, self._lent = with_timeouts(url), max_connections, 0
        self._pool = AsyncConnectionPool[AsyncConnection[TupleRow]](
            self.url,
            open=False,
            min_size=1,
            max_size=max_connections,
            configure=_configure,
            check=_check,
            reset=_give_back_apart,
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
        """A connection that commits each statement by itself: for LISTEN and advisory locks.

        Raises NoFreeConnection, psycopg.OperationalError.
        """
        try:
            connection = await self._pool.getconn(timeout=LEND_TIMEOUT_S)
        except PoolTimeout as error:
            if self._lent < self._max_connections:
                raise
            raise NoFreeConnection(f"all {self._max_connections} connections to the database are in use") from error
        self._lent += 1
        try:
            async with connection:
                yield connection
        except psycopg.errors.ReadOnlySqlTransaction as error:
            await connection.close()  # The next one may lead to the new primary.
            raise ReadOnlyServer(str(error)) from error
        except psycopg.errors.IdleInTransactionSessionTimeout as error:
            raise TransactionTimedOut(str(error)) from error
        finally:
            self._lent -= 1
            await self._pool.putconn(connection)

    async def ping(self) -> None:
        """Ask the server for an answer. Raises as `connection` does."""
        async with self.connection() as connection:
            await connection.execute("select 1")

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection[TupleRow]]:
        """A connection inside one transaction: committed on leaving, rolled back on any exception. Raises as above."""
        async with self.connection() as connection, connection.transaction():
            yield connection


def check_answers(url: str, *, patience_s: float) -> None:
    """Whether the server behind `url` answers a query. Raises psycopg.Error."""
    with psycopg.connect(url, connect_timeout=int(patience_s)) as connection:
        connection.execute("select 1")


async def ensure_database(server_url: str, name: str) -> None:
    """Create the database if the server does not have it yet. Raises psycopg.Error."""
    async with await AsyncConnection[TupleRow].connect(with_timeouts(server_url), autocommit=True) as connection:
        found = await connection.execute("select 1 from pg_database where datname = %s", [name])
        if await found.fetchone() is None:
            await connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
