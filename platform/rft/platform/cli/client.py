"""The platform's REST API, as the command line calls it: our own server, so none of the care customers' endpoints get.

The only module of the command line that knows the HTTP client.
"""

import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

import httpx
from httpx_sse import EventSource, SSEError

from rft.core.errors import RftError
from rft.platform.cli.address import Address
from rft.platform.cli.formats import one_line

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rft.core.base import JsonObject

_ERROR_BYTES = 1 << 20
_TIMEOUT_S = 60.0
"""Silence that a call bears; a stream says something every 10 s."""
_PATIENT_S = 1900.0
"""For what waits for a customer's endpoint, all its retries included."""
_PAGE = 100
_OTHER_KEY = "give another with --api-key or RFT_API_KEY; `rft keys create NAME` on the platform's host makes one"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

Query = Mapping[str, str | int | None]


class PlatformProblem(RftError):
    """A call that did not succeed, in one sentence for a person."""

    def __init__(self, message: str, answered: "JsonObject | None" = None) -> None:
        super().__init__(message)
        self.answered = answered
        """The API's own `error` object, where it sent one."""


class NotFound(PlatformProblem):
    """No such object."""


class ConnectionLost(PlatformProblem):
    """The platform could not be reached, or the connection broke: worth another try."""


class Sent(NamedTuple):
    """One message of a stream."""

    event: str
    data: str
    last_id: str | None
    """The id to go on after: this message's, or the last one before it."""


class Listing(NamedTuple):
    """What a list held."""

    found: "list[JsonObject]"
    next_after: str | None = None
    """Where the rest begins; None when this is all."""


class Client(AbstractContextManager["Client"]):
    """Calls one platform with one key. Every method raises PlatformProblem."""

    def __init__(self, address: Address, *, timeout_s: float = _TIMEOUT_S) -> None:
        self.address = address
        if not (address.api_key.isascii() and address.api_key.isprintable()):
            raise PlatformProblem(
                f"{address.base_url} cannot be called: the API key in --api-key or RFT_API_KEY holds a line break, or"
                " another character that no key has"
            )
        try:
            self._http = httpx.Client(
                headers={
                    "User-Agent": "rft",
                    "Authorization": f"Bearer {address.api_key}",
                    "Accept-Encoding": "identity",  # The length of a download is compared with the bytes that came.
                },
                timeout=timeout_s,
                # A redirect is an answer we do not follow: the key would go along.
                follow_redirects=False,
                # A proxy is for the world; this machine's own platform is nothing it could reach.
                trust_env=httpx.URL(address.base_url).host not in _LOOPBACK,
                # Certificates take longer to load than a call takes: only where there is something to verify.
                verify=address.base_url.startswith("https:"),
            )
        except (ValueError, ImportError, httpx.InvalidURL) as problem:  # A proxy's scheme.
            raise PlatformProblem(f"{address.base_url} cannot be called: {problem}") from problem

    def __exit__(self, *_: object) -> None:
        """Close its connections."""
        self._http.close()

    def get(self, path: str, query: Query | None = None) -> "JsonObject":
        """The object at a path."""
        return self._object("GET", path, params={k: v for k, v in (query or {}).items() if v is not None})

    def post(self, path: str, body: "JsonValue" = None, *, is_patient: bool = False) -> "JsonObject":
        """What came of a POST; without a body where there is none."""
        patience: dict[str, Any] = {"timeout": _PATIENT_S} if is_patient else {}
        return self._object("POST", path, **patience, **({} if body is None else _as_json(body)))

    def delete(self, path: str) -> "JsonObject":
        """What came of a DELETE."""
        return self._object("DELETE", path)

    def listed(self, path: str, query: Query | None = None, *, limit: int, after: str | None = None) -> Listing:
        """Up to `limit` objects of a list, over as many pages as that takes."""
        found: list[JsonObject] = []
        has_more = True
        while has_more and len(found) < limit:
            page = self.get(path, {**(query or {}), "limit": min(_PAGE, limit - len(found)), "after": after})
            new = to_listing(page).found
            found.extend(new)
            has_more = bool(page.get("has_more")) and bool(new)
            after = str(found[-1].get("id")) if found else None
        return Listing(found, after if has_more else None)

    def upload(self, file: Path, fields: Mapping[str, str], on_bytes: Callable[[int], None]) -> "JsonObject":
        """Send a file in pieces."""
        self.get("/files", {"limit": 1})  # A wrong key is told before the bytes, not in the middle of them.
        with file.open("rb") as source:
            content = cast("BinaryIO", _Announced(source, on_bytes))
            files = {"file": (file.name, content, "application/octet-stream")}
            return self._object("POST", "/files", timeout=_PATIENT_S, data=fields, files=files)

    def download(self, path: str, into: BinaryIO, on_bytes: Callable[[int], None]) -> None:
        """Write the bytes at a path in pieces; a cut-off reply is a problem."""
        with self._reply("GET", path) as reply:
            received = 0
            try:
                for chunk in reply.iter_raw():
                    into.write(chunk)
                    received += len(chunk)
                    on_bytes(len(chunk))
            except httpx.RemoteProtocolError as problem:
                wanted = reply.headers.get("content-length", "unknown")
                raise ConnectionLost(f"the connection broke after {received} of {wanted} bytes") from problem

    def stream(self, path: str, last_id: str | None = None) -> Iterator[Sent]:
        """Messages of a stream until it ends, whole ones only; raises ConnectionLost when it is cut off."""
        headers = {"Accept": "text/event-stream"} | ({} if last_id is None else {"Last-Event-ID": last_id})
        yield from self._messages("GET", path, last_id, headers=headers)

    def post_stream(self, path: str, body: "JsonValue") -> Generator[Sent]:
        """Messages that a POST is answered with; closed early, it is given up."""
        sent_along = _as_json(body)
        sent_along["headers"]["Accept"] = "text/event-stream"
        yield from self._messages("POST", path, None, **sent_along)

    def _messages(self, method: str, path: str, last_id: str | None, **sent_along: Any) -> Generator[Sent]:
        with self._reply(method, path, **sent_along) as reply:
            for sent in EventSource(reply).iter_sse():
                last_id = sent.id or last_id
                if sent.data:
                    yield Sent(sent.event, sent.data, last_id)

    def _object(self, method: str, path: str, **sent: Any) -> "JsonObject":
        with self._reply(method, path, **sent) as reply:
            document = json_object(reply.read())
        if document is None:
            raise self._stranger()
        return document

    @contextmanager
    def _reply(self, method: str, path: str, **sent: Any) -> Generator[httpx.Response]:
        try:
            with self._http.stream(method, self.address.base_url + path, **sent) as reply:
                if not reply.is_success:
                    status = reply.status_code
                    kind = ConnectionLost if status >= 500 else NotFound if status == 404 else PlatformProblem
                    raise kind(*_error_of(status, next(reply.iter_bytes(_ERROR_BYTES), b"")))
                yield reply
        except SSEError:
            raise self._stranger() from None
        except (httpx.HTTPError, httpx.InvalidURL) as problem:
            raise ConnectionLost(self._why_lost(problem, is_upload="files" in sent)) from problem

    def _stranger(self) -> PlatformProblem:
        return PlatformProblem(
            f"{self.address.base_url} does not answer like a platform's API: does the base URL end in /v1?"
        )

    def _why_lost(self, problem: Exception, *, is_upload: bool) -> str:
        where, causes = self.address.base_url, list(_causes(problem))
        if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
            return f"nobody answers at {where}: start the platform with `rft up`, or name another with --base-url"
        if isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError | httpx.InvalidURL):
            return f"{where} cannot be reached: {problem}"
        if isinstance(problem, httpx.TimeoutException):
            return f"{where} did not answer in time; what it was asked for may be done all the same"
        if is_upload and any(isinstance(cause, BrokenPipeError | ConnectionResetError) for cause in causes):
            return f"{where} closed the connection before it had everything (a file may have 512 MB at most)"
        return f"the connection to {where} broke ({type(problem).__name__})"


def _as_json(body: "JsonValue") -> dict[str, Any]:
    """A body as it was given: what UTF-8 cannot hold, escaped, and NaN are for the platform to refuse."""
    content = json.dumps(body, ensure_ascii=False).encode(errors="backslashreplace")
    return {"content": content, "headers": {"Content-Type": "application/json"}}


def to_listing(page: "JsonObject") -> Listing:
    """A page that is the whole list."""
    data = page.get("data")
    return Listing([entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else [])


class _Announced:
    """A file as it was when its length was announced: what is written behind that later does not go along."""

    def __init__(self, source: BinaryIO, on_bytes: Callable[[int], None]) -> None:
        self._source, self._on_bytes = source, on_bytes
        self._left = os.fstat(source.fileno()).st_size
        self.fileno = source.fileno  # Where the HTTP client looks for the length.

    def read(self, count: int) -> bytes:
        """The next piece. Raises PlatformProblem when the file has become too short."""
        chunk = self._source.read(min(count, self._left))
        if self._left and not chunk:
            raise PlatformProblem("the file became shorter while it was read")
        self._left -= len(chunk)
        self._on_bytes(len(chunk))
        return chunk


def _causes(problem: BaseException | None) -> Iterator[BaseException]:
    while problem is not None:
        yield problem
        problem = problem.__cause__ or problem.__context__


def json_object(content: str | bytes) -> "JsonObject | None":
    """The object a JSON text holds; None where it holds none."""
    try:
        document = cast("JsonValue", json.loads(content))
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _error_of(status: int, content: bytes) -> "tuple[str, JsonObject | None]":
    """What an error says, and the error as it came."""
    error = (json_object(content) or {}).get("error")
    message = error.get("message") if isinstance(error, dict) else None
    if not isinstance(error, dict) or not isinstance(message, str):
        return f"the platform answered with HTTP status {status}", None
    param = error.get("param")
    named = f" (param: {one_line(param)})" if isinstance(param, str) and param and f"'{param}'" not in message else ""
    hint = f" ({_OTHER_KEY})" if error.get("code") == "invalid_api_key" else ""
    return one_line(message, limit=2000) + named + hint, error
