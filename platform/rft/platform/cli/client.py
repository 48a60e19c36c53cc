"""The platform's REST API, as the command line calls it: our own server, so none of the care customers' endpoints get.

The standard library's client is enough here and starts quickly; it also lets a file through in pieces.
"""

import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import quote, urlencode, urlsplit

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from rft.core.base import JsonObject
from rft.core.errors import RftError
from rft.platform.cli.address import Address
from rft.platform.cli.sse import Sent, messages
from rft.platform.cli.words import one_line

_CHUNK_BYTES = 1 << 18
_TIMEOUT_S = 60.0
"""Silence that a call bears; a stream says something every 15 s."""
PATIENT_S = 1900.0
"""For what waits for a customer's endpoint, all its retries included."""
_PAGE = 100
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

Query = Mapping[str, str | int | None]


class PlatformProblem(RftError):
    """A call that did not succeed, in one sentence for a person."""

    def __init__(self, words: str, answered: JsonObject | None = None) -> None:
        super().__init__(words)
        self.answered = answered
        """The API's own `error` object, where it sent one."""


class NotThere(PlatformProblem):
    """No such object."""


class LineLost(PlatformProblem):
    """The platform could not be reached, or the connection broke: worth another try."""


class ReaderGone(RftError):
    """Whoever read what we write has gone, e.g. `head`: no reason to complain."""


class _Error(BaseModel):
    model_config = ConfigDict(extra="allow")

    message: str
    param: str | None = None


class _Envelope(BaseModel):
    error: _Error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: object, fp: object, code: int, msg: str, headers: object, newurl: str) -> None:
        """A redirect is an answer we do not follow: the key would go along."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a list held."""

    found: list[JsonObject]
    next_after: str | None
    """Where the rest begins; None when this is all."""


def to_listing(page: JsonObject) -> Listing:
    """A page that is the whole list."""
    data = page.get("data")
    return Listing([entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else [], None)


class Client:
    """Calls one platform with one key. Every method raises PlatformProblem."""

    def __init__(self, address: Address, *, timeout_s: float = _TIMEOUT_S) -> None:
        self.address = address
        self._timeout_s = timeout_s
        # A proxy is for the world; this machine's own platform is nothing it could reach.
        is_here = urlsplit(address.base_url).hostname in _LOOPBACK
        proxies = [urllib.request.ProxyHandler({})] if is_here else []
        self._opener = urllib.request.build_opener(_NoRedirects, *proxies)

    def get(self, path: str, query: Query | None = None) -> JsonObject:
        """The object at a path."""
        return self._object(self._request("GET", path, query))

    def post(self, path: str, body: JsonValue = None, *, is_patient: bool = False) -> JsonObject:
        """What came of a POST; without a body where there is none."""
        request = self._request("POST", path)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        return self._object(request, is_patient=is_patient)

    def delete(self, path: str) -> JsonObject:
        """What came of a DELETE."""
        return self._object(self._request("DELETE", path))

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

    def upload(self, file: Path, fields: Mapping[str, str], on_bytes: Callable[[int], None]) -> JsonObject:
        """Send a file in pieces."""
        self.get("/files", {"limit": 1})  # A wrong key is told before the bytes, not in the middle of them.
        boundary = secrets.token_hex(16)
        head = "".join(_form_field(boundary, name, value) for name, value in fields.items())
        head += _form_field(boundary, "file", "", filename=file.name).removesuffix("\r\n")
        tail = f"\r\n--{boundary}--\r\n".encode()
        with file.open("rb") as source:
            size = file.stat().st_size
            request = self._request("POST", "/files")
            request.add_header("Content-Type", f"multipart/form-data; boundary={boundary}")
            request.add_header("Content-Length", str(len(head.encode()) + size + len(tail)))
            request.data = _form(head.encode(), source, size, tail, on_bytes)
            return self._object(request, is_patient=True)

    def download(self, path: str, into: BinaryIO, on_bytes: Callable[[int], None]) -> None:
        """Write the bytes at a path in pieces; a cut-off reply is a problem."""
        with self._open(self._request("GET", path)) as reply:
            wanted = reply.getheader("content-length")
            received = 0
            while chunk := reply.read(_CHUNK_BYTES):
                _write(into, chunk)
                received += len(chunk)
                on_bytes(len(chunk))
            if wanted is not None and int(wanted) != received:
                raise LineLost(f"the connection broke after {received} of {wanted} bytes")

    def stream(self, path: str, last_id: str | None = None) -> Iterator[Sent]:
        """Messages of a stream until it ends; raises LineLost when it is cut off."""
        request = self._request("GET", path)
        request.add_header("Accept", "text/event-stream")
        if last_id is not None:
            request.add_header("Last-Event-ID", last_id)
        with self._open(request) as reply:
            yield from messages((line.decode("utf-8", "replace") for line in reply), last_id)

    def _request(self, method: str, path: str, query: Query | None = None) -> urllib.request.Request:
        pairs = {name: value for name, value in (query or {}).items() if value is not None}
        url = self.address.base_url + path + (f"?{urlencode(pairs)}" if pairs else "")
        request = urllib.request.Request(url, method=method)
        request.add_header("User-Agent", "rft")
        request.add_unredirected_header("Authorization", f"Bearer {self.address.api_key}")
        return request

    def _object(self, request: urllib.request.Request, *, is_patient: bool = False) -> JsonObject:
        with self._open(request, PATIENT_S if is_patient else self._timeout_s) as reply:
            content = reply.read()
        try:
            document = cast("JsonValue", json.loads(content))
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise PlatformProblem(
                f"{self.address.base_url} does not answer like a platform's API: does the base URL end in /v1?"
            )
        return document

    @contextmanager
    def _open(self, request: urllib.request.Request, timeout_s: float | None = None) -> Generator[HTTPResponse]:
        try:
            with self._opener.open(request, timeout=timeout_s or self._timeout_s) as reply:
                yield cast("HTTPResponse", reply)
        except urllib.error.HTTPError as answer:
            with answer:
                kind = LineLost if answer.code >= 500 else NotThere if answer.code == 404 else PlatformProblem
                raise kind(*_in_words(answer.code, answer.read(1 << 20))) from None
        except urllib.error.URLError as problem:
            raise LineLost(self._unreachable(problem.reason)) from problem
        except (TimeoutError, ConnectionError, HTTPException) as problem:
            raise LineLost(f"the connection to {self.address.base_url} broke ({type(problem).__name__})") from problem

    def _unreachable(self, reason: object) -> str:
        where = self.address.base_url
        if isinstance(reason, ConnectionRefusedError):
            return f"nobody answers at {where}: start the platform with `rft up`, or name another with --base-url"
        if isinstance(reason, BrokenPipeError | ConnectionResetError):
            return f"{where} closed the connection before it had everything (a file may have 512 MB at most)"
        return f"{where} cannot be reached: {reason}"


def part(text: str) -> str:
    """An id as one part of a path."""
    return quote(text, safe="")


def _write(into: BinaryIO, chunk: bytes) -> None:
    try:
        into.write(chunk)
    except BrokenPipeError as problem:
        raise ReaderGone from problem


def _in_words(status: int, content: bytes) -> tuple[str, JsonObject | None]:
    """What an error says, and the error as it came."""
    try:
        error = _Envelope.model_validate_json(content).error
    except ValidationError:
        return f"the platform answered with HTTP status {status}", None
    named = f" (param: {one_line(error.param)})" if error.param and f"'{error.param}'" not in error.message else ""
    return one_line(error.message, limit=2000) + named, error.model_dump(mode="json")


def _form_field(boundary: str, name: str, value: str, *, filename: str | None = None) -> str:
    said = filename and filename.replace("\\", "\\\\").replace('"', '\\"').replace("\r", " ").replace("\n", " ")
    file = "" if said is None else f'; filename="{said}"\r\nContent-Type: application/octet-stream'
    return f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n{value}\r\n'


def _form(head: bytes, source: BinaryIO, size: int, tail: bytes, on_bytes: Callable[[int], None]) -> Iterator[bytes]:
    """Exactly `size` bytes of the file, so that the announced length holds while somebody writes into it."""
    yield head
    while size and (chunk := source.read(min(_CHUNK_BYTES, size))):
        yield chunk
        size -= len(chunk)
        on_bytes(len(chunk))
    if size:
        raise PlatformProblem("the file became shorter while it was read")
    yield tail
