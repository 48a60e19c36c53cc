"""Uploads of the largest size over a real socket: they pass through the API's memory in small pieces."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest
from openai import AsyncOpenAI

from rft.platform.api.key_repository import create_key
from rft.platform.files.uploading import MAX_FILE_BYTES
from tests.integration.api.api_process import api_process
from tests.integration.api.form import END, FORM, opened
from tests.shared.emptied_database import EmptiedDatabase
from tests.shared.running_api import ROW, upload
from tests.shared.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

MIB = 1 << 20
PIECE = b"x" * MIB
LONG_ROW = json.dumps({"messages": [{"role": "user", "content": "x" * 100_000}]}).encode() + b"\n"


@dataclass(slots=True)
class Sender:
    """An upload written straight to the socket, and what the API's memory does meanwhile."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    process: psutil.Process
    peak_bytes: int = 0

    async def send(self, data: bytes) -> None:
        """As fast as the API takes it."""
        self.writer.write(data)
        await self.writer.drain()
        self.peak_bytes = max(self.peak_bytes, self.process.memory_info().rss)

    async def reply(self) -> tuple[int, dict[str, Any]]:
        """Status and body."""
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE_S)).decode().lower()
        length = int(head.split("content-length:")[1].split()[0])
        return int(head.split()[1]), json.loads(await self.reader.readexactly(length))


@dataclass(frozen=True, slots=True)
class Platform:
    """A running API."""

    process: psutil.Process
    url: str
    key: str
    home: Path

    @asynccontextmanager
    async def upload(self, size: int) -> AsyncGenerator[Sender]:
        """A request whose head is sent."""
        address = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        sender = Sender(reader, writer, self.process)
        head = (
            f"POST /v1/files HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {self.key}\r\n"
            f"content-type: {FORM}\r\ncontent-length: {size}\r\n\r\n"
        )
        await sender.send(head.encode())
        try:
            yield sender
        finally:
            writer.close()
            await writer.wait_closed()


@pytest.fixture(scope="module")
def platform(emptied_database: EmptiedDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """The API in a process of its own, which has taken an upload before; all tests share it."""
    home = tmp_path_factory.mktemp("home")

    async def make_key(database_url: str) -> str:
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
            return await create_key(connection, "tests")

    async def upload_first(platform: Platform) -> None:
        async with AsyncOpenAI(base_url=f"{platform.url}/v1", api_key=platform.key, max_retries=0) as client:
            await upload(client, ROW * 5_000)

    with emptied_database.lend() as database_url:
        key = asyncio.run(make_key(database_url))
        with api_process(home, database_url) as (process, url):
            platform = Platform(process, url, key, home)
            asyncio.run(upload_first(platform))
            yield platform


async def test_a_file_of_the_largest_size_does_not_pass_through_memory(platform: Platform) -> None:
    before, head, tail = platform.process.memory_info().rss, opened("user_data"), b"\r\n" + END
    async with platform.upload(len(head) + MAX_FILE_BYTES + len(tail)) as sender:
        await sender.send(head)
        for _ in range(MAX_FILE_BYTES // MIB):
            await sender.send(PIECE)
        await sender.send(tail)
        status, shown = await sender.reply()
    assert (status, shown.get("bytes")) == (200, MAX_FILE_BYTES), shown
    assert (sender.peak_bytes - before) / MIB < 64


async def test_one_byte_more_is_refused_without_reading_on(platform: Platform) -> None:
    kept = set((platform.home / "files").iterdir())
    async with platform.upload(MAX_FILE_BYTES + 2 * MIB) as announced:
        status, refusal = await announced.reply()
    assert (status, refusal["error"]["code"]) == (413, "request_too_large")
    head = opened("user_data")
    async with platform.upload(len(head) + MAX_FILE_BYTES + MIB // 2) as sender:
        await sender.send(head)
        for _ in range(MAX_FILE_BYTES // MIB):
            await sender.send(PIECE)
        await sender.send(b"x")
        status, refusal = await sender.reply()
    assert (status, refusal["error"]["code"]) == (413, "file_too_large")
    assert kept
    assert set((platform.home / "files").iterdir()) == kept, "only earlier uploads are kept"


async def test_a_dataset_that_is_hard_to_read_costs_the_api_next_to_nothing(platform: Platform) -> None:
    row = json.dumps({"messages": [{"role": "user", "content": "x"}], "nested": [[]] * 200_000}).encode() + b"\n"
    head, count, tail = opened("fine-tune"), 5 * MIB // len(row), b"\r\n" + END
    before = platform.process.cpu_times()
    async with platform.upload(len(head) + count * len(row) + len(tail)) as sender:
        await sender.send(head)
        for _ in range(count):
            await sender.send(row)
        await sender.send(tail)
        status, shown = await sender.reply()
    after = platform.process.cpu_times()
    assert (status, shown["dataset"]["rows"]) == (200, count)
    reading_s = after.children_user - before.children_user
    assert reading_s > 4 * (after.user - before.user), "it was read in a process of its own"


async def test_a_large_dataset_is_checked_without_passing_through_memory(platform: Platform) -> None:
    before, count = platform.process.memory_info().rss, 128 * MIB // len(LONG_ROW)
    head, tail = opened("fine-tune"), b"\r\n" + END
    async with platform.upload(len(head) + count * len(LONG_ROW) + len(tail)) as sender:
        await sender.send(head)
        for _ in range(count):
            await sender.send(LONG_ROW)
        await sender.send(tail)
        status, shown = await sender.reply()
    assert (status, shown.get("bytes")) == (200, count * len(LONG_ROW)), shown
    assert shown["dataset"]["rows"] == count
    assert (sender.peak_bytes - before) / MIB < 64
