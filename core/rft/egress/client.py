"""One attempt: a single HTTP exchange under a total deadline, size caps and the address guard. It raises nothing.

httpx's API on an aiohttp transport: plain httpx collapses under a burst of hundreds of calls.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache
from http import HTTPStatus

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver
from httpx_aiohttp import AiohttpTransport
from multidict import CIMultiDict

from rft.core.failure import FailureCode
from rft.egress.classify import exception_code, is_surely_not_sent, root_message, status_code, status_phrase
from rft.egress.endpoint import HeaderList, public_url
from rft.egress.guard import AddressPolicy, GuardedResolver, url_problem
from rft.egress.pooled_connections import open_session
from rft.egress.redaction import redact
from rft.egress.reply import AttemptFailure, Reply, SizeCaps
from rft.egress.retry import parse_http_date, parse_retry_after
from rft.egress.unpacking import Undecodable, unpack
from rft.egress.urls import parse_url

CONNECT_TIMEOUT_S = 10.0
_SNIPPET_CHARS = 200
_LARGE_BYTES = 1 << 20
_PIECE_BYTES = 1 << 16
_HEADER_ENCODING = "latin-1"
# httpx logs each request's whole URL at INFO, and a URL's query may hold a secret.
logging.getLogger("httpx").setLevel(logging.WARNING)


class _TooLarge(Exception):
    def __init__(self, status: int, told_bytes: int = 0) -> None:
        super().__init__(status)
        self.status, self.told_bytes = status, told_bytes


class HttpClient:
    """The connections of one event loop. Use as an async context manager; one per loop, shared by everything on it."""

    def __init__(
        self,
        policy: AddressPolicy | None = None,
        *,
        caps: SizeCaps | None = None,
        make_resolver: Callable[[], AbstractResolver] = aiohttp.ThreadedResolver,
        tls: ssl.SSLContext | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.policy, self.caps = policy or AddressPolicy(), caps or SizeCaps()
        self._make_resolver, self._tls, self._wall_clock = make_resolver, tls or _system_tls(), wall_clock
        self._timeout = {"connect": connect_timeout_s, "read": None, "write": None, "pool": connect_timeout_s}
        self._problems: dict[str, str | None] = {}
        # The transports themselves, without an httpx.AsyncClient around them: what it would add (cookies, redirects,
        # proxies, authentication) is what we must not do, and took a third of a call's time.
        self._transports = {
            "http": AiohttpTransport(verify=self._tls, client=lambda: self._session(is_https=False)),
            "https": AiohttpTransport(verify=self._tls, client=lambda: self._session(is_https=True)),
        }

    async def __aenter__(self) -> "HttpClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            await transport.aclose()

    async def post(
        self, url: str, body: bytes, *, headers: HeaderList, timeout_s: float, secrets: Sequence[str] = ()
    ) -> Reply | AttemptFailure:
        """POST once. Any whole HTTP answer is a Reply, whatever its status; it takes the call's `secrets` along."""
        return await self._attempt("POST", url, body, headers, timeout_s, self.caps.reply_bytes, secrets)

    async def ask(
        self, method: str, url: str, body: bytes, *, headers: HeaderList, timeout_s: float
    ) -> Reply | AttemptFailure:
        """One exchange by any method, for services whose interface is not the customer's."""
        return await self._attempt(method, url, body, headers, timeout_s, self.caps.reply_bytes)

    def url_problem(self, url: str) -> str | None:
        """Why the guard refuses this URL before anything is resolved; None when it is fine."""
        if url not in self._problems:
            self._problems[url] = url_problem(url, self.policy)
        return self._problems[url]

    async def options(self, url: str, *, headers: HeaderList, timeout_s: float) -> Reply | AttemptFailure:
        """Ask what may be done at the URL, without reading what it says: no server does anything for that."""
        return await self._attempt("OPTIONS", url, b"", headers, timeout_s, 0)

    async def probe(self, url: str, *, headers: HeaderList, timeout_s: float) -> Reply | AttemptFailure:
        """Ask for the URL without reading what it says: is anybody there?"""
        return await self._attempt("GET", url, b"", headers, timeout_s, 0)

    async def _attempt(
        self,
        method: str,
        url: str,
        body: bytes,
        headers: HeaderList,
        timeout_s: float,
        cap: int,
        secrets: Sequence[str] = (),
    ) -> Reply | AttemptFailure:
        problem = self.url_problem(url)
        if problem is not None:
            return AttemptFailure(FailureCode.BLOCKED_ADDRESS, problem, surely_not_sent=True)
        if len(body) > self.caps.request_bytes:
            message = f"the call has {len(body):,} bytes, more than {self.caps.request_bytes:,}"
            return AttemptFailure(FailureCode.OVERSIZE_REQUEST, message, surely_not_sent=True)
        started_s, chunks = time.perf_counter(), list[bytes]()
        try:
            async with asyncio.timeout(timeout_s):
                target = parse_url(url).target
                request = self._request(method, target, body, headers)
                response = await self._transports[target.scheme].handle_async_request(request)
                # Told the encoding, httpx need not guess it anew at every look at a header.
                response.headers.encoding = _HEADER_ENCODING
                try:
                    reply_body = await _read(response, cap, chunks) if cap else b""
                finally:
                    await response.aclose()
        except _TooLarge as error:
            message = f"answered with more than {cap:,} bytes"
            return AttemptFailure(
                FailureCode.OVERSIZE_REPLY,
                message,
                status=error.status,
                received_bytes=error.told_bytes or _size(chunks),
            )
        except Undecodable as error:
            message = f"answered with {error}"
            return AttemptFailure(FailureCode.INVALID_REPLY, message, received_bytes=_size(chunks))
        except Exception as error:
            return _failure(error, timeout_s, received_bytes=_size(chunks))
        return Reply(response.status_code, response.headers, reply_body, time.perf_counter() - started_s, secrets)

    def _request(self, method: str, target: httpx.URL, body: bytes, headers: HeaderList) -> httpx.Request:
        extensions = {"timeout": self._timeout}
        if len(body) > _LARGE_BYTES:
            # Whole, it would keep everything else on this loop waiting while it is written.
            headers = [*headers, ("Content-Length", str(len(body)))]
            request = httpx.Request(method, target, content=_pieces(body), extensions=extensions)
        else:
            # Given as a stream, httpx makes up no headers of its own, which would be thrown away below.
            request = httpx.Request(method, target, stream=httpx.ByteStream(body), extensions=extensions)
            request.read()
        # In aiohttp's own type: it looks a foreign mapping's keys up one by one.
        request.headers = CIMultiDict(headers)  # pyright: ignore[reportAttributeAccessIssue]
        return request

    def status_failure(self, reply: Reply) -> AttemptFailure | None:
        """What a reply's status alone says went wrong; None for 2xx."""
        code = status_code(reply.status)
        if code is None:
            return None
        asked_s = None
        if code in (FailureCode.RATE_LIMITED, FailureCode.SERVER_ERROR):
            # The endpoint's own clock, where it tells it, makes a date independent of how wrong the two clocks are.
            now_s = parse_http_date(reply.headers.get("date")) or self._wall_clock()
            asked_s = parse_retry_after(reply.headers.get("retry-after"), now_s=now_s)
        return AttemptFailure(code, _status_message(reply), status=reply.status, retry_after_s=asked_s)

    def _session(self, *, is_https: bool) -> aiohttp.ClientSession:
        return open_session(GuardedResolver(self._make_resolver(), self.policy, is_https=is_https), self._tls)


@cache
def _system_tls() -> ssl.SSLContext:
    return ssl.create_default_context()


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _PIECE_BYTES):
        yield body[start : start + _PIECE_BYTES]


def _size(chunks: Sequence[bytes]) -> int:
    return sum(map(len, chunks))


async def _read(response: httpx.Response, cap: int, chunks: list[bytes]) -> bytes:
    """The body, unpacked. Beyond the cap a 2xx raises _TooLarge; what an error status says is cut instead.

    `chunks` takes up what arrives, and keeps it when this raises.
    """
    is_answer = 200 <= response.status_code <= 299
    told_bytes, encoding = _told(response.headers)
    if is_answer and told_bytes > cap:
        raise _TooLarge(response.status_code, told_bytes)
    size = 0
    assert isinstance(response.stream, httpx.AsyncByteStream)
    async for chunk in response.stream:
        chunks.append(chunk)
        size += len(chunk)
        if size > cap:
            break
    body = b"".join(chunks)
    if encoding not in ("", "identity") and response.status_code != HTTPStatus.NO_CONTENT:
        try:
            body = unpack(body, encoding, cap, is_whole=size <= cap)
        except Undecodable:
            # Of a 2xx and of what may be the model's mistake the words count; all else is told by the status alone.
            if status_code(response.status_code) in (None, FailureCode.REJECTED):
                raise
            body = b""
    if is_answer and max(size, len(body)) > cap:
        raise _TooLarge(response.status_code)
    return body[:cap]


def _told(headers: httpx.Headers) -> tuple[int, str]:
    """Bytes of the body and how it is packed, as the headers have it; 0 and "" where they do not say."""
    told_bytes, encodings = 0, list[str]()
    # One look at all of them: httpx would go through the list once for each name.
    for name, value in headers.raw:
        match name.lower():
            case b"content-length":
                told_bytes = int(value or b"0")
            case b"content-encoding":
                encodings.append(value.decode(_HEADER_ENCODING).strip().lower())
            case _:
                pass
    return told_bytes, ", ".join(encodings)


def _failure(error: Exception, timeout_s: float, *, received_bytes: int) -> AttemptFailure:
    code, not_sent = exception_code(error), is_surely_not_sent(error)
    cause = root_message(error)
    messages = {
        FailureCode.BLOCKED_ADDRESS: f"may not be called: {cause}",
        FailureCode.CONNECT_ERROR: f"could not be reached ({cause})",
        FailureCode.TLS_ERROR: f"could not be reached securely ({cause})",
        FailureCode.CONNECTION_RESET: f"broke the connection before a whole reply was read ({cause})",
        FailureCode.TIMEOUT: f"gave no whole reply within {timeout_s:.3g} s",
        FailureCode.INVALID_REPLY: f"answered something that is not HTTP ({cause})",
        FailureCode.INTERNAL_ERROR: f"could not be called by us ({type(error).__name__}: {cause})",
    }
    message = messages.get(code, f"failed ({cause})")
    return AttemptFailure(code, message, surely_not_sent=not_sent, received_bytes=received_bytes)


def _status_message(reply: Reply) -> str:
    summary = f"answered {status_phrase(reply.status)}"
    if 300 <= reply.status <= 399 and (location := reply.headers.get("location")):
        target = redact(public_url(location), reply.secrets)[:_SNIPPET_CHARS]
        return f"{summary} to {target}; redirects are not followed, register the final URL"
    text = " ".join(redact(reply.body.decode(errors="replace"), reply.secrets).split())
    return f"{summary}: {text[:_SNIPPET_CHARS]}" if text else summary
