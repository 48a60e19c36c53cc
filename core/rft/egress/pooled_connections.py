"""The connections of a client: what aiohttp's own would make of servers that break HTTP's rules, or that are gone."""

import asyncio
import socket
import ssl
from functools import partial
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler

IDLE_CONNECTION_S = 4.0
"""Below the five seconds after which uvicorn closes an idle connection, so that we do not write into a closing one."""
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds of silence before the other end's kernel is asked, seconds between two questions, and how many."""


def open_session(resolver: AbstractResolver, tls: ssl.SSLContext) -> aiohttp.ClientSession:
    """As many connections as there are calls, without cookies and proxies. Called inside the loop that uses them."""
    connector = aiohttp.TCPConnector(
        limit=0,
        resolver=resolver,
        keepalive_timeout=IDLE_CONNECTION_S,
        ssl=tls,
        socket_factory=_watched_socket,
    )
    make = partial(_Connection, loop=asyncio.get_running_loop())
    connector._factory = make  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), response_class=_Response, trust_env=False
    )


def _watched_socket(address: tuple[Any, ...]) -> socket.socket:
    """One whose kernel notices within a minute that nobody is at the other end any more.

    A machine that loses its power closes no connection: a call there would wait for its whole deadline.
    """
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


class _Response(aiohttp.ClientResponse):
    """Without the words of its status line: httpx encodes them, and breaks on those that came in another encoding."""

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Read status and headers."""
        started = await super().start(connection)
        self.reason = None
        return started


class _Connection(ResponseHandler):
    """A connection that is not used again once something came on it that nobody had asked for.

    aiohttp would take a second reply to one call for the reply to the next one, and each later call on that connection
    would get the reply of the call before it: another rollout's output, another rollout's score.
    """

    def is_connected(self) -> bool:
        """Whether the pool may hand it out."""
        return super().is_connected() and not self.should_close
