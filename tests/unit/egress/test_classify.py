"""Totality: no exception of the client and no status may go unclassified."""

import asyncio
import errno
import inspect
import socket
import ssl
import zlib
from types import ModuleType

import aiohttp
import httpx
import pytest
from aiohttp import client_exceptions, http_exceptions
from aiohttp.client_reqrep import ConnectionKey
from hypothesis import given
from hypothesis import strategies as st

from rft.core.failure import FAULTS, FailureCode, Fault
from rft.egress.classify import (
    exception_code,
    is_surely_not_sent,
    mapped_code,
    root_message,
    status_code,
    status_phrase,
)
from rft.egress.guard import BlockedAddress


def exceptions_of(module: ModuleType) -> list[type[Exception]]:
    return [
        value
        for _, value in inspect.getmembers(module, inspect.isclass)
        if issubclass(value, Exception) and not issubclass(value, Warning) and not value.__name__.startswith("_")
    ]


def all_os_errors() -> list[type[OSError]]:
    found: list[type[OSError]] = [OSError]
    for class_ in found:
        found.extend(sub for sub in class_.__subclasses__() if sub not in found)
    return found


CLIENT_EXCEPTIONS = sorted(
    {
        *exceptions_of(httpx),
        *exceptions_of(client_exceptions),
        *exceptions_of(http_exceptions),
        *(e for e in exceptions_of(aiohttp) if issubclass(e, aiohttp.ClientError)),
        *exceptions_of(ssl),
        *exceptions_of(socket),
        *all_os_errors(),
        asyncio.TimeoutError,
        zlib.error,
    },
    key=lambda class_: f"{class_.__module__}.{class_.__name__}",
)


@pytest.mark.parametrize("class_", CLIENT_EXCEPTIONS, ids=lambda class_: f"{class_.__module__}.{class_.__name__}")
def test_every_exception_class_of_the_client_has_a_code(class_: type[Exception]) -> None:
    assert mapped_code([class_]) is not None


def test_the_enumeration_is_not_empty() -> None:
    names = {class_.__name__ for class_ in CLIENT_EXCEPTIONS}
    assert {"ReadTimeout", "ServerDisconnectedError", "BadStatusLine", "SSLError", "ConnectionResetError"} <= names
    assert len(names) > 70


@pytest.mark.parametrize("status", range(100, 600))
def test_every_status_is_an_answer_or_has_a_code(status: int) -> None:
    code = status_code(status)
    expected = {
        1: FailureCode.UNEXPECTED_STATUS,
        2: None,
        3: FailureCode.UNEXPECTED_STATUS,
        4: {
            429: FailureCode.RATE_LIMITED,
            **dict.fromkeys((401, 403, 407), FailureCode.UNAUTHORIZED),
            **dict.fromkeys((408, 421, 425), FailureCode.SERVER_ERROR),
        }.get(status, FailureCode.REJECTED),
        5: FailureCode.SERVER_ERROR,
    }[status // 100]
    assert code is expected
    assert status_phrase(status).startswith(str(status))


@given(st.integers())
def test_no_integer_is_without_a_verdict(status: int) -> None:
    code = status_code(status)
    assert (code is None) == (200 <= status <= 299)
    assert code is None or FAULTS[code] is Fault.ENDPOINT


def caused(outer: Exception, *causes: Exception) -> Exception:
    current: BaseException = outer
    for cause in causes:
        current.__cause__ = cause
        current = cause
    return outer


def connector_error(os_error: OSError) -> aiohttp.ClientConnectorError:
    key = ConnectionKey("h", 1, False, True, None, None, None)
    return aiohttp.ClientConnectorError(key, os_error)


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
RESET = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


@pytest.mark.parametrize(
    ("error", "code", "not_sent"),
    [
        (caused(httpx.ConnectTimeout("x"), connector_error(REFUSED), REFUSED), FailureCode.CONNECT_ERROR, True),
        (caused(httpx.ConnectTimeout("x"), aiohttp.ServerDisconnectedError()), FailureCode.CONNECTION_RESET, False),
        (
            caused(httpx.ConnectTimeout("x"), aiohttp.ClientOSError(104, "x"), RESET),
            FailureCode.CONNECTION_RESET,
            False,
        ),
        (caused(httpx.ReadError("x"), aiohttp.ClientPayloadError("x"), RESET), FailureCode.CONNECTION_RESET, False),
        (
            caused(httpx.ReadError("x"), aiohttp.ClientPayloadError("x"), http_exceptions.ContentLengthError("x")),
            FailureCode.CONNECTION_RESET,
            False,
        ),
        (caused(httpx.ReadTimeout("x"), aiohttp.SocketTimeoutError()), FailureCode.TIMEOUT, False),
        (
            caused(httpx.ConnectTimeout("x"), aiohttp.ClientOSError(110, "x"), TimeoutError(errno.ETIMEDOUT, "x")),
            FailureCode.CONNECTION_RESET,
            False,
        ),
        (
            caused(httpx.ConnectTimeout("x"), connector_error(TimeoutError(errno.ETIMEDOUT, "x"))),
            FailureCode.CONNECT_ERROR,
            True,
        ),
        (caused(httpx.TimeoutException("x"), aiohttp.ConnectionTimeoutError()), FailureCode.CONNECT_ERROR, True),
        (TimeoutError(), FailureCode.TIMEOUT, False),
        (
            caused(httpx.ConnectError("x"), connector_error(BlockedAddress("no")), BlockedAddress("no")),
            FailureCode.BLOCKED_ADDRESS,
            True,
        ),
        (caused(httpx.ConnectError("x"), ssl.SSLCertVerificationError("bad")), FailureCode.TLS_ERROR, False),
        (socket.gaierror(-2, "Name or service not known"), FailureCode.CONNECT_ERROR, False),
        (http_exceptions.BadStatusLine("x"), FailureCode.INVALID_REPLY, False),
        (RuntimeError("ours"), FailureCode.INTERNAL_ERROR, False),
    ],
)
def test_the_cause_decides_not_the_wrapper(error: Exception, code: FailureCode, *, not_sent: bool) -> None:
    assert exception_code(error) is code
    assert is_surely_not_sent(error) is not_sent
    assert root_message(error)


def test_running_out_of_file_descriptors_is_our_fault() -> None:
    shortage = OSError(errno.EMFILE, "Too many open files")
    code = exception_code(caused(httpx.ConnectError("x"), connector_error(shortage), shortage))
    assert FAULTS[code] is Fault.PLATFORM


def test_what_the_caller_was_handling_is_no_cause() -> None:
    error = TimeoutError()
    error.__context__ = RESET
    assert exception_code(error) is FailureCode.TIMEOUT


def test_a_circle_of_causes_ends() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert exception_code(first) is FailureCode.INTERNAL_ERROR
