"""Clients of replayed streams: straight to the process that replays, and through the platform."""

import asyncio
import json
import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from urllib.parse import urlsplit

from rft.core.messages import Message, Role
from rft.serving_wire.records import CompletionRequest, ServingEndpoint
from tests.bench.api_server import Served

QUESTION = "What was the operating margin of Acme in 2019?"
BODIES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": QUESTION}], "stream": True},
    "/v1/responses": {"input": QUESTION, "stream": True},
}
ANYTHING = re.compile(rb'"content":"()[^"]|"(?:finish_reason|tool_calls)":()["[]')
"""Of a model that does not tell the time, and may say nothing at all."""
_TOKEN = re.compile(rb'"(?:content|delta)":" ([0-9.]+)"')
_TOLD = re.compile(rb'"text":" ([0-9.]+)"')
_SHOWN_BYTES = 2000
_SEED = 1


@dataclass(slots=True)
class Heard:
    """One stream, as its client saw it. All in seconds."""

    first_s: float = 0.0
    """From the request to the first token."""
    ages_s: list[float] = field(default_factory=list[float])
    """How old each token was when it came."""
    gaps_s: list[float] = field(default_factory=list[float])
    """Between one token and the next."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Whom a client asks, what it sends, and how it knows a token: the same client before and behind the platform."""

    host: str
    port: int
    request: bytes
    token: re.Pattern[bytes]
    """Its group is the time at which the token was sent."""
    begins_with: bytes = b""


def straight(endpoint: ServingEndpoint) -> Stream:
    """The process itself, and nothing before it: the control."""
    request = CompletionRequest(
        token=endpoint.token,
        model="m",
        messages=(Message(role=Role.USER, content=QUESTION),),
        seed=1,
        is_streamed=True,
    )
    return Stream("127.0.0.1", endpoint.port, request.model_dump_json().encode() + b"\n", _TOLD)


def through(served: Served, path: str, model: str, token: re.Pattern[bytes] = _TOKEN) -> Stream:
    """Over HTTP, written by hand."""
    address = urlsplit(served.url)
    assert address.hostname is not None
    assert address.port is not None
    body = json.dumps({"model": model, **BODIES[path]}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {served.key}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return Stream(address.hostname, address.port, head.encode() + body, token, b"HTTP/1.1 200")


class _Listener(asyncio.Protocol):
    """Takes the time as bytes arrive: a client that took more of the machine would be what is measured."""

    def __init__(self, stream: Stream, asked_at: float) -> None:
        self.heard = Heard()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stream, self._last, self._rest, self._begin = stream, asked_at, b"", b""
        self._asked_at = asked_at

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        if len(self._begin) < _SHOWN_BYTES:
            self._begin += data[:_SHOWN_BYTES]
        # A token may come in two parts; it ends with its line.
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest
        for found in self._stream.token.finditer(whole + newline):
            self._hear(now, float(found[1] or 0))

    def connection_lost(self, exc: Exception | None) -> None:
        if self.ended.done():
            return
        if exc is not None:
            self.ended.set_exception(exc)
        elif self._begin.startswith(self._stream.begins_with):
            self.ended.set_result(None)
        else:
            self.ended.set_exception(AssertionError(self._begin))

    def _hear(self, now: float, sent_at: float) -> None:
        heard = self.heard
        if heard.ages_s:
            heard.gaps_s.append(now - self._last)
        else:
            heard.first_s = now - self._asked_at
        heard.ages_s.append(now - sent_at)
        self._last = now


async def hear(stream: Stream) -> Heard:
    """To its end."""
    asked_at = time.monotonic()
    transport, listener = await asyncio.get_running_loop().create_connection(
        lambda: _Listener(stream, asked_at), stream.host, stream.port
    )
    try:
        transport.write(stream.request)
        await listener.ended
    finally:
        transport.close()
    return listener.heard


async def hear_all(stream: Stream, clients: int, *, apart_s: float) -> list[Heard]:
    """So many, whether the ones before them have ended or not: each at a moment of its own part of the time."""
    chance = random.Random(_SEED)

    async def later(begins_s: float) -> Heard:
        await asyncio.sleep(begins_s)
        return await hear(stream)

    # Not exactly so far apart: tokens of all streams would fall together.
    return await asyncio.gather(*(later((number + chance.random()) * apart_s) for number in range(clients)))


def percentiles_ms(values_s: Sequence[float]) -> tuple[float, float]:
    """The median and the 99th percentile."""
    cuts = quantiles(values_s, n=100, method="inclusive")
    return cuts[49] * 1e3, cuts[98] * 1e3


def cpu_s(pid: int) -> float:
    """Of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


REFERENCE_WORK_MS = 10.3
"""CPU of `_work_ms` on the machine that the bars for CPU were set on."""


def slower_than_reference() -> float:
    """How many times the CPU that this machine takes for the same work, right now."""
    return _work_ms() / REFERENCE_WORK_MS


def _work_ms() -> float:
    """CPU of a fixed piece of work in this language."""
    document = json.dumps({"choices": [{"index": number, "delta": {"content": "x" * 20}} for number in range(50)]})
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        for _ in range(200):
            json.dumps(json.loads(document))
        best = min(best, time.process_time() - began)
    return best * 1e3
