"""The limiters of a process: one per endpoint, shared by all jobs on it."""

from collections.abc import Callable
from dataclasses import dataclass

from rft.core.egress_settings import EgressSettings
from rft.core.endpoint_load import EndpointLoad
from rft.egress.adaptive import AdaptiveSettings, AdaptiveWindow
from rft.egress.breaker import Breaker, BreakerSettings, BreakerState
from rft.egress.endpoint import Endpoint, endpoint_key
from rft.egress.limiter import Limiter
from rft.egress.reply import AttemptFailure
from rft.egress.retry_share import RetryShare
from rft.egress.window import FixedWindow

_LANE_MARK = "#"
"""No endpoint's key has a fragment."""


@dataclass(frozen=True, slots=True)
class BreakerChange:
    """An endpoint's breaker changed its state, for whoever holds jobs or shows health."""

    endpoint: str
    """The endpoint's key."""
    state: BreakerState
    last_failure: AttemptFailure | None


class Limits:
    """The limiters of one process, one per endpoint key and lane, shared by all jobs on that endpoint."""

    def __init__(self, make: Callable[[str], Limiter], *, sharers: int = 1) -> None:
        """`sharers`: processes that may call the same endpoints at once; each keeps to its part of their own caps."""
        self._make, self._sharers = make, sharers
        self._limiters: dict[str, Limiter] = {}

    @classmethod
    def fixed(cls, max_in_flight: int, *, sharers: int = 1) -> "Limits":
        """The same fixed cap for every endpoint; no breaker."""
        return cls(lambda key: Limiter(FixedWindow(max_in_flight)), sharers=sharers)

    @classmethod
    def adaptive(
        cls,
        max_in_flight: int,
        *,
        window: AdaptiveSettings | None = None,
        breaker: BreakerSettings | None = None,
        on_change: Callable[[BreakerChange], None] | None = None,
        sharers: int = 1,
    ) -> "Limits":
        """Limits that follow each endpoint, with a breaker and a retry share; `max_in_flight` stays the ceiling."""

        settings = window or AdaptiveSettings(largest=max_in_flight)

        def make(key: str) -> Limiter:
            state = Breaker(breaker or BreakerSettings())

            def tell(new: BreakerState) -> None:
                if on_change is not None and _LANE_MARK not in key:  # The endpoint's state is that of its main lane.
                    on_change(BreakerChange(key, new, state.last_failure))

            limiter = Limiter(AdaptiveWindow(settings), breaker=state, retries=RetryShare(), on_change=tell)
            limiter.tighten(max_concurrency=max_in_flight, rate_limit=None)
            return limiter

        return cls(make, sharers=sharers)

    @classmethod
    def of(
        cls,
        settings: EgressSettings,
        *,
        breaker: BreakerSettings | None = None,
        on_change: Callable[[BreakerChange], None] | None = None,
        sharers: int = 1,
    ) -> "Limits":
        """As the operator wants them: adaptive, or a fixed cap without a breaker."""
        if not settings.has_adaptive_limits:
            return cls.fixed(settings.max_calls_in_flight, sharers=sharers)
        return cls.adaptive(settings.max_calls_in_flight, breaker=breaker, on_change=on_change, sharers=sharers)

    def limiter(self, endpoint: Endpoint, *, owner: str = "") -> Limiter:
        """The endpoint's limiter, with the endpoint's own caps taken over, until their owner lets go of them."""
        key = _lane_key(endpoint)
        limiter = self._limiters.get(key)
        if limiter is None:
            limiter = self._limiters[key] = self._make(key)
        calls, rate = endpoint.max_concurrency, endpoint.rate_limit
        if calls is not None or rate is not None:
            limiter.tighten(
                max_concurrency=None if calls is None else max(1, calls // self._sharers),
                rate_limit=None if rate is None else rate / self._sharers,
                owner=owner,
            )
        return limiter

    def queued_at(self, endpoint: Endpoint) -> int:
        """Calls that wait for the endpoint now."""
        limiter = self._limiters.get(_lane_key(endpoint))
        return 0 if limiter is None else limiter.queued

    def load_of(self, key: str) -> EndpointLoad | None:
        """Of the endpoint with this key; None for one that was never called."""
        limiter = self._limiters.get(key)
        return None if limiter is None else limiter.load()

    def let_go(self, owner: str) -> None:
        """Drop the caps that came with an owner's endpoints."""
        for limiter in self._limiters.values():
            limiter.loosen(owner)

    async def aclose(self) -> None:
        """Stop everything that runs in the background."""
        for limiter in self._limiters.values():
            await limiter.aclose()


def _lane_key(endpoint: Endpoint) -> str:
    key = endpoint_key(endpoint.url)
    return f"{key}{_LANE_MARK}{endpoint.lane}" if endpoint.lane else key
