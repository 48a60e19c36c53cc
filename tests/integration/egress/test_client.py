"""One attempt over a real socket: caps, guard, names, TLS, and the probe."""

import asyncio
import gzip
import json
import ssl
import zlib
from pathlib import Path

import pytest

from rft.core.failure import Failure, FailureCode
from rft.egress.client import HttpClient
from rft.egress.endpoint import to_header_list
from rft.egress.guard import AddressPolicy
from rft.egress.probing import probe
from rft.egress.reply import AttemptFailure, Reply, SizeCaps
from rft.testing.certificates import self_signed
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.faults import Fault, FaultKind, FaultSequence, HttpAnswer, ReceivedCall
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.names import ScriptedNames

HEADERS = to_header_list({})


class Says(ScriptedEndpoint):
    """Answers the same thing to everything."""

    def __init__(self, *answers: HttpAnswer) -> None:
        super().__init__()
        self.answers = list(answers)

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        return self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)


async def say(answer: HttpAnswer, caps: SizeCaps | None = None) -> Reply | AttemptFailure:
    async with LoopbackEndpoint(Says(answer)) as server, HttpClient(caps=caps) as client:
        return await client.post(server.tool_url, b"{}", headers=HEADERS, timeout_s=60.0)


CAPS = SizeCaps(request_bytes=1000, reply_bytes=1000)


@pytest.mark.parametrize("size", [0, 1, 999, 1000])
async def test_a_reply_up_to_the_cap_is_read_whole(size: int) -> None:
    reply = await say(HttpAnswer(200, b"x" * size), CAPS)
    assert isinstance(reply, Reply)
    assert reply.body == b"x" * size


@pytest.mark.parametrize("size", [1001, 100_000])
async def test_a_reply_beyond_the_cap_is_oversize(size: int) -> None:
    outcome = await say(HttpAnswer(200, b"x" * size), CAPS)
    assert isinstance(outcome, AttemptFailure)
    assert (outcome.code, outcome.status) == (FailureCode.OVERSIZE_REPLY, 200)


async def test_what_an_error_says_is_cut_at_the_cap() -> None:
    reply = await say(HttpAnswer(500, b"x" * 5000), CAPS)
    assert isinstance(reply, Reply)
    assert (reply.status, len(reply.body)) == (500, 1000)


async def test_a_call_beyond_the_cap_is_not_sent() -> None:
    endpoint = ScriptedEndpoint()
    async with LoopbackEndpoint(endpoint) as server, HttpClient(caps=CAPS) as client:
        outcome = await client.post(server.tool_url, b"x" * 1001, headers=HEADERS, timeout_s=60.0)
    assert isinstance(outcome, AttemptFailure)
    assert (outcome.code, outcome.surely_not_sent) == (FailureCode.OVERSIZE_REQUEST, True)
    assert not endpoint.calls


RAW_DEFLATE = zlib.compressobj(wbits=-15)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"hello", mtime=0)),
        ("gzip", gzip.compress(b"hel", mtime=0) + gzip.compress(b"lo", mtime=0)),
        ("gzip", gzip.compress(b"hello", mtime=0) + b"\x00" * 10),
        ("GZIP", gzip.compress(b"hello", mtime=0)),
        ("deflate", zlib.compress(b"hello")),
        ("deflate", RAW_DEFLATE.compress(b"hello") + RAW_DEFLATE.flush()),
        ("identity", b"hello"),
    ],
)
async def test_compressed_replies_are_unpacked(encoding: str, body: bytes) -> None:
    reply = await say(HttpAnswer(200, body, {"content-encoding": encoding}), CAPS)
    assert isinstance(reply, Reply)
    assert reply.body == b"hello"


@pytest.mark.parametrize(
    ("encoding", "body", "code"),
    [
        ("gzip", gzip.compress(b"x" * 1001, mtime=0), FailureCode.OVERSIZE_REPLY),
        ("gzip", gzip.compress(b"x" * 3_000_000, mtime=0), FailureCode.OVERSIZE_REPLY),
        ("gzip", b"plain", FailureCode.INVALID_REPLY),
        ("gzip", gzip.compress(b"hello", mtime=0)[:-9], FailureCode.INVALID_REPLY),
        ("gzip", b"", FailureCode.INVALID_REPLY),
        ("gzip", gzip.compress(b"x" * 600, mtime=0) * 2, FailureCode.OVERSIZE_REPLY),
        ("gzip", gzip.compress(b"hello", mtime=0) * 2 + b"\x1f\x8b", FailureCode.INVALID_REPLY),
        ("gzip", gzip.compress(b"hello", mtime=0) + gzip.compress(b"hello", mtime=0)[:-9], FailureCode.INVALID_REPLY),
        ("br", b"hello", FailureCode.INVALID_REPLY),
        ("gzip, gzip", gzip.compress(gzip.compress(b"hello", mtime=0), mtime=0), FailureCode.INVALID_REPLY),
    ],
)
async def test_bombs_and_false_encodings_are_refused(encoding: str, body: bytes, code: FailureCode) -> None:
    outcome = await say(HttpAnswer(200, body, {"content-encoding": encoding}), CAPS)
    assert isinstance(outcome, AttemptFailure)
    assert outcome.code is code


async def test_a_redirect_is_not_followed_but_explained() -> None:
    endpoint = ScriptedEndpoint(faults=FaultSequence([Fault(FaultKind.REDIRECT)]))
    async with LoopbackEndpoint(endpoint) as server, HttpClient() as client:
        reply = await client.post(server.tool_url, b"{}", headers=HEADERS, timeout_s=60.0)
        assert isinstance(reply, Reply)
        failure = client.status_failure(reply)
    assert failure is not None
    assert "169.254.169.254" in failure.message
    assert "redirects are not followed" in failure.message
    assert len(endpoint.calls) == 1


async def test_cookies_are_not_kept() -> None:
    endpoint = Says(HttpAnswer(200, b"{}", {"set-cookie": "session=1; Path=/"}))
    async with LoopbackEndpoint(endpoint) as server, HttpClient() as client:
        for _ in range(2):
            await client.post(server.tool_url, b"{}", headers=HEADERS, timeout_s=60.0)
    assert "cookie" not in endpoint.calls[1].headers


async def test_the_environment_proxies_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert isinstance(await say(HttpAnswer(200, b"{}")), Reply)


async def test_an_endpoint_date_makes_retry_after_independent_of_our_clock() -> None:
    headers = {"date": "Sun, 01 Mar 2026 12:00:00 GMT", "retry-after": "Sun, 01 Mar 2026 12:00:05 GMT"}
    async with HttpClient(wall_clock=lambda: 0.0) as client:
        failure = client.status_failure(Reply(503, headers, b"", 0.0))
    assert failure is not None
    assert failure.retry_after_s == 5.0


async def test_a_name_is_connected_to_as_it_was_judged() -> None:
    endpoint, names = ScriptedEndpoint(), ScriptedNames("127.0.0.1", "10.0.0.1")
    async with LoopbackEndpoint(endpoint) as server, HttpClient(make_resolver=lambda: names) as client:
        url = f"http://tools.example.com:{server.port}/tool"
        reply = await client.post(url, b"{}", headers=HEADERS, timeout_s=60.0)
    assert isinstance(reply, Reply)
    assert endpoint.calls[0].headers["host"] == f"tools.example.com:{server.port}"
    assert names.asked == 1


async def test_a_name_that_leads_inside_is_blocked_and_nothing_connects() -> None:
    endpoint = ScriptedEndpoint()
    policy = AddressPolicy(allow_loopback=False)
    async with LoopbackEndpoint(endpoint) as server:
        async with HttpClient(policy, make_resolver=lambda: ScriptedNames("127.0.0.1")) as client:
            url = f"http://tools.example.com:{server.port}/tool"
            outcome = await client.post(url, b"{}", headers=HEADERS, timeout_s=60.0)
        assert server.connections == 0
    assert isinstance(outcome, AttemptFailure)
    assert outcome.code is FailureCode.BLOCKED_ADDRESS
    assert "tools.example.com leads to a blocked address" in outcome.message


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "127.1", "0x7f000001", "2130706433"])
async def test_loopback_is_blocked_in_every_spelling_where_it_is_not_allowed(host: str) -> None:
    endpoint = ScriptedEndpoint()
    async with LoopbackEndpoint(endpoint) as server:
        async with HttpClient(AddressPolicy(allow_loopback=False)) as client:
            outcome = await client.post(f"http://{host}:{server.port}/", b"{}", headers=HEADERS, timeout_s=60.0)
        assert server.connections == 0
    assert isinstance(outcome, AttemptFailure)
    assert outcome.code is FailureCode.BLOCKED_ADDRESS


@pytest.mark.parametrize("wrong", ["nobody vouches for it", "expired", "for another address"])
async def test_a_certificate_that_cannot_be_trusted_is_a_tls_error(tmp_path: Path, wrong: str) -> None:
    endpoint, pair = ScriptedEndpoint(), tmp_path / "pair.pem"
    server_tls = self_signed(
        pair, address="127.0.0.2" if "another" in wrong else "127.0.0.1", is_expired=wrong == "expired"
    )
    client_tls = None if "nobody" in wrong else ssl.create_default_context(cafile=pair)
    async with LoopbackEndpoint(endpoint, tls=server_tls) as server, HttpClient(tls=client_tls) as client:
        outcome = await client.post(server.tool_url, b"{}", headers=HEADERS, timeout_s=60.0)
    assert isinstance(outcome, AttemptFailure)
    assert (outcome.code, outcome.surely_not_sent) == (FailureCode.TLS_ERROR, True)
    assert not endpoint.calls


async def test_https_works_with_a_trusted_certificate(tmp_path: Path) -> None:
    server_tls = self_signed(tmp_path / "pair.pem")
    client_tls = ssl.create_default_context(cafile=tmp_path / "pair.pem")
    async with (
        LoopbackEndpoint(Says(HttpAnswer(200, b"{}")), tls=server_tls) as server,
        HttpClient(tls=client_tls) as c,
    ):
        assert isinstance(await c.post(server.tool_url, b"{}", headers=HEADERS, timeout_s=60.0), Reply)


async def test_plain_http_on_a_tls_port_is_no_answer(tmp_path: Path) -> None:
    async with (
        LoopbackEndpoint(ScriptedEndpoint(), tls=self_signed(tmp_path / "pair.pem")) as server,
        HttpClient() as client,
    ):
        url = server.tool_url.replace("https", "http")
        outcome = await client.post(url, b"{}", headers=HEADERS, timeout_s=60.0)
    assert isinstance(outcome, AttemptFailure)
    assert outcome.code in (FailureCode.CONNECTION_RESET, FailureCode.INVALID_REPLY)


@pytest.mark.parametrize("status", [200, 204, 401, 403, 405, 500, 501])
@pytest.mark.parametrize("headers", [{}, {"allow": "POST"}, {"Allow": "GET, post,HEAD"}, {"allow": " "}])
async def test_the_probe_takes_any_answer_for_a_sign_of_life(status: int, headers: dict[str, str]) -> None:
    async with LoopbackEndpoint(Says(HttpAnswer(status, b"", headers))) as server:
        assert await probe(server.tool_url, headers={"x-key": "secret"}, timeout_s=60.0) is None


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (HttpAnswer(404, b"secret"), "answered 404 Not Found to OPTIONS"),
        (HttpAnswer(410, b"secret"), "answered 410 Gone to OPTIONS"),
        (HttpAnswer(405, b"", {"allow": "GET, HEAD"}), "takes GET, HEAD and no POST"),
    ],
)
async def test_the_probe_says_where_perhaps_nothing_takes_calls(answer: HttpAnswer, message: str) -> None:
    async with LoopbackEndpoint(Says(answer)) as server:
        failure = await probe(server.tool_url + "?key=secret", headers={"x-key": "secret"}, timeout_s=60.0)
        assert failure is not None
        assert (failure.code, failure.status) == (FailureCode.ENDPOINT_NOT_FOUND, answer.status)
        assert failure.message == f"{server.tool_url} {message}"


async def test_the_probe_sets_nothing_in_motion() -> None:
    """It asks what may be done and sends no body: even a server that takes any method for a call has none to make."""
    async with LoopbackEndpoint(ScriptedEndpoint()) as server:
        assert await probe(server.tool_url, headers={"x-key": "secret"}, timeout_s=60.0) is None
        (call,) = server.endpoint.calls
    assert (call.method, call.body, call.headers["x-key"]) == ("OPTIONS", b"", "secret")
    assert "idempotency-key" not in call.headers


async def test_the_probe_says_why_nobody_is_there(refused_port: int) -> None:
    url = f"http://127.0.0.1:{refused_port}/tool?key=secret-in-query"
    failure = await probe(url, timeout_s=60.0)
    assert isinstance(failure, Failure)
    assert failure.code is FailureCode.CONNECT_ERROR
    assert "refused" in failure.message
    assert "secret" not in failure.message


async def test_the_probe_of_a_silent_server_ends() -> None:
    endpoint = ScriptedEndpoint(faults=FaultSequence([Fault(FaultKind.HANG)]))
    async with LoopbackEndpoint(endpoint) as server:
        failure = await probe(server.tool_url, timeout_s=0.2)
    assert failure is not None
    assert failure.code is FailureCode.TIMEOUT


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("http://169.254.169.254/latest", {}),
        ("https://[::1", {}),
        ("not a url", {}),
        ("https://user:pass@example.com/", {}),
        ("http://127.0.0.1:1/", {"x-key": "a\r\nx-other: b"}),
        ("http://127.0.0.1:1/", {"x key": "a"}),
        ("http://127.0.0.1:1/", {"Content-Length": "5"}),
    ],
)
async def test_the_probe_refuses_what_may_not_be_called(url: str, headers: dict[str, str]) -> None:
    failure = await probe(url, headers=headers, timeout_s=60.0)
    assert failure is not None
    assert failure.code is FailureCode.BLOCKED_ADDRESS
    assert "pass" not in failure.message.replace("password", "")


async def test_a_name_that_does_not_exist_is_a_connect_error() -> None:
    failure = await probe("https://does-not-exist.invalid/tool", timeout_s=5.0)
    assert failure is not None
    assert failure.code in (FailureCode.CONNECT_ERROR, FailureCode.TIMEOUT)


async def test_cancelling_a_call_closes_its_connection() -> None:
    endpoint = ScriptedEndpoint(faults=FaultSequence([Fault(FaultKind.HANG)]))
    async with LoopbackEndpoint(endpoint) as server, HttpClient() as client:
        call = asyncio.create_task(client.post(server.tool_url, b"{}", headers=HEADERS, timeout_s=60.0))
        await endpoint.until(lambda seen: len(seen.calls) == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await endpoint.until(lambda seen: seen.in_flight == 0)
    assert json.loads(endpoint.calls[0].body) == {}
