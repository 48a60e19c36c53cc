"""Whatever is killed comes back by itself, and nothing that was stored is lost."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery
from openai import OpenAI

from tests.shared.running_platform import RunningPlatform, until


@pytest.fixture(scope="module")
def platform(module_home: Path) -> Iterator[RunningPlatform]:
    """One platform, wounded by every test."""
    running = RunningPlatform.start(module_home)
    yield running
    running.end()


@pytest.fixture(scope="module")
def stored(platform: RunningPlatform) -> str:
    """Id of a file uploaded before anything is killed."""
    return platform.client().files.create(file=("a.jsonl", b'{"messages": []}\n'), purpose="fine-tune").id


def has_file(client: OpenAI, file_id: str) -> bool:
    return client.files.content(file_id).content == b'{"messages": []}\n'


def workers(platform: RunningPlatform) -> list[object]:
    """Who is the first to answer a ping through the broker; nobody, if it takes long."""
    socket = platform.state().socket_dir
    app = Celery(broker=f"redis+socket://{socket}/valkey.sock?virtual_host=0", set_as_current=False)
    with app.connection_for_write() as connection:
        return app.control.ping(timeout=10, limit=1, connection=connection)


def test_api_killed(platform: RunningPlatform, stored: str) -> None:
    old = platform.child("api")
    os.kill(old.pid, signal.SIGKILL)
    # No retry and no wait: the supervisor holds the listening socket, so this call waits for the new API.
    assert has_file(platform.client(), stored)
    assert platform.child("api") != old
    assert "api was killed by SIGKILL; starting it again" in platform.said()


def test_postgres_killed(platform: RunningPlatform, stored: str) -> None:
    platform.kill_child("postgres")
    until(platform.is_healthy, "healthy")
    assert has_file(platform.client(), stored)


def test_valkey_killed(platform: RunningPlatform) -> None:
    until(lambda: len(workers(platform)) == 1, "the worker's first ping")
    worker = platform.child("worker")
    platform.kill_child("valkey")
    until(lambda: len(workers(platform)) == 1, "the worker heard again")
    assert platform.child("worker") == worker


@pytest.mark.thorough
def test_worker_killed(platform: RunningPlatform) -> None:
    platform.kill_child("worker")
    until(lambda: len(workers(platform)) == 1, "a worker heard again")


def test_everything_killed_at_once(platform: RunningPlatform, stored: str) -> None:
    children = platform.state().children
    for name in ("postgres", "valkey", "api", "worker"):
        os.kill(children[name].pid, signal.SIGKILL)
    until(lambda: all(platform.child(name) != children[name] for name in ("postgres", "valkey", "worker")), "new ones")
    until(platform.is_healthy, "healthy")
    assert has_file(platform.client(), stored)
    until(lambda: len(workers(platform)) == 1, "a worker heard again")


def test_sockets_swept_away_come_back(platform: RunningPlatform) -> None:
    """A cleaner of temporary folders takes the sockets: the next start makes them anew under the same name."""
    folder = Path(str(platform.state().socket_dir))
    for socket in folder.iterdir():
        socket.unlink()
    folder.rmdir()
    platform.kill_child("postgres")
    platform.kill_child("valkey")
    until(platform.is_healthy, "healthy")
    until(lambda: len(workers(platform)) == 1, "the worker heard again")
