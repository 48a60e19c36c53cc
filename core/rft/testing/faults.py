"""What can go wrong with a customer's endpoint, as data; and plans that say when it does."""

import gzip
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Protocol


class FaultKind(StrEnum):
    """One way to break. Those of `TRANSPORT_FAULTS` break the connection itself."""

    STATUS = "status"
    """An HTTP status instead of an answer; see `Fault.status`, `retry_after` and `body`."""
    RESET_BEFORE_HEADERS = "reset_before_headers"
    RESET_AFTER_HEADERS = "reset_after_headers"
    HALF_CLOSED = "half_closed"
    """Ends the connection politely without a word."""
    EARLY_END = "early_end"
    """Announces a longer body than it sends."""
    GARBAGE = "garbage"
    """Bytes that are no HTTP."""
    HANG = "hang"
    SLOW_DRIP = "slow_drip"
    """A byte now and then: every read succeeds, the call never ends."""
    NOT_JSON = "not_json"
    EMPTY_BODY = "empty_body"
    SHAPELESS = "shapeless"
    """JSON of another shape than the contract's."""
    WRONG_CONTENT_TYPE = "wrong_content_type"
    """An HTML page with status 200, as a proxy's error page."""
    OVERSIZE = "oversize"
    BOMB = "bomb"
    """A small compressed body that unpacks to very much."""
    FALSE_ENCODING = "false_encoding"
    """Claims to be compressed and is not."""
    REDIRECT = "redirect"
    """To a cloud's metadata address."""
    NAN_SCORE = "nan_score"
    INFINITE_SCORE = "infinite_score"
    TEXT_SCORE = "text_score"
    BOOLEAN_SCORE = "boolean_score"


TRANSPORT_FAULTS = frozenset(
    {
        FaultKind.RESET_BEFORE_HEADERS,
        FaultKind.RESET_AFTER_HEADERS,
        FaultKind.HALF_CLOSED,
        FaultKind.EARLY_END,
        FaultKind.GARBAGE,
    }
)
"""Faults that an ASGI application cannot produce; the loopback server can."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault with its details."""

    kind: FaultKind
    status: int = 503
    retry_after: str | None = None
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What goes over the wire: a well-formed HTTP reply."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


@dataclass(frozen=True, slots=True)
class ReceivedCall:
    """One request as the endpoint saw it."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    at_s: float
    """Event loop time."""
    in_flight: int
    """Calls inside when it came, itself included."""
    method: str = "POST"
    query: str = ""
    """Of the URL, as it was sent."""


class FaultPlan(Protocol):
    """Says for each call how it breaks."""

    def next(self, call: ReceivedCall) -> Fault | None:
        """The call's fault; None for a good answer."""
        ...


class NoFaults:
    """Everything works."""

    def next(self, call: ReceivedCall) -> Fault | None:
        """Never a fault."""
        return None


class FaultSequence:
    """The given faults in order of arrival; afterwards everything works, or the last fault stays."""

    def __init__(self, faults: Iterable[Fault | None], *, last_stays: bool = False) -> None:
        self._faults = list(faults)
        self._last = self._faults[-1] if last_stays and self._faults else None

    def next(self, call: ReceivedCall) -> Fault | None:
        """The next of the sequence."""
        return self._faults.pop(0) if self._faults else self._last


@dataclass(frozen=True, slots=True)
class Saturation:
    """An endpoint that bears `capacity` calls at once: beyond, latency explodes; beyond `refuses_above`, it refuses.

    A fault plan, and with `latency_s` the endpoint's latency.
    """

    capacity: int
    service_s: float
    refuses_above: int

    def latency_s(self, in_flight: int) -> float:
        """How long a call takes that comes as the `in_flight`th."""
        if in_flight > self.refuses_above:
            return 0.0
        return self.service_s * max(1.0, in_flight / self.capacity) ** 2

    def next(self, call: ReceivedCall) -> Fault | None:
        """A refusal when too many are inside; 429 and 503 take turns."""
        if call.in_flight <= self.refuses_above:
            return None
        return Fault(FaultKind.STATUS, status=429 if call.in_flight % 2 else 503)


class BrokenRollouts:
    """A share of the rollouts, chosen by their id, breaks for good: each of their calls fails the same way."""

    def __init__(self, share: float, faults: Iterable[Fault], *, seed: int = 0) -> None:
        self._share, self._faults, self._seed = share, tuple(faults), seed

    def next(self, call: ReceivedCall) -> Fault | None:
        """The fault of the call's rollout; what belongs to no rollout, such as a probe, works."""
        trace_id = call.headers.get("idempotency-key", "").partition("/")[0]
        if not trace_id:
            return None
        draw = int.from_bytes(hashlib.sha256(f"{self._seed}/{trace_id}".encode()).digest()[:8], "big")
        if (draw >> 8) / 2**56 >= self._share:
            return None
        return self._faults[draw % len(self._faults)]


def render(fault: Fault) -> HttpAnswer:
    """The well-formed reply of a fault. Raises ValueError for faults that no reply can express."""
    match fault.kind:
        case FaultKind.STATUS:
            headers = {"content-type": "text/plain"} | ({"retry-after": fault.retry_after} if fault.retry_after else {})
            return HttpAnswer(fault.status, fault.body, headers)
        case FaultKind.REDIRECT:
            return HttpAnswer(302, b"", {"location": "http://169.254.169.254/latest/meta-data/"})
        case FaultKind.WRONG_CONTENT_TYPE:
            return HttpAnswer(200, b"<html><body>Bad gateway</body></html>", {"content-type": "text/html"})
        case FaultKind.BOMB:
            return HttpAnswer(200, _bomb(), {"content-type": "application/json", "content-encoding": "gzip"})
        case FaultKind.FALSE_ENCODING:
            return HttpAnswer(200, b'{"output": "x"}', {"content-type": "application/json", "content-encoding": "gzip"})
        case _:
            return HttpAnswer(200, _bodies()[fault.kind])


def _bodies() -> Mapping[FaultKind, bytes]:
    return {
        FaultKind.NOT_JSON: b"all is well",
        FaultKind.EMPTY_BODY: b"",
        FaultKind.SHAPELESS: b'{"result": [1, 2, 3]}',
        FaultKind.OVERSIZE: b'{"output": "' + b"x" * 1_100_000 + b'"}',
        FaultKind.NAN_SCORE: b'{"score": NaN}',
        FaultKind.INFINITE_SCORE: b'{"score": 1e999}',
        FaultKind.TEXT_SCORE: b'{"score": "very good"}',
        FaultKind.BOOLEAN_SCORE: b'{"score": true}',
    }


@cache
def _bomb() -> bytes:
    return gzip.compress(b'{"output": "' + b"x" * 8_000_000 + b'"}', compresslevel=9)
