"""Breaking on purpose, so that you can watch what the platform does with it.

A share of the rollouts, chosen by a hash of their trace id, finds this server broken for good: every tool call and the
grade of such a rollout fails in the same way, however often it is tried again. A third each answers 503, resets the
connection, or hangs until the caller gives up.
"""

import hashlib
import socket
import struct
from asyncio import BaseTransport, Transport

from fastapi import Request, Response
from uvicorn.protocols.http.auto import AutoHTTPProtocol

KINDS = ("unavailable", "reset", "hang")


class Faults:
    """Which rollouts are broken, and how."""

    def __init__(self, share: float) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"a share of rollouts lies between 0 and 1, got {share}")
        self._share = share

    def kind(self, trace_id: str) -> str | None:
        """How this rollout is broken; None when it is not."""
        digest = hashlib.sha256(trace_id.encode()).digest()
        if int.from_bytes(digest[:8], "big") >= self._share * 2**64:
            return None
        return KINDS[int.from_bytes(digest[8:16], "big") % len(KINDS)]


async def fail(kind: str, request: Request) -> Response:
    """Answer a request in a broken way."""
    if kind == "unavailable":
        return Response("out of order", status_code=503)
    if kind == "reset":
        reset_connection(request)
    while (await request.receive())["type"] != "http.disconnect":
        pass
    return Response(status_code=503)  # Nobody is there to read it.


_TRANSPORTS: dict[tuple[str, int], Transport] = {}


class ResettableProtocol(AutoHTTPProtocol):
    """Uvicorn's protocol, remembering the transport of each caller: an application cannot reach it otherwise."""

    _caller: tuple[str, int] | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        """Called by the event loop."""
        super().connection_made(transport)  # pyright: ignore[reportArgumentType]
        assert isinstance(transport, Transport)
        host, port = transport.get_extra_info("peername")[:2]
        self._caller = (host, port)
        _TRANSPORTS[self._caller] = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        if self._caller is not None:
            _TRANSPORTS.pop(self._caller, None)
        super().connection_lost(exc)


def reset_connection(request: Request) -> None:
    """Send a TCP reset: no goodbye, no reply."""
    assert request.client is not None
    transport = _TRANSPORTS[request.client.host, request.client.port]
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
