"""The limiters of a process: one per endpoint, shared by all jobs on it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from rft.core.egress_settings import EgressSettings
from rft.core.endpoint_load import EndpointLoad
from rft.egress.adaptive import AdaptiveSettings, AdaptiveWindow
from rft.egress.breaker import Breaker, BreakerSettings, BreakerState
from rft.egress.endpoint import Endpoint, Lane, endpoint_key
from rft.egress.limiter import Limiter, Silence
from rft.egress.owners_caps import OwnersCaps
from rft.egress.reply import AttemptFailure
from rft.egress.retry_share import RetryShare
from rft.egress.window import FixedWindow

_BY_TROUBLE = (BreakerState.CLOSED, BreakerState.HALF_OPEN, BreakerState.OPEN)
_UNHEARD = frozenset({Lane.ENDS})
"""Nobody waits for these: how they fare is no trouble of the endpoint's jobs."""


@dataclass(frozen=True, slots=True)
class BreakerChange:
    """An endpoint's breaker changed its state, for whoever holds jobs or shows health."""

    endpoint: str
    """The endpoint's key."""
    state: BreakerState
    last_failure: AttemptFailure | None


class _EndpointStates:
    """What the breakers of an endpoint's lanes come to: the worst of them, told whenever it changes."""

    def __init__(self, on_change: Callable[[BreakerChange], None]) -> None:
        self._on_change = on_change
        self._of_lanes: dict[str, dict[Lane, BreakerChange]] = {}

    def note(self, key: str, lane: Lane, state: BreakerState, last_failure: AttemptFailure | None) -> None:
        lanes = self._of_lanes.setdefault(key, {})
        before = max((_trouble(change) for change in lanes.values()), default=0)
        lanes[lane] = change = BreakerChange(key, state, last_failure)
        worst = max(change, *lanes.values(), key=_trouble)
        if _trouble(worst) != before:
            self._on_change(worst)


def _trouble(change: BreakerChange) -> int:
    return _BY_TROUBLE.index(change.state)


@dataclass(frozen=True, slots=True)
class _Shared:
    """What the limiters of one endpoint's lanes have in common."""

    key: str
    caps: OwnersCaps
    silence: Silence


_Make: TypeAlias = Callable[[_Shared, Lane], Limiter]


class Limits:
    """The limiters of one process, one per endpoint key and lane, shared by all jobs on that endpoint."""

    caller = ""
    """In whose name its calls are made, beside others on the same limiters."""

    def __init__(self, make: _Make, *, sharers: int = 1) -> None:
        """`sharers`: processes that may call the same endpoints at once; each keeps to its part of their own caps."""
        self._make, self._sharers = make, sharers
        self._endpoints: dict[str, _Shared] = {}
        self._limiters: dict[tuple[str, Lane], Limiter] = {}

    @classmethod
    def fixed(cls, max_in_flight: int, *, sharers: int = 1) -> "Limits":
        """The same fixed cap for every endpoint; no breaker."""

        def make(shared: _Shared, lane: Lane) -> Limiter:
            return Limiter(FixedWindow(max_in_flight), caps=shared.caps, silence=shared.silence)

        return cls(make, sharers=sharers)

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
        states = None if on_change is None else _EndpointStates(on_change)

        def make(shared: _Shared, lane: Lane) -> Limiter:
            state = Breaker(breaker or BreakerSettings())

            def tell(new: BreakerState) -> None:
                if states is not None and lane not in _UNHEARD:
                    states.note(shared.key, lane, new, state.last_failure)

            limiter = Limiter(
                AdaptiveWindow(settings),
                breaker=state,
                retries=RetryShare(),
                on_change=tell,
                caps=shared.caps,
                silence=shared.silence,
            )
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
        key, lane = endpoint_key(endpoint.url), endpoint.lane
        limiter = self._limiters.get((key, lane))
        if limiter is None:
            shared = self._endpoints.setdefault(key, _Shared(key, OwnersCaps(), Silence()))
            limiter = self._limiters[key, lane] = self._make(shared, lane)
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
        limiter = self._limiters.get((endpoint_key(endpoint.url), endpoint.lane))
        return 0 if limiter is None else limiter.queued

    def load_of(self, key: str) -> EndpointLoad | None:
        """Of the endpoint with this key, where it has several lanes that of one in trouble; None for one that was
        never called."""
        found = [self._limiters.get((key, lane)) for lane in Lane if lane not in _UNHEARD]
        limiters = [limiter for limiter in found if limiter is not None]
        worst = max(limiters, key=lambda limiter: _BY_TROUBLE.index(limiter.state), default=None)
        return None if worst is None else worst.load()

    def let_go(self, owner: str, keys: Iterable[str]) -> None:
        """Drop the caps that came with an owner's endpoints, of these `keys`, and what its calls left here."""
        for place in product(keys, Lane):
            if (limiter := self._limiters.get(place)) is not None:
                limiter.let_go(owner)

    async def aclose(self) -> None:
        """Stop everything that runs in the background."""
        for limiter in self._limiters.values():
            await limiter.aclose()
