"""A request's head is kept in memory before anybody knows who sends it: it has to end."""

import asyncio
from urllib.parse import urlsplit

import pytest

from rft.platform.api.http_protocol import LARGEST_HEAD_BYTES
from tests.shared.running_api import Api

PIECE = b"x" * 16_384
MORE_THAN_SOCKETS_HOLD = 256 << 20


async def connected(api: Api) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = urlsplit(api.url)
    return await asyncio.open_connection(address.hostname, address.port)


async def refused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Goes on with what was begun until the server has had enough of it."""
    answer = asyncio.create_task(reader.readline())
    sent = 0
    try:
        while not answer.done():
            assert sent < MORE_THAN_SOCKETS_HOLD, "nobody refuses it"
            writer.write(PIECE)
            await writer.drain()
            await asyncio.sleep(0)
            sent += len(PIECE)
        assert await answer in (b"HTTP/1.1 400 Bad Request\r\n", b"")
    except ConnectionError:  # It was closed before all had been sent.
        answer.cancel()
    assert sent > LARGEST_HEAD_BYTES
    writer.close()


@pytest.mark.parametrize("begin", [b"GET /", b"GET /health HTTP/1.1\r\nHost: here\r\nx-long: "], ids=["path", "header"])
async def test_a_head_without_an_end_is_refused(api: Api, begin: bytes) -> None:
    reader, writer = await connected(api)
    writer.write(begin)
    await refused(reader, writer)


@pytest.mark.parametrize("begin", [b"0\r\nx-long: ", b"1;x="], ids=["trailer", "chunk extension"])
async def test_what_surrounds_the_chunks_of_a_body_has_to_end(api: Api, begin: bytes) -> None:
    reader, writer = await connected(api)
    head = (
        f"POST /v1/fine_tuning/jobs HTTP/1.1\r\nHost: {urlsplit(api.url).netloc}\r\nAuthorization: Bearer {api.key}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    writer.write(head.encode() + begin)
    await refused(reader, writer)


async def test_a_head_is_not_counted_with_its_body_nor_with_the_next(api: Api) -> None:
    reader, writer = await connected(api)
    head = f"GET /health HTTP/1.1\r\nHost: {urlsplit(api.url).netloc}\r\nx-long: {'x' * 40_000}\r\n\r\n".encode()
    for _ in range(4):
        writer.write(head)
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        await reader.readuntil(b"}")
    writer.close()


async def test_one_connection_takes_large_bodies_and_request_after_request(api: Api) -> None:
    reader, writer = await connected(api)
    body = b'{"padding": "' + PIECE * 20 + b'"}'
    head = (
        f"POST /v1/fine_tuning/jobs HTTP/1.1\r\nHost: {urlsplit(api.url).netloc}\r\nAuthorization: Bearer {api.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    for _ in range(3):
        writer.write(head.encode() + body)
        assert await reader.readline() == b"HTTP/1.1 400 Bad Request\r\n", "the order is refused, and was read whole"
        headers = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(headers.split(b"content-length: ")[1].split(b"\r\n")[0])
        assert b"model" in await reader.readexactly(length)
    writer.close()
