"""One embedded Postgres and one embedded Valkey for all tests of a process; an empty database per test; RabbitMQ;
a port that nobody listens on."""

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from rft.platform.embedded.home import Home
from rft.platform.embedded.postgres import EmbeddedPostgres
from rft.platform.embedded.valkey import EmbeddedValkey
from rft.platform.store.migrations import migrate
from tests.shared.emptied_database import EmptiedDatabase
from tests.shared.homes import held_home
from tests.shared.rabbitmq import RabbitMq, rabbitmq_program

_numbers = itertools.count(1)
_WITHOUT_DISK_WAITS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@pytest.fixture(scope="session")
def servers_home() -> Iterator[Home]:
    """Where the servers of this process are."""
    with held_home() as home:
        yield home


@pytest.fixture(scope="session")
def postgres(servers_home: Home) -> Iterator[EmbeddedPostgres]:
    """The running server."""
    server = EmbeddedPostgres(servers_home, options=_WITHOUT_DISK_WAITS)
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(server.start())
        yield server
        runner.run(server.stop())


@pytest.fixture(scope="session")
def postgres_url(postgres: EmbeddedPostgres) -> str:
    """libpq URL of a superuser in the server's own database `postgres`."""
    return postgres.url("postgres")


@pytest.fixture
def database_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """libpq URL of a new, empty database that goes away after the test."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        connection.execute(
            sql.SQL("create database {} template template0 strategy file_copy").format(sql.Identifier(name))
        )
        yield postgres.url(name)
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def template_with_tables(postgres: EmbeddedPostgres) -> str:
    """Name of a database to which all migrations were applied once."""
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        connection.execute("create database with_tables template template0")
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(migrate(postgres.url("with_tables")))
    return "with_tables"


@pytest.fixture(scope="session")
def emptied_database(postgres: EmbeddedPostgres, template_with_tables: str) -> EmptiedDatabase:
    """Where `migrated_url` comes from."""
    return EmptiedDatabase(postgres, template_with_tables)


@pytest.fixture
def migrated_url(emptied_database: EmptiedDatabase) -> Iterator[str]:
    """libpq URL of a database with our tables and no rows; the next test's has another name."""
    with emptied_database.lend() as url:
        yield url


@pytest.fixture(scope="session")
def valkey(servers_home: Home) -> Iterator[EmbeddedValkey]:
    """The running broker."""
    server = EmbeddedValkey(servers_home)
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(server.start())
        yield server
        runner.run(server.stop())


@pytest.fixture
def broker_url(valkey: EmbeddedValkey) -> str:
    """URL for Celery; emptied before each test."""
    from redis import Redis

    with Redis(unix_socket_path=str(valkey.socket)) as client:
        client.flushall()
    return valkey.url()


@pytest.fixture
async def rabbitmq(tmp_path: Path) -> AsyncIterator[RabbitMq]:
    """The other kind of broker, running, for this test alone."""
    program = rabbitmq_program()
    if program is None:
        pytest.skip("no RabbitMQ on this machine")
    folder = tmp_path / "rabbitmq"
    folder.mkdir()
    server = RabbitMq(folder, program)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def refused_port() -> Iterator[int]:
    """A port where nobody listens, and nobody can as long as the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
