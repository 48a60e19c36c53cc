"""Clients of replayed streams: straight to the process that replays, and through the platform."""

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from urllib.parse import urlsplit

from rft.core.messages import Message, Role
from rft.platform.serving.asking import ask
from rft.serving_wire.records import CompletionRequest, ServingEndpoint, Text
from tests.bench.api_server import Served

QUESTION = "What was the operating margin of Acme in 2019?"
BODIES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": QUESTION}], "stream": True},
    "/v1/responses": {"input": QUESTION, "stream": True},
}
ANYTHING = re.compile(rb'"content":"()[^"]|"(?:finish_reason|tool_calls)":()["[]')
"""Of a model that does not tell the time, and may say nothing at all."""
_TOKEN = re.compile(rb'"(?:content|delta)":" ([0-9.]+)"')


@dataclass(slots=True)
class Heard:
    """One stream, as its client saw it. All in seconds."""

    first_s: float = 0.0
    """From the request to the first token."""
    ages_s: list[float] = field(default_factory=list[float])
    """How old each token was when it came."""
    gaps_s: list[float] = field(default_factory=list[float])
    """Between one token and the next."""


Stream = Callable[[], AsyncGenerator[float]]
"""One stream: the time at which each of its tokens was sent."""


def straight(endpoint: ServingEndpoint) -> Stream:
    """What the platform itself does with such a process, and nothing else: the control."""
    request = CompletionRequest(
        token="", model="m", messages=(Message(role=Role.USER, content=QUESTION),), seed=1, is_streamed=True
    )

    async def stream() -> AsyncGenerator[float]:
        async for event in ask(endpoint, request):
            if isinstance(event, Text):
                yield float(event.text)

    return stream


def through(served: Served, path: str, model: str, token: re.Pattern[bytes] = _TOKEN) -> Stream:
    """Over HTTP, read by hand: the client takes as little of the machine as it can."""
    address = urlsplit(served.url)
    body = json.dumps({"model": model, **BODIES[path]}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {served.key}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"

    async def stream() -> AsyncGenerator[float]:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            writer.write(head.encode() + body)
            status = await reader.readline()
            assert status.startswith(b"HTTP/1.1 200"), status + await reader.read(2000)
            async for line in reader:
                if (found := token.search(line)) is not None:
                    yield float(found[1] or 0)
        finally:
            writer.close()

    return stream


async def hear(stream: Stream) -> Heard:
    """To its end."""
    heard, asked_at, last = Heard(), time.monotonic(), 0.0
    async for sent_at in stream():
        now = time.monotonic()
        if not heard.ages_s:
            heard.first_s = now - asked_at
        else:
            heard.gaps_s.append(now - last)
        heard.ages_s.append(now - sent_at)
        last = now
    return heard


async def hear_all(stream: Stream, clients: int, *, apart_s: float) -> list[Heard]:
    """So many at once; each begins a little after the one before it."""

    async def later(number: int) -> Heard:
        await asyncio.sleep(number * apart_s)
        return await hear(stream)

    return await asyncio.gather(*map(later, range(clients)))


def percentiles_ms(values_s: Sequence[float]) -> tuple[float, float]:
    """The median and the 99th percentile."""
    cuts = quantiles(values_s, n=100, method="inclusive")
    return cuts[49] * 1e3, cuts[98] * 1e3


def cpu_s(pid: int) -> float:
    """Of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def work_ms() -> float:
    """CPU of a fixed piece of work in this language: what a machine's figures are calibrated with."""
    document = json.dumps({"choices": [{"index": number, "delta": {"content": "x" * 20}} for number in range(50)]})
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        for _ in range(200):
            json.dumps(json.loads(document))
        best = min(best, time.process_time() - began)
    return best * 1e3
