"""A closed loop of callers against a model of an endpoint, in simulated time: what a window makes of it."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

from rft.core.failure import FailureCode
from rft.egress.reply import AttemptFailure
from rft.egress.window import Window

REFUSED = AttemptFailure(FailureCode.RATE_LIMITED, "answered 429", status=429)
Endpoint = Callable[[int, random.Random], tuple[float, AttemptFailure | None]]
"""From the calls inside (the new one included) to the new call's latency and failure."""


@dataclass(slots=True)
class Seen:
    """Counted at the endpoint."""

    good: int = 0
    failed: int = 0
    most_in_flight: int = 0
    seconds: float = 0.0

    @property
    def goodput(self) -> float:
        return self.good / self.seconds

    @property
    def error_share(self) -> float:
        return self.failed / max(1, self.good + self.failed)


def simulate(
    window: Window,
    endpoint: Endpoint,
    *,
    callers: int,
    seconds: float,
    start_s: float = 0.0,
    think_s: float = 0.001,
    seed: int = 0,
) -> Seen:
    """Run `callers` that call again and again for `seconds`; a refused caller pauses a little."""
    noise, seen = random.Random(seed), Seen(seconds=seconds)
    events: list[tuple[float, int, str, float, AttemptFailure | None]] = []
    order = inside = 0
    waiting = 0
    now_s = start_s

    def push(at_s: float, kind: str, began_s: float = 0.0, failure: AttemptFailure | None = None) -> None:
        nonlocal order
        order += 1
        heapq.heappush(events, (at_s, order, kind, began_s, failure))

    for _ in range(callers):
        push(start_s + noise.random() * 0.01, "arrive")
    while events and events[0][0] < start_s + seconds:
        now_s, _, kind, began_s, failure = heapq.heappop(events)
        if kind == "arrive":
            waiting += 1
        else:
            window.on_end(failure, latency_s=now_s - began_s, in_flight=inside, now_s=now_s)
            inside -= 1
            seen.good += failure is None
            seen.failed += failure is not None
            push(now_s + think_s + (noise.random() * 0.5 if failure else 0.0), "arrive")
        while waiting and inside < window.limit:
            waiting -= 1
            inside += 1
            seen.most_in_flight = max(seen.most_in_flight, inside)
            latency_s, refusal = endpoint(inside, noise)
            push(now_s + latency_s, "end", now_s, refusal)
    return seen
