"""One transaction, messages after the commit, nothing on rollback."""

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import psycopg
import pytest
from kombu.connection import Connection
from redis import Redis

from rft.platform.queue.messages import RUN_JOB, VALIDATE_JOB, TaskMessage
from rft.platform.store.database import Database
from rft.platform.store.unit_of_work import unit_of_work
from tests.shared.rabbitmq import RabbitMq
from tests.shared.waiting import until

ENQUEUE = """
import asyncio, logging
from rft.platform.queue.messages import RUN_JOB, VALIDATE_JOB, TaskMessage
from rft.platform.queue.publishing import enqueue_all
logging.basicConfig(level="WARNING")
sent = [TaskMessage(VALIDATE_JOB, "ftjob-1"), TaskMessage(RUN_JOB, "ftjob-2"), TaskMessage(RUN_JOB, "ftjob-3")]
asyncio.run(enqueue_all(sent))
"""

CROWDING = """
import asyncio
from rft.platform.queue import publishing
from rft.platform.queue.messages import RUN_JOB, VALIDATE_JOB, TaskMessage
publishing._MOST_WAITING = 3
again = [TaskMessage(RUN_JOB, "ftjob-1")]
asyncio.run(publishing.enqueue_all([*again * 5, TaskMessage(VALIDATE_JOB, "ftjob-2")]))
"""

BESIDE_A_SILENT_BROKER = """
import asyncio
from rft.core import broker_options
from rft.platform.queue import publishing
from rft.platform.queue.messages import RUN_JOB, TaskMessage
broker_options._PUBLISHING_S = publishing.ENQUEUE_TIMEOUT_S = 8.0

async def main():
    publishing.celery_enqueuer()
    enqueuing = [asyncio.create_task(publishing.enqueue_all([TaskMessage(RUN_JOB, "ftjob-1")])) for _ in range(64)]
    await asyncio.sleep(0.5)
    resolving = asyncio.ensure_future(asyncio.get_running_loop().getaddrinfo("localhost", 80))
    await asyncio.wait([resolving, *enqueuing], return_when=asyncio.FIRST_COMPLETED)
    assert resolving.done(), "it waits for no broker"
    await asyncio.gather(*enqueuing)

asyncio.run(main())
"""


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A pool on a database with one table."""
    async with Database(database_url, max_connections=2) as opened:
        async with opened.connection() as connection:
            await connection.execute("create table notes (text text)")
        yield opened


async def notes(database: Database) -> list[str]:
    """What was committed."""
    async with database.transaction() as connection:
        return [text for (text,) in await (await connection.execute("select text from notes")).fetchall()]


async def test_messages_are_enqueued_after_the_commit(database: Database) -> None:
    seen: list[tuple[TaskMessage, int]] = []

    def enqueue(message: TaskMessage) -> None:
        with psycopg.connect(database.url) as other:
            row = other.execute("select count(*) from notes").fetchone()
        assert row is not None
        seen.append((message, row[0]))

    async with unit_of_work(database, enqueue) as uow:
        await uow.connection.execute("insert into notes values ('a')")
        uow.enqueue(VALIDATE_JOB, "ftjob-1")
        uow.enqueue(RUN_JOB, "ftjob-1")
        assert seen == []
    assert seen == [(TaskMessage(VALIDATE_JOB, "ftjob-1"), 1), (TaskMessage(RUN_JOB, "ftjob-1"), 1)]


async def test_a_rollback_drops_rows_bells_and_actions(database: Database) -> None:
    enqueued: list[TaskMessage] = []
    done: list[str] = []

    async def act() -> None:
        done.append("deleted")

    async def fail() -> None:
        async with unit_of_work(database, enqueued.append) as uow:
            await uow.connection.execute("insert into notes values ('a')")
            uow.enqueue(VALIDATE_JOB, "ftjob-1")
            uow.after_commit(act)
            raise KeyError("broken")

    with pytest.raises(KeyError):
        await fail()
    assert (await notes(database), enqueued, done) == ([], [], [])


async def test_a_commit_that_fails_drops_the_bells(database: Database) -> None:
    enqueued: list[TaskMessage] = []
    async with database.connection() as connection:
        await connection.execute("alter table notes add unique (text) deferrable initially deferred")

    async def insert_twice() -> None:
        async with unit_of_work(database, enqueued.append) as uow:
            await uow.connection.execute("insert into notes values ('a'), ('a')")
            uow.enqueue(VALIDATE_JOB, "ftjob-1")

    with pytest.raises(psycopg.errors.UniqueViolation):
        await insert_twice()
    assert (await notes(database), enqueued) == ([], [])


async def test_a_silent_broker_is_only_a_warning(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    enqueued: list[TaskMessage] = []

    def enqueue(message: TaskMessage) -> None:
        enqueued.append(message)
        raise ConnectionRefusedError

    with caplog.at_level(logging.WARNING):
        async with unit_of_work(database, enqueue) as uow:
            await uow.connection.execute("insert into notes values ('a')")
            uow.enqueue(VALIDATE_JOB, "ftjob-1")
            uow.enqueue(VALIDATE_JOB, "ftjob-2")
    assert await notes(database) == ["a"]
    assert len(enqueued) == 2, "one failure does not silence the next message"
    assert "ftjob-1" in caplog.text


async def test_a_pool_survives_the_loss_of_its_connections(database: Database) -> None:
    async with await psycopg.AsyncConnection.connect(database.url, autocommit=True) as other:
        # With a time to wait for their ends: without one, a connection may be lent while it is still dying.
        await other.execute(
            "select pg_terminate_backend(pid, 20000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
    assert await notes(database) == []


def enqueue_in_a_process(broker_url: str, database_url: str, code: str = ENQUEUE) -> subprocess.CompletedProcess[str]:
    """Rings messages over Celery, in a process with settings of its own."""
    environment = os.environ | {"BROKER_URL": broker_url, "DATABASE_URL": database_url}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=240
    )


def test_bells_reach_the_queues_of_a_real_broker(broker_url: str, database_url: str) -> None:
    done = enqueue_in_a_process(broker_url, database_url)
    assert "was not published" not in done.stderr
    path = broker_url.removeprefix("redis+socket://").split("?")[0]
    with Redis(unix_socket_path=path) as client:
        assert (client.llen("control"), client.llen("train")) == (1, 2)


def test_a_queue_that_nobody_takes_from_is_not_filled_for_ever(broker_url: str, database_url: str) -> None:
    """A job is enqueued again every few seconds for as long as it waits."""
    done = enqueue_in_a_process(broker_url, database_url, CROWDING)
    assert "was not published" not in done.stderr
    path = broker_url.removeprefix("redis+socket://").split("?")[0]
    with Redis(unix_socket_path=path) as client:
        assert (client.llen("control"), client.llen("train")) == (1, 3)


async def test_bells_reach_the_queues_of_rabbitmq(rabbitmq: RabbitMq, database_url: str) -> None:
    done = await asyncio.to_thread(enqueue_in_a_process, rabbitmq.url(), database_url)
    assert "was not published" not in done.stderr
    with Connection(rabbitmq.url()) as connection, connection.channel() as channel:

        def have_arrived() -> bool:
            found = [channel.queue_declare(name, passive=True).message_count for name in ("control", "train")]
            return found == [1, 2]

        await until(have_arrived, "the messages")


def test_a_dead_broker_is_noticed_at_once_and_raises_nothing(database_url: str, refused_port: int) -> None:
    done = enqueue_in_a_process(f"redis://127.0.0.1:{refused_port}/0", database_url)
    assert done.stderr.count("was not published") == 3
    assert "TimeoutError" not in done.stderr


@pytest.mark.parametrize("kind", ["redis", "amqp"])
def test_a_broker_that_accepts_and_falls_silent_takes_no_thread_from_the_rest_of_the_process(
    kind: str, database_url: str
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=256) as silent:
        url = f"{kind}://127.0.0.1:{silent.getsockname()[1]}//"
        done = enqueue_in_a_process(url, database_url, BESIDE_A_SILENT_BROKER)
        assert done.stderr.count("was not published") == 64
