"""An endpoint in trouble, for limiters in virtual time."""

import asyncio
from dataclasses import dataclass, field

from rft.core.failure import FailureCode
from rft.egress.adaptive import AdaptiveWindow
from rft.egress.breaker import Breaker, BreakerSettings
from rft.egress.limiter import LONGEST_SILENCE_S, Limiter
from rft.egress.reply import AttemptFailure
from rft.egress.retry_share import RetryShare
from rft.egress.window import FixedWindow
from rft.testing.samplers_time import virtual_clock

DOWN = AttemptFailure(FailureCode.CONNECT_ERROR, "is gone")
REFUSED = AttemptFailure(FailureCode.RATE_LIMITED, "answered 429", status=429)
OURS = AttemptFailure(FailureCode.INTERNAL_ERROR, "too many open files")
SETTINGS = BreakerSettings(failures_in_a_row=2, first_pause_s=0.5, max_pause_s=2.0)


def asks_for_silence(seconds: float, *, status: int = 429) -> AttemptFailure:
    code = FailureCode.RATE_LIMITED if status == 429 else FailureCode.SERVER_ERROR
    return AttemptFailure(code, f"answered {status}", status=status, retry_after_s=seconds)


@dataclass(slots=True)
class Host:
    """An endpoint that ends its calls as told, then well, and counts all that comes in."""

    endings: list[tuple[AttemptFailure | None, float]]
    """Failure and latency, in the order of arrival."""
    trouble: AttemptFailure | None = None
    """How every call ends that comes before `trouble_ends_s`; probes are answered."""
    trouble_ends_s: float = 0.0
    inside: int = 0
    most_inside: int = 0
    starts: list[float] = field(default_factory=list[float])
    silences: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    async def visit(self) -> AttemptFailure | None:
        failure, latency_s = self.endings.pop(0) if self.endings else (None, 0.01)
        if virtual_clock() < self.trouble_ends_s:
            failure = self.trouble
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.starts.append(virtual_clock())
        try:
            await asyncio.sleep(latency_s)
        finally:
            self.inside -= 1
        return failure

    async def probe(self) -> bool:
        failure = await self.visit()
        return failure is None or failure.status is not None

    def tell(self, failure: AttemptFailure | None) -> None:
        if failure is not None and failure.retry_after_s:
            silence_s = min(failure.retry_after_s, LONGEST_SILENCE_S)
            self.silences.append((virtual_clock(), virtual_clock() + silence_s))


async def attempt(limiter: Limiter, host: Host, owner: str = "", *, is_retry: bool = False) -> AttemptFailure | None:
    place = await limiter.enter(owner, is_retry=is_retry, probe=host.probe)
    try:
        began_s = virtual_clock()
        failure = await host.visit()
        host.tell(failure)
        limiter.learn(failure, latency_s=virtual_clock() - began_s, slot=place)
        return failure
    finally:
        limiter.leave(owner, place)


async def call(limiter: Limiter, host: Host, owner: str = "") -> int:
    """Attempts made."""
    for attempts in range(1, 5):
        if await attempt(limiter, host, owner, is_retry=attempts > 1) is None:
            break
        await asyncio.sleep(0.1)
    return attempts  # pyright: ignore[reportPossiblyUnboundVariable]


def make_limiter(cap: int, rate_limit: float | None = None) -> Limiter:
    limiter = Limiter(
        FixedWindow(64),
        rate_limit=rate_limit,
        breaker=Breaker(SETTINGS),
        retries=RetryShare(),
        now=virtual_clock,
    )
    limiter.tighten(max_concurrency=cap, rate_limit=None)
    return limiter


async def borne(limiter: Limiter, window: AdaptiveWindow) -> Host:
    """An endpoint that is known to bear 512 calls at once."""
    host = Host([])
    while window.limit < 512:
        await asyncio.gather(*(attempt(limiter, host) for _ in range(512)))
    return host
