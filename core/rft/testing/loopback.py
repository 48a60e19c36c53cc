"""A `ScriptedEndpoint` on a real socket of this machine, with the faults that only a raw server can produce."""

import asyncio
import ssl
import struct
from collections.abc import Callable
from http import HTTPStatus
from socket import SO_LINGER, SOL_SOCKET
from typing import cast

from rft.testing.endpoint import DRIP_S, GRADER_PATH, TOOL_PATH, ScriptedEndpoint
from rft.testing.faults import Fault, FaultKind, HttpAnswer, ReceivedCall, render


class LoopbackEndpoint:
    """Serves an endpoint on this machine while it is entered; HTTP/1.1 with connections kept alive, no pipelining."""

    def __init__(
        self,
        endpoint: ScriptedEndpoint,
        *,
        tls: ssl.SSLContext | None = None,
        port: int = 0,
        address: str = "127.0.0.1",
    ) -> None:
        self.endpoint, self.port, self._address = endpoint, port, address
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._open: set[_Connection] = set()
        self._is_closed = False
        self.connections = 0
        """Connections accepted so far."""

    @property
    def base_url(self) -> str:
        """Without a trailing slash."""
        return f"{'https' if self._tls else 'http'}://{self._address}:{self.port}"

    @property
    def tool_url(self) -> str:
        """Where tool calls go."""
        return self.base_url + TOOL_PATH

    @property
    def grader_url(self) -> str:
        """Where grading requests go."""
        return self.base_url + GRADER_PATH

    async def __aenter__(self) -> "LoopbackEndpoint":
        self._server = await asyncio.get_running_loop().create_server(
            self._connect, self._address, self.port, ssl=self._tls, backlog=4096
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._is_closed = True
        self._server.close()
        for connection in list(self._open):
            connection.abort()
        await self._server.wait_closed()

    def _connect(self) -> "_Connection":
        self.connections += 1
        return _Connection(self.endpoint, self._open, lambda: self._is_closed)


class _Connection(asyncio.Protocol):
    """One accepted connection: reads a request, lets the endpoint answer, writes the answer or breaks."""

    def __init__(self, endpoint: ScriptedEndpoint, siblings: "set[_Connection]", is_closed: Callable[[], bool]) -> None:
        self._endpoint, self._siblings, self._is_closed = endpoint, siblings, is_closed
        self._buffer = b""
        self._work: asyncio.Task[None] | None = None
        self._call: ReceivedCall | None = None
        """The one in work."""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._is_closed():
            self._transport.abort()  # accepted just before the server closed
        self._siblings.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._siblings.discard(self)
        if self._work is not None:
            self._work.cancel()
            self._finish()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._work is None:
            self._take_request()

    def abort(self) -> None:
        """Drop the connection at once."""
        assert self._transport is not None
        self._transport.abort()

    def _take_request(self) -> None:
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        method, target, *_ = lines[0].split(" ")
        path, _, query = target.partition("?")
        self._call = self._endpoint.begin(path, headers, rest[:length], method=method, query=query)
        self._work = asyncio.ensure_future(self._reply(self._call))

    def _finish(self) -> None:
        self._work = None
        if self._call is not None:
            self._endpoint.end(self._call)
            self._call = None

    async def _reply(self, call: ReceivedCall) -> None:
        try:
            answer = await self._endpoint.answer(call)
        except Exception as error:  # a scripted tool that breaks is a server that breaks
            answer = HttpAnswer(500, repr(error).encode())
        transport = self._transport
        assert transport is not None
        if isinstance(answer, HttpAnswer):
            transport.write(encode(answer))
        else:
            await _break(transport, answer)
        if self._work is not None:
            self._finish()
            self._take_request()


def encode(answer: HttpAnswer) -> bytes:
    """A reply as bytes of HTTP/1.1."""
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = "Unknown"
    headers = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
    head = f"HTTP/1.1 {answer.status} {phrase}\r\n{headers}content-length: {len(answer.body)}\r\n\r\n"
    return head.encode("latin-1") + answer.body


_PROMISE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"


async def _break(transport: asyncio.Transport, fault: Fault) -> None:
    match fault.kind:
        case FaultKind.RESET_BEFORE_HEADERS:
            _reset(transport)
        case FaultKind.RESET_AFTER_HEADERS:
            transport.write(_PROMISE + b'{"out')
            await asyncio.sleep(0.01)  # lets the caller read the headers: a reset discards what was not read yet
            _reset(transport)
        case FaultKind.HALF_CLOSED:
            transport.close()
        case FaultKind.EARLY_END:
            transport.write(_PROMISE + b'{"out')
            transport.close()
        case FaultKind.GARBAGE:
            transport.write(b"\x16\x03\x01 this is not HTTP at all\r\n\r\n")
            transport.close()
        case FaultKind.HANG:
            await asyncio.Event().wait()
        case FaultKind.SLOW_DRIP:
            transport.write(_PROMISE)
            while True:
                transport.write(b" ")
                await asyncio.sleep(DRIP_S)
        case _:
            transport.write(encode(render(fault)))


def _reset(transport: asyncio.Transport) -> None:
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
