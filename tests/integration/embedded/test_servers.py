"""The launchers alone: what earlier, badly ended runs leave behind, and who gets in."""

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from redis import Redis

from rft.platform.embedded.faults import AlreadyRunning, StartFailed
from rft.platform.embedded.home import Home, State
from rft.platform.embedded.postgres import EmbeddedPostgres
from rft.platform.embedded.process import identify, stop, wait_until
from rft.platform.embedded.valkey import EmbeddedValkey


@pytest.fixture
def held(home: Path) -> Iterator[Home]:
    """A held home."""
    opened = Home(home)
    with opened.hold():
        yield opened
        opened.remove_socket_dir()


@pytest.fixture
async def postgres(held: Home) -> AsyncIterator[EmbeddedPostgres]:
    """A server with a row in it; its files do not wait for the disk, which nothing here cuts off."""
    server = EmbeddedPostgres(held, options={"fsync": "off"})
    await server.start()
    with psycopg.connect(server.url()) as connection:
        connection.execute("create table kept as select 1")
    yield server
    await server.stop()


def count(server: EmbeddedPostgres) -> int:
    with psycopg.connect(server.url()) as connection:
        row = connection.execute("select count(*) from kept").fetchone()
    assert row is not None
    return row[0]


def lock_file(home: Home) -> Path:
    return home.server_dir("postgres") / "data" / "postmaster.pid"


async def test_password_is_needed(held: Home, postgres: EmbeddedPostgres) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(postgres.url().replace(held.secret("postgres"), "guess"))
    assert stat.S_IMODE((held.secrets / "postgres").stat().st_mode) == 0o600
    assert stat.S_IMODE(lock_file(held).parent.stat().st_mode) == 0o700


async def test_unfinished_cluster_is_not_taken_for_a_whole_one(held: Home) -> None:
    unfinished = held.server_dir("postgres") / "data.unfinished"
    unfinished.mkdir()
    (unfinished / "PG_VERSION").write_text("18\n")
    server = EmbeddedPostgres(held)
    await server.start()
    await server.stop()
    assert not unfinished.exists()


async def test_lock_file_of_a_stranger_is_removed(held: Home, postgres: EmbeddedPostgres) -> None:
    lines = lock_file(held).read_text().splitlines()
    assert postgres.process is not None
    await stop(postgres.process, [(signal.SIGKILL, 10)])
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"]) as stranger:  # noqa: ASYNC220
        lock_file(held).write_text("\n".join((str(stranger.pid), *lines[1:])))
        await postgres.start()
        assert count(postgres) == 1
        assert stranger.poll() is None
        stranger.kill()


async def test_lock_file_of_a_zombie_is_removed(held: Home, postgres: EmbeddedPostgres) -> None:
    zombie = postgres.process
    assert zombie is not None
    os.kill(zombie.pid, signal.SIGKILL)  # and not reaped: where no init reaps, this lasts for ever
    assert await wait_until(lambda: identify(zombie.pid) is None, 60)
    await postgres.start()
    assert count(postgres) == 1
    assert zombie.wait() == -signal.SIGKILL


async def test_lock_file_that_names_no_process_is_removed(held: Home, postgres: EmbeddedPostgres) -> None:
    """As a full disk or a power cut leaves it."""
    for content in (b"", b"\n", b"no number\n", b"\0" * 30, b"\xff\xfe"):
        assert postgres.process is not None, content
        await stop(postgres.process, [(signal.SIGKILL, 10)])
        lock_file(held).write_bytes(content)
        await postgres.start()
        assert count(postgres) == 1, content


async def test_server_that_outlived_its_supervisor_is_ended(postgres: EmbeddedPostgres) -> None:
    first = postgres.process
    assert first is not None
    await postgres.start()
    assert first.wait(60) == 0
    assert count(postgres) == 1


async def test_failed_start_says_why(held: Home, postgres: EmbeddedPostgres) -> None:
    await postgres.stop()
    with pytest.raises(StartFailed, match="shared_buffers"):
        await EmbeddedPostgres(held, options={"shared_buffers": "much"}).start()


async def test_valkey_keeps_its_queue_over_kill(held: Home) -> None:
    server = EmbeddedValkey(held)
    await server.start()
    with Redis(unix_socket_path=str(server.socket), decode_responses=True) as client:
        client.rpush("train", "message")
        await asyncio.sleep(1.2)  # appendfsync everysec: what is a second old is safe
    assert server.process is not None
    await stop(server.process, [(signal.SIGKILL, 10)])
    await server.start()
    with Redis(unix_socket_path=str(server.socket), decode_responses=True) as client:
        assert client.lrange("train", 0, -1) == ["message"]
    await server.stop()


async def test_a_copy_of_a_home_leaves_the_other_one_alone(held: Home, postgres: EmbeddedPostgres) -> None:
    """As whoever tries a backup starts it, beside the platform that it is of."""
    place = held.path.with_name("copy")
    await postgres.stop()
    await asyncio.to_thread(subprocess.run, ["cp", "-a", held.path, place], check=True)
    await postgres.start()
    shutil.copy2(held.path / "state.json", place)
    copy = Home(place)
    with copy.hold():
        await copy.end_children()
        server = EmbeddedPostgres(copy, options={"fsync": "off"})
        try:
            await server.start()
            with psycopg.connect(server.url()) as connection:
                connection.execute("insert into kept values (2)")
            assert (count(server), count(postgres)) == (2, 1)
            assert postgres.process is not None
            assert postgres.process.poll() is None
        finally:
            await server.stop()
            copy.remove_socket_dir()


async def test_a_home_that_came_without_its_servers_data_says_where_that_is(held: Home) -> None:
    elsewhere = str(held.path.with_name("elsewhere"))
    (held.path / "state.json").write_text(State(server_root=elsewhere).model_dump_json())
    with pytest.raises(StartFailed, match=f"lies in {elsewhere}, which another home may be using"):
        held.server_dir("postgres")


async def test_a_home_may_be_called_by_another_path(held: Home, postgres: EmbeddedPostgres) -> None:
    link = held.path.with_name("link")
    link.symlink_to(held.path)
    assert Home(link).state() == held.state()
    assert Home(link).state().children


def test_one_home_one_holder(held: Home) -> None:
    with pytest.raises(AlreadyRunning), Home(held.path).hold():
        pass


def test_home_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(StartFailed, match="set RFT_HOME"), Home(tmp_path / "home").hold():
        pass
