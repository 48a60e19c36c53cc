"""The command line's client against servers that send anything: whole messages, halves of them, and what is no API."""

import io
import json
import socket
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rft.platform.cli.address import Address
from rft.platform.cli.client import Client, ConnectionLost, NotFound, PlatformProblem, Sent
from rft.platform.cli.job_commands import create_job
from rft.platform.cli.session import Session, console
from rft.platform.cli.transfer import wait_for_end


class Canned(ThreadingHTTPServer):
    """Sends the same reply to everybody, and closes the connection after it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply: tuple[int, dict[str, str], bytes] = (200, {}, b"")
        self.takes_s = 0.0
        """Before it answers a POST."""
        self.troubles = 0
        """So many requests are answered with 503 first."""
        self.asked: list[tuple[str, dict[str, str]]] = []

    @property
    def address(self) -> Address:
        """Where it listens, and a key."""
        return Address(f"http://127.0.0.1:{self.server_address[1]}/v1", "key")


class _Handler(BaseHTTPRequestHandler):
    @property
    def _canned(self) -> Canned:
        assert isinstance(self.server, Canned)
        return self.server

    def do_GET(self) -> None:
        """The reply."""
        self._canned.asked.append((self.path, dict(self.headers)))
        status, headers, body = self._canned.reply
        if self._canned.troubles:
            self._canned.troubles -= 1
            status = 503
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        """The reply, once all that was announced has come."""
        length = int(self.headers.get("Content-Length", 0))
        if len(self.rfile.read(length)) == length:
            time.sleep(self._canned.takes_s)
            self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@contextmanager
def running() -> Generator[Canned]:
    """A server on this machine."""
    with Canned() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def shared() -> Iterator[Canned]:
    """One server for all tests here."""
    with running() as server:
        yield server


@pytest.fixture
def server(shared: Canned) -> Canned:
    """That server, asked nothing so far."""
    shared.asked.clear()
    return shared


def told(server: Canned, lines: str, last_id: str | None = None) -> list[Sent]:
    """The messages of a stream that sends this and ends."""
    server.reply = (200, {"Content-Type": "text/event-stream"}, lines.encode())
    with Client(server.address) as client:
        return list(client.stream("/stream", last_id))


def test_fields_make_a_message(server: Canned) -> None:
    lines = 'event: job\ndata: {"a":\ndata: 1}\nid: 7\n\ndata:no space\n\n'
    assert told(server, lines) == [Sent("job", '{"a":\n1}', "7"), Sent("message", "no space", "7")]


def test_a_message_without_an_id_keeps_the_last_one_which_is_asked_for_again(server: Canned) -> None:
    sent = told(server, "data: a\n\ndata: b\nid: 1\n\ndata: c\n\ndata: d\nid: 2\n\n", "0")
    assert [(one.data, one.last_id) for one in sent] == [("a", "0"), ("b", "1"), ("c", "1"), ("d", "2")]
    assert server.asked[0][1]["Last-Event-ID"] == "0"


def test_pings_and_unknown_fields_say_nothing(server: Canned) -> None:
    assert told(server, ": ping\n\nretry: 10\n\nevent: only\n\ndata: x\n\n") == [Sent("message", "x", None)]


def test_a_message_that_was_cut_off_is_dropped_with_its_id(server: Canned) -> None:
    assert told(server, "data: whole\nid: 1\n\nevent: job\ndata: hal\nid: 2\n") == [Sent("message", "whole", "1")]


_texts = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), min_size=1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(_texts, st.integers(0, 10**9)), max_size=20), st.data())
def test_any_cut_loses_only_the_end(shared: Canned, messages: list[tuple[str, int]], data: st.DataObject) -> None:
    lines = [line for text, number in messages for line in (f"data: {text}\n", f"id: {number}\n", "\n")]
    cut = data.draw(st.integers(0, len(lines)))
    assert [(sent.data, sent.last_id) for sent in told(shared, "".join(lines[:cut]))] == [
        (text, str(number)) for text, number in messages[: cut // 3]
    ]


def test_a_stream_that_is_none_is_no_platform(server: Canned) -> None:
    server.reply = (200, {"Content-Type": "text/html"}, b"<html>")
    with Client(server.address) as client, pytest.raises(PlatformProblem, match="does not answer like"):
        list(client.stream("/stream"))


NONSENSE = [b"", b"<html>", b"[]", b"null", b"\xff\xfe\x00", b"[" * 200_000, b'{"a":' * 200_000, b"9" * 5000]


@pytest.mark.parametrize("body", NONSENSE, ids=range(len(NONSENSE)))
def test_what_is_no_object_is_no_platform(server: Canned, body: bytes) -> None:
    server.reply = (200, {"Content-Type": "application/json"}, body)
    with Client(server.address) as client, pytest.raises(PlatformProblem, match="does not answer like"):
        client.get("/files")


@pytest.mark.parametrize("body", [*NONSENSE, b'{"error": []}', b'{"error": {"message": 1}}'])
def test_an_error_that_says_nothing_is_told_by_its_status(server: Canned, body: bytes) -> None:
    for status, kind in ((400, PlatformProblem), (404, NotFound), (503, ConnectionLost)):
        server.reply = (status, {"Content-Type": "application/json"}, body)
        with Client(server.address) as client, pytest.raises(kind, match=f"HTTP status {status}") as told:
            client.get("/files")
        assert told.value.answered is None


def test_an_error_keeps_its_fields_and_names_its_param(server: Canned) -> None:
    error = {"message": "too many", "param": "n", "code": "c", "type": "t", "more": [1]}
    server.reply = (400, {}, json.dumps({"error": error}).encode())
    with Client(server.address) as client, pytest.raises(PlatformProblem, match=r"^too many \(param: n\)$") as told:
        client.post("/files")
    assert told.value.answered == error


def test_the_key_does_not_follow_a_redirect(server: Canned) -> None:
    server.reply = (307, {"Location": "/elsewhere"}, b"")
    with Client(server.address) as client, pytest.raises(PlatformProblem, match="HTTP status 307"):
        client.get("/files")
    assert [path for path, _ in server.asked] == ["/v1/files"]


def test_a_download_that_is_cut_off_says_how_far_it_came(server: Canned) -> None:
    server.reply = (200, {"Content-Length": "10"}, b"123")
    counts: list[int] = []
    with Client(server.address) as client, pytest.raises(ConnectionLost, match="after 3 of 10 bytes"):
        client.download("/files/x/content", io.BytesIO(), counts.append)
    assert sum(counts) == 3


def test_waiting_goes_on_where_the_platform_restarts(server: Canned) -> None:
    server.reply, server.troubles = (200, {}, b'{"status": "succeeded"}'), 2
    with Client(server.address) as client:
        here = Session(client, as_json=True, out=console(), err=console(stderr=True))
        assert wait_for_end(here, "waiting", {"status": "running"}, "/regrade") == {"status": "succeeded"}
    assert len(server.asked) == 3


def test_a_file_that_shrinks_while_it_is_read_is_told(server: Canned, tmp_path: Path) -> None:
    server.reply = (200, {}, b"{}")
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(b"x" * (1 << 20))

    def shrink(count: int) -> None:
        rows.write_bytes(b"")

    with Client(server.address) as client, pytest.raises(PlatformProblem, match="became shorter"):
        client.upload(rows, {"purpose": "user_data"}, shrink)


@pytest.mark.parametrize("address", [Address("http://a b/v1", "key"), Address("http://127.0.0.1:1/v1", "k\u00e9y")])
def test_what_no_request_can_hold_is_told(address: Address) -> None:
    with pytest.raises(PlatformProblem), Client(address) as client:
        client.get("/files")


def test_a_key_with_a_line_break_is_told_as_that() -> None:
    with pytest.raises(PlatformProblem, match="holds a line break"):
        Client(Address("http://127.0.0.1:1/v1", "key\r"))


def test_a_platform_that_falls_silent_is_told_as_that() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address(f"http://127.0.0.1:{silent.getsockname()[1]}/v1", "key")
        with Client(address, timeout_s=0.2) as client, pytest.raises(ConnectionLost, match="did not answer in time"):
            client.get("/files")


def test_an_order_waits_for_as_long_as_the_platform_looks_at_its_model(tmp_path: Path) -> None:
    """The platform gives a look at the model a minute, and answers after it."""
    order = tmp_path / "order.json"
    order.write_text("{}")
    with running() as server, Client(server.address, timeout_s=0.2) as client:
        server.takes_s = 0.6
        server.reply = (200, {"Content-Type": "application/json"}, b'{"id": "ftjob-1", "data": [], "has_more": false}')
        here = Session(client, as_json=True, out=console(), err=console(stderr=True))
        create_job(here, order)
    assert next(path for path, _ in server.asked) == "/v1/fine_tuning/jobs"


def test_a_proxy_of_an_unknown_kind_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://proxy:1")
    with pytest.raises(PlatformProblem, match="cannot be called"):
        Client(Address("http://platform.example/v1", "key"))
