"""Replies on real sockets that break HTTP's rules: none becomes another call's answer, each is told for what it is."""

import asyncio
import gzip
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from rft.core.failure import FailureCode
from rft.egress.client import HttpClient
from rft.egress.endpoint import to_header_list
from rft.egress.reply import AttemptFailure, Reply
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.faults import HttpAnswer
from rft.testing.loopback import LoopbackEndpoint, encode

HEADERS = to_header_list({})
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def one_request(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(2)


@asynccontextmanager
async def served(serve: Serve) -> AsyncGenerator[str]:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has closed it
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/tool"


async def post(client: HttpClient, url: str) -> Reply | AttemptFailure:
    return await client.post(url, b"{}", headers=HEADERS, timeout_s=60.0)


async def say(reply: bytes) -> Reply | AttemptFailure:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await one_request(reader)
        writer.write(reply)
        await writer.drain()

    async with served(serve) as url, HttpClient() as client:
        return await post(client, url)


async def test_a_second_reply_to_one_call_is_never_the_next_calls_reply() -> None:
    calls, is_read, is_sent = 0, asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        while True:
            await one_request(reader)
            calls += 1
            writer.write(encode(HttpAnswer(200, b"reply %d" % calls)))
            if calls == 1:
                await is_read.wait()
                writer.write(encode(HttpAnswer(200, b"reply 1 once more")))
                await writer.drain()
                is_sent.set()

    async with served(serve) as url, LoopbackEndpoint(ScriptedEndpoint()) as other, HttpClient() as client:
        replies = [await post(client, url)]
        is_read.set()
        await is_sent.wait()
        await post(client, other.tool_url)  # What was sent before has arrived by the time of this reply.
        replies += [await post(client, url), await post(client, url)]
    bodies = [reply.body for reply in replies if isinstance(reply, Reply)]
    assert bodies == [b"reply 1", b"reply 2", b"reply 3"]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, FailureCode.UNAUTHORIZED),
        (408, FailureCode.SERVER_ERROR),
        (429, FailureCode.RATE_LIMITED),
        (503, FailureCode.SERVER_ERROR),
    ],
)
@pytest.mark.parametrize(("encoding", "body"), [("br", b"\x0b\x02\x80abc\x03"), ("gzip", b"<html>"), ("gzip", b"")])
async def test_an_error_page_that_cannot_be_unpacked_is_told_by_its_status(
    status: int, code: FailureCode, encoding: str, body: bytes
) -> None:
    reply = await say(encode(HttpAnswer(status, body, {"content-encoding": encoding, "retry-after": "7"})))
    assert isinstance(reply, Reply)
    async with HttpClient() as client:
        failure = client.status_failure(reply)
    assert failure is not None
    assert (failure.code, failure.status) == (code, status)
    assert failure.retry_after_s == (None if status == 401 else 7.0)


@pytest.mark.parametrize("status", [200, 400])
async def test_what_the_model_would_read_has_to_be_readable(status: int) -> None:
    failure = await say(encode(HttpAnswer(status, gzip.compress(b"hello")[:-9], {"content-encoding": "gzip"})))
    assert isinstance(failure, AttemptFailure)
    assert failure.code is FailureCode.INVALID_REPLY


async def test_a_reply_without_a_body_has_nothing_to_unpack() -> None:
    reply = await say(b"HTTP/1.1 204 No Content\r\ncontent-encoding: gzip\r\n\r\n")
    assert isinstance(reply, Reply)
    assert (reply.status, reply.body) == (204, b"")


@pytest.mark.parametrize("status", [200, 404])
async def test_words_of_a_status_line_may_be_in_any_encoding(status: int) -> None:
    reply = await say(b"HTTP/1.1 %d Voil\xe0\r\ncontent-length: 2\r\n\r\n{}" % status)
    assert isinstance(reply, Reply)
    assert (reply.status, reply.body) == (status, b"{}")


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\ncontent-length: 5\r\n\r\n", "(Duplicate Content-Length"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}", "(Not enough data"),
    ],
)
async def test_what_is_wrong_with_the_http_is_told_in_one_line(reply: bytes, told: str) -> None:
    failure = await say(reply)
    assert isinstance(failure, AttemptFailure)
    assert told in failure.message
    assert "\n" not in failure.message
