"""A platform as `rft up` runs it, without a broker and a trainer: Postgres and the API as processes of their own."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from rft.platform.api.key_repository import create_key
from rft.platform.embedded.home import Home
from rft.platform.embedded.postgres import EmbeddedPostgres

PATIENCE_S = 60.0
_OURS = ("DATABASE_URL", "BROKER_URL", "RFT_", "PG")


@dataclass(frozen=True, slots=True)
class Served:
    """A running API."""

    url: str
    """Without `/v1`."""
    key: str
    pid: int


@asynccontextmanager
async def postgres() -> AsyncGenerator[str]:
    """URL of an empty database with the settings customers get; everything is removed afterwards."""
    folder = _open_folder()
    home = Home(folder)
    try:
        with home.hold():
            server = EmbeddedPostgres(home)
            await server.start()
            try:
                yield server.url()
            finally:
                await server.stop()
                shutil.rmtree(home.socket_dir(), ignore_errors=True)
    finally:
        shutil.rmtree(folder)


@asynccontextmanager
async def api(database_url: str, **changes: str) -> AsyncGenerator[Served]:
    """The API's process on a free port, with a key. `changes`: of its environment."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        key = await create_key(connection, "bench")
    with tempfile.TemporaryDirectory(prefix="rft-bench-api-") as home, closing(_listening()) as listener:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        environment = {**kept, "DATABASE_URL": database_url, "RFT_HOME": home, "BROKER_URL": "redis://127.0.0.1:9/0"}
        environment |= changes
        with _process(listener, environment) as process:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            await asyncio.to_thread(_wait_for, url, process)
            yield Served(url, key, process.pid)


def _open_folder() -> Path:
    """The server's own user has to get through."""
    folder = Path(tempfile.mkdtemp(prefix="rft-bench-"))
    folder.chmod(0o711)
    return folder


def _listening() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    return listener


@contextmanager
def _process(listener: socket.socket, environment: dict[str, str]) -> Generator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "rft.platform.embedded.api_process", str(listener.fileno())],
        env=environment,
        pass_fds=[listener.fileno()],
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert process.poll() is None, "the API did not start"
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as reply:
                assert json.load(reply) == {"status": "ok"}
                return
        except OSError:
            assert time.monotonic() < deadline, "the API did not start in time"
