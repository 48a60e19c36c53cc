"""Total classification: every exception of the client and every HTTP status has one failure code."""

import asyncio
import errno
import os
import socket
import ssl
import zlib
from collections.abc import Iterator, Sequence
from http import HTTPStatus

import aiohttp
import httpx
from aiohttp import http_exceptions

from rft.core.failure import FailureCode
from rft.egress.guard import BlockedAddress

OUR_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
"""Operating system errors that say our machine, not the endpoint, ran out of something."""

RULES: tuple[tuple[FailureCode, tuple[type[BaseException], ...]], ...] = (
    (
        FailureCode.BLOCKED_ADDRESS,
        (
            BlockedAddress,
            aiohttp.InvalidURL,
            aiohttp.NonHttpUrlClientError,
            httpx.InvalidURL,
            httpx.UnsupportedProtocol,
        ),
    ),
    (FailureCode.TLS_ERROR, (ssl.SSLError, ssl.CertificateError, aiohttp.ServerFingerprintMismatch,
                             aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError)),
    (FailureCode.CONNECT_ERROR, (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError, ConnectionRefusedError,
                                 socket.gaierror, socket.herror)),
    (FailureCode.TIMEOUT, (TimeoutError,)),
    (FailureCode.UNEXPECTED_STATUS, (aiohttp.TooManyRedirects, aiohttp.RedirectClientError,
                                     aiohttp.ClientHttpProxyError, aiohttp.WSServerHandshakeError)),
    # Malformed framing says "garbage"; a body that merely ends too early says "the connection broke".
    (FailureCode.INVALID_REPLY, (aiohttp.ClientResponseError, http_exceptions.ContentEncodingError,
                                 http_exceptions.DecompressSizeError, zlib.error)),
    (FailureCode.CONNECTION_RESET, (aiohttp.ClientPayloadError, http_exceptions.PayloadEncodingError)),
    (FailureCode.INVALID_REPLY, (http_exceptions.HttpProcessingError,)),
    (FailureCode.CONNECTION_RESET, (aiohttp.ClientConnectionError, aiohttp.UploadAbortedError, OSError)),
    (FailureCode.INTERNAL_ERROR, (aiohttp.ClientError, aiohttp.WSMessageTypeError)),
    # The client's own classes decide only where no cause below them did: they are coarse, and one of them is wrong
    # (a refused connection and a broken one both arrive as ConnectTimeout).
    (FailureCode.CONNECT_ERROR, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)),
    (FailureCode.INTERNAL_ERROR, (httpx.PoolTimeout, httpx.LocalProtocolError)),
    (FailureCode.TIMEOUT, (httpx.TimeoutException,)),
    (FailureCode.CONNECTION_RESET, (httpx.NetworkError,)),
    (FailureCode.INVALID_REPLY, (httpx.ProtocolError, httpx.DecodingError)),
    (FailureCode.UNEXPECTED_STATUS, (httpx.TooManyRedirects, httpx.HTTPStatusError)),
    (FailureCode.INTERNAL_ERROR, (httpx.HTTPError, httpx.StreamError, httpx.CookieConflict)),
)  # fmt: skip
"""First match wins; an exception is matched together with all its causes."""

UNAUTHORIZED_STATUSES = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED}
)
"""Who asks is not let in: the key that the endpoint's owner gave is wrong, or expired."""
TRANSIENT_STATUSES = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.MISDIRECTED_REQUEST, HTTPStatus.TOO_EARLY})
"""4xx that say nothing about what was asked: the server, or a proxy before it, wants it sent again (RFC 9110, 8470)."""

_NOT_SENT: tuple[type[BaseException], ...] = (
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientConnectorError,
    aiohttp.ClientConnectorCertificateError,
    BlockedAddress,
)


def mapped_code(types: Sequence[type[BaseException]]) -> FailureCode | None:
    """The code of the first rule that knows one of these classes; None when no rule does."""
    for code, known in RULES:
        if any(issubclass(type_, known) for type_ in types):
            return code
    return None


def exception_code(error: BaseException) -> FailureCode:
    """The failure code of an exception and its causes. What no rule knows is a mistake of ours."""
    causes = list(_causes(error))
    if any(isinstance(cause, OSError) and cause.errno in OUR_SHORTAGES for cause in causes):
        return FailureCode.INTERNAL_ERROR
    code = mapped_code([type(cause) for cause in causes]) or FailureCode.INTERNAL_ERROR
    if code is FailureCode.TIMEOUT and any(isinstance(c, OSError) and c.errno == errno.ETIMEDOUT for c in causes):
        return FailureCode.CONNECTION_RESET  # No deadline of ours: the kernel found nobody at the other end.
    return code


def is_surely_not_sent(error: BaseException) -> bool:
    """Whether the exception came before the first byte of the request could leave."""
    return any(isinstance(cause, _NOT_SENT) for cause in _causes(error))


def root_message(error: Exception) -> str:
    """The innermost cause, as a message."""
    # A deadline is a TimeoutError that comes of a cancellation, which nobody has to hear of.
    innermost = [cause for cause in _causes(error) if not isinstance(cause, asyncio.CancelledError)][-1]
    if isinstance(innermost, ssl.SSLCertVerificationError):
        return f"certificate refused: {getattr(innermost, 'verify_message', innermost)}"
    if (
        isinstance(innermost, OSError)
        and innermost.errno
        and innermost.errno > 0
        and type(innermost) is not ssl.SSLError
    ):
        return os.strerror(innermost.errno)
    if isinstance(innermost, http_exceptions.HttpProcessingError):
        message = " ".join(innermost.message.split())  # As a text it begins with a status that nobody answered.
    else:
        message = innermost.strerror if isinstance(innermost, OSError) and innermost.strerror else str(innermost)
    return message or ("timed out" if isinstance(innermost, TimeoutError) else type(innermost).__name__)


def _causes(error: BaseException) -> Iterator[BaseException]:
    # Not `__context__`: that may be whatever our caller was handling when it made the call.
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__


def status_code(status: int) -> FailureCode | None:
    """The failure code of an HTTP status; None for 2xx. Total over all integers."""
    if 200 <= status <= 299:
        return None
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return FailureCode.RATE_LIMITED
    if status in UNAUTHORIZED_STATUSES:
        return FailureCode.UNAUTHORIZED
    if status in TRANSIENT_STATUSES:
        return FailureCode.SERVER_ERROR
    if 400 <= status <= 499:
        return FailureCode.REJECTED
    if 500 <= status <= 599:
        return FailureCode.SERVER_ERROR
    return FailureCode.UNEXPECTED_STATUS


def status_phrase(status: int) -> str:
    """`503 Service Unavailable`, or the bare number of a status nobody defined."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
