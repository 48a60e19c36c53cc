"""The pool of connections, and callers who are cancelled at any moment of their use of it."""

import asyncio
from contextlib import suppress
from itertools import product

import pytest
from psycopg import OperationalError
from psycopg.conninfo import conninfo_to_dict

from rft.platform.store import database as database_module
from rft.platform.store.database import Database, with_timeouts

TURNS = range(16)
"""Turns of the event loop: a caller whose work is done has given its connection back after fewer."""


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is lost fails its test soon, and not by a lack of time for the others."""
    monkeypatch.setattr(database_module, "LEND_TIMEOUT_S", 2.0)


async def test_whoever_is_cancelled_while_giving_back_loses_no_connection_and_keeps_nobody_waiting(
    database_url: str,
) -> None:
    async with Database(database_url, max_connections=1) as database:
        for arrives_after, cancelled_after in product(TURNS, TURNS):
            first = await about_to_give_back(database)
            second = asyncio.create_task(ping(database, arrives_after))
            await cancel(first, cancelled_after)
            await second


async def test_whoever_is_cancelled_while_waiting_loses_no_connection(database_url: str) -> None:
    async with Database(database_url, max_connections=1) as database:
        for arrives_after, cancelled_after in product(TURNS, TURNS):
            first = await about_to_give_back(database)
            second = asyncio.create_task(ping(database, arrives_after))
            await cancel(second, cancelled_after)
            await first
            await database.ping()


async def test_connections_do_not_wait_for_a_server_that_falls_silent_as_long_as_the_kernel_would(
    database_url: str,
) -> None:
    async with Database(database_url) as database, database.connection() as connection:
        told = connection.info.get_parameters()
    names = ("connect_timeout", "tcp_user_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count")
    assert [told.get(name) for name in names] == ["5", "10000", "10", "5", "3"]


async def test_the_server_ends_a_transaction_that_stands_still_and_its_caller_is_told_as_of_a_lost_connection(
    database_url: str,
) -> None:
    async with Database(database_url) as database:
        async with database.connection() as connection:
            cursor = await connection.execute("show idle_in_transaction_session_timeout")
            assert await cursor.fetchone() == ("1min",)
        # By when the caller asks, the server's last words may be lost with the connection.
        with pytest.raises(OperationalError, match=r"idle-in-transaction timeout|closed the connection"):
            await stand_still(database)
        await database.ping()


async def stand_still(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute("set local idle_in_transaction_session_timeout = '50ms'")
        await until_told(connection.fileno())
        await connection.execute("select 1")


async def until_told(socket: int) -> None:
    """Until the server has said something unasked."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_reader(socket, told.set)
    try:
        await asyncio.wait_for(told.wait(), 30)
    finally:
        asyncio.get_running_loop().remove_reader(socket)


def test_what_a_url_says_of_waiting_counts() -> None:
    url = "postgresql://user:pass@host:1/name?connect_timeout=60&keepalives_idle=100"
    told = conninfo_to_dict(with_timeouts(url))
    assert told | conninfo_to_dict(url) == told
    assert (told["connect_timeout"], told["keepalives_idle"], told["tcp_user_timeout"]) == ("60", "100", "10000")


async def about_to_give_back(database: Database) -> asyncio.Task[None]:
    """A caller that has a connection and whose work is done: it gives back within the next turns."""
    served, is_done = asyncio.Event(), asyncio.Event()

    async def use() -> None:
        async with database.transaction():
            served.set()
            await is_done.wait()

    caller = asyncio.create_task(use())
    await served.wait()
    is_done.set()
    return caller


async def ping(database: Database, after_turns: int) -> None:
    """Ask for a connection, later."""
    await turns(after_turns)
    await database.ping()


async def cancel(task: asyncio.Task[None], after_turns: int) -> None:
    """Cancel it, unless it has ended by then."""
    await turns(after_turns)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def turns(number: int) -> None:
    """Let all others have so many turns."""
    for _ in range(number):
        await asyncio.sleep(0)
