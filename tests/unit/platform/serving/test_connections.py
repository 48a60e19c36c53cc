"""A connection for the next request is open before it comes, and no request meets one that is dead."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from rft.platform.serving.connections import SpareConnections


@dataclass(slots=True)
class Process:
    """Answers each line with a number: that of its connection."""

    server: asyncio.Server | None = None
    writers: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])
    came: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    @property
    def port(self) -> int:
        assert self.server is not None
        return self.server.sockets[0].getsockname()[1]

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        self.came.release()
        number = len(self.writers)
        while await reader.readline():
            writer.write(b"%d\n" % number)
        writer.close()

    async def opened(self, count: int) -> None:
        """In all."""
        async with asyncio.timeout(20):
            while len(self.writers) < count:
                await self.came.acquire()


@pytest.fixture
async def process() -> AsyncIterator[Process]:
    found = Process()
    found.server = await asyncio.start_server(found.accept, "127.0.0.1", 0)
    yield found
    found.server.close()
    for writer in found.writers:
        writer.close()


async def answer(connections: SpareConnections, port: int) -> bytes:
    reader, writer = await connections.take(port)
    writer.write(b"?\n")
    said = await reader.readline()
    writer.close()
    return said


async def refilled(connections: SpareConnections, process: Process, count: int) -> None:
    connections.refill(process.port)
    connections.refill(process.port)
    await process.opened(count)
    await asyncio.sleep(0.01)
    assert len(process.writers) == count


async def test_a_request_takes_the_one_that_is_open_and_the_next_opens_its_own(process: Process) -> None:
    connections = SpareConnections()
    await refilled(connections, process, 1)
    assert [await answer(connections, process.port) for _ in range(3)] == [b"1\n", b"2\n", b"3\n"]
    await refilled(connections, process, 4)
    assert await answer(connections, process.port) == b"4\n"


async def test_one_that_the_process_has_closed_is_not_used(process: Process) -> None:
    connections = SpareConnections()
    await refilled(connections, process, 1)
    process.writers[0].close()
    await asyncio.sleep(0.05)
    assert await answer(connections, process.port) == b"2\n"


async def test_where_nobody_listens_a_request_hears_it_and_nothing_else_does(process: Process) -> None:
    port, connections = process.port, SpareConnections()
    assert process.server is not None
    process.server.close()
    await process.server.wait_closed()
    connections.refill(port)
    await asyncio.sleep(0.05)
    with pytest.raises(OSError, match=str(port)):
        await connections.take(port)


async def test_spare_ones_of_processes_that_are_gone_are_closed_with_the_next_request_to_another(
    process: Process,
) -> None:
    """Each life of a process has a port of its own: nobody ever asks for the old one again."""
    connections, other = SpareConnections(), Process()
    other.server = await asyncio.start_server(other.accept, "127.0.0.1", 0)
    gone = other.port
    await refilled(connections, other, 1)
    reader, writer = connections._spare[gone]  # pyright: ignore[reportPrivateUsage]
    other.server.close()
    other.writers[0].close()
    await asyncio.wait_for(reader.read(), 20)
    await refilled(connections, process, 1)
    assert writer.is_closing()
    assert set(connections._spare) == {process.port}  # pyright: ignore[reportPrivateUsage]
    assert await answer(connections, process.port) == b"1\n"


async def test_what_is_open_is_closed_with_the_platform(process: Process) -> None:
    connections = SpareConnections()
    await refilled(connections, process, 1)
    connections.refill(process.port)
    connections.close()
    async with asyncio.timeout(20):
        await process.writers[0].wait_closed()
