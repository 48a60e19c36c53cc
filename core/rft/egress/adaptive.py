"""Adaptive concurrency: finds how many calls an endpoint bears, from latency and from its refusals. Pure, no clock.

Time is cut into rounds of about one window of calls; after each change of the limit as many calls are let pass unread,
since they were sent under the old one. Three phases:

- *Ramp*: the limit grows by one per good call, so it doubles per round, until latency or refusals say stop. After a
  pause, as between two steps, it starts again from half of what was known to be good.
- *Light*: one round at half the limit measures latency under light load. Measured, not taken as a minimum, which noise
  would pull down.
- *Steady*: an endpoint that is full answers at the same rate, only later: the ratio of latency to that under light load
  is the share of calls it merely queues. The limit creeps up while the ratio is near one, and falls when it is clearly
  above, beyond what noise explains. Calls that are slower under no heavier load than the light one take longer of
  themselves: they are the new measure.

Refusals (429, 502-504, timeouts, broken connections) halve the limit. If two halvings do not make them rarer, they have
another cause than load: the limit is restored, and that share of refusals counts as normal from then on.
"""

import math
from dataclasses import dataclass, field
from enum import Enum, auto

from rft.core.endpoint_load import LimitReason
from rft.core.failure import FailureCode
from rft.egress.reply import AttemptFailure

_OVERLOAD_CODES = frozenset(
    {FailureCode.RATE_LIMITED, FailureCode.TIMEOUT, FailureCode.CONNECT_ERROR, FailureCode.CONNECTION_RESET}
)
_OVERLOAD_STATUSES = frozenset({502, 503, 504})
_AS_LIGHT = 1.25
"""Times the limit of a light measurement. What a heavier load shows may be queues: it is not mixed in."""


def is_overload(failure: AttemptFailure) -> bool:
    """Whether a failure may come of too many calls at once."""
    return failure.code in _OVERLOAD_CODES or failure.status in _OVERLOAD_STATUSES


@dataclass(frozen=True, slots=True)
class AdaptiveSettings:
    """How the limit moves."""

    start: int = 32
    smallest: int = 1
    largest: int = 512
    grow_below: float = 1.08
    """Latency ratio under which the limit creeps up."""
    shrink_above: float = 1.16
    """Latency ratio above which it falls."""
    suspicious: float = 1.5
    """Latency ratio that calls for a measurement under light load."""
    growth: float = 0.04
    """Of the limit, per round."""
    light_first: int = 8
    """Rounds after which latency under light load is measured even if nothing looks suspicious, and between two tries
    to leave the smallest limit."""
    light_every: int = 40
    """Rounds between two measurements under light load."""
    idle_s: float = 1.0
    """A pause after which the limit is approached anew."""
    smallest_round: int = 16


class _Phase(Enum):
    RAMP = auto()
    LIGHT = auto()
    STEADY = auto()


@dataclass(slots=True)
class _Latency:
    """Count, mean and variance of latencies, older ones fading."""

    count: float = 0.0
    mean_s: float = 0.0
    _squares: float = 0.0

    def add(self, latency_s: float) -> None:
        self.count += 1.0
        delta = latency_s - self.mean_s
        self.mean_s += delta / self.count
        self._squares += delta * (latency_s - self.mean_s)

    def fade(self, kept: float) -> None:
        self.count *= kept
        self._squares *= kept

    @property
    def error_s(self) -> float:
        """Standard error of the mean."""
        return math.sqrt(self._squares) / self.count if self.count else 0.0


@dataclass(slots=True)
class _Halving:
    """A decrease on trial: did it make refusals rarer?"""

    good_share: float
    limit: float
    """Before the first halving."""
    halvings: int = 1


@dataclass(slots=True)
class AdaptiveWindow:
    """A `Window` whose limit follows the endpoint."""

    settings: AdaptiveSettings = field(default_factory=AdaptiveSettings)
    reason: LimitReason = LimitReason.APPROACHING
    """Why the limit is as it is."""
    _limit: float = field(init=False)
    _phase: _Phase = _Phase.RAMP
    _skip: int = 0
    _round_size: int | None = None
    """Calls of this round, by the limit that it began with: in a ramp the limit grows with every one of them."""
    _good: int = 0
    _refused: int = 0
    _is_full: bool = False
    _now: _Latency = field(default_factory=_Latency)
    _light: _Latency | None = None
    _light_limit: float = math.inf
    """The limit under which `_light` was measured."""
    _faster_rounds: int = 0
    """Light ones in a row that were clearly faster than `_light`."""
    _first_s: float | None = None
    """Mean latency of the first round of a ramp: a rough stand-in while `_light` is unknown."""
    _before_light: float = 0.0
    _reason_before_light: LimitReason = LimitReason.APPROACHING
    _rounds: int = 0
    _is_growing_fast: bool = True
    _halving: _Halving | None = None
    _normal_refusals: float = 0.0

    def __post_init__(self) -> None:
        self._limit = float(self.settings.start)

    @property
    def limit(self) -> int:
        """Calls in flight at most."""
        return max(self.settings.smallest, int(self._limit))

    @property
    def largest(self) -> int:
        """What the limit never exceeds."""
        return self.settings.largest

    @property
    def light_latency_s(self) -> float | None:
        """Mean latency under light load; None until measured."""
        return None if self._light is None else self._light.mean_s

    def on_start(self, idle_s: float) -> None:
        """A call starts after nothing was inside for `idle_s`."""
        if idle_s < self.settings.idle_s:
            return
        known = self._known
        self._approach(max(min(self.settings.start, known), known / 2))

    def on_recovery(self) -> None:
        """The endpoint is up again after an outage: what it bore before may be another server's."""
        self._approach(min(self.settings.start, self._known))

    @property
    def _known(self) -> float:
        return self._before_light if self._phase is _Phase.LIGHT else self._limit

    def _approach(self, limit: float) -> None:
        self._halving, self._is_growing_fast, self.reason = None, True, LimitReason.APPROACHING
        self._enter(_Phase.RAMP, limit, skip=0)

    def on_end(self, failure: AttemptFailure | None, *, latency_s: float, in_flight: int, now_s: float) -> None:
        """One attempt ended: None for a usable reply. `in_flight` includes it."""
        if self._skip > 0:
            self._skip -= 1
            return
        self._is_full = self._is_full or in_flight >= 0.8 * self.limit
        if failure is None:
            self._good += 1
            self._now.add(latency_s)
            if self._phase is _Phase.RAMP and in_flight >= 0.8 * self.limit and not self._is_slow():
                self._limit = min(self._limit + 1.0, self.settings.largest)
                self.reason = LimitReason.GROWING
        elif is_overload(failure):
            self._refused += 1
        if self._round_size is None:
            self._round_size = max(self.settings.smallest_round, self.limit)
        if self._good + self._refused >= self._round_size:
            self._close_round()

    def _close_round(self) -> None:
        self._rounds += 1
        has_shrunk = self._review_refusals()
        self._begin_round()
        if has_shrunk or not self._now.count:
            return
        match self._phase:
            case _Phase.RAMP:
                self._close_ramp()
            case _Phase.LIGHT:
                self._close_light()
            case _Phase.STEADY:
                self._close_steady()
        self._is_full = False

    def _close_ramp(self) -> None:
        if self._first_s is None:
            self._first_s = self._now.mean_s
        if self._is_slow():
            self._go_light()
        elif self._limit >= self.settings.largest or not self._is_full:
            self.reason = self.reason if self._is_full else LimitReason.ENOUGH
            self._enter(_Phase.STEADY, self._limit, skip=0)
        else:
            self._now = _Latency()

    def _is_slow(self) -> bool:
        """Whether calls of this round take suspiciously longer than under light load, as far as that is known."""
        light_s = self.light_latency_s or self._first_s
        return light_s is not None and self._now.mean_s > self.settings.suspicious * light_s

    def _close_light(self) -> None:
        is_lighter = self._limit < 0.8 * self._light_limit
        if self._light is None or is_lighter or self._has_passed(self._light):
            self._light, self._light_limit, self._faster_rounds = self._now, self._limit, 0
        elif self._limit <= _AS_LIGHT * self._light_limit:
            self._light.fade(0.5)
            total = self._light.count + self._now.count
            self._light.mean_s += (self._now.mean_s - self._light.mean_s) * self._now.count / total
            self._light.count = total
        self.reason = self._reason_before_light
        self._enter(_Phase.STEADY, self._before_light)

    def _has_passed(self, light: _Latency) -> bool:
        """Whether what made calls slow under light load is over: they are faster by now beyond what noise explains, or
        clearly faster and more surely so twice in a row. In that measure slow and fast calls may have been mixed, and
        then noise explains anything; a single round may just have none of the few calls that take long."""
        now = self._now
        is_faster = self.settings.shrink_above * now.mean_s < light.mean_s and now.error_s < light.error_s
        self._faster_rounds = self._faster_rounds + 1 if is_faster else 0
        return self._faster_rounds > 1 or light.mean_s - now.mean_s > 2.0 * math.hypot(now.error_s, light.error_s)

    def _close_steady(self) -> None:
        light, now = self._light, self._now
        if light is None:
            is_suspicious = self._first_s is None or self._is_slow()
            if self._is_full and (is_suspicious or self._rounds >= self.settings.light_first):
                self._go_light()
            else:
                now.fade(0.7)
            return
        doubt_s = math.hypot(now.error_s, light.error_s)
        if now.mean_s - self.settings.shrink_above * light.mean_s > 2.0 * doubt_s:
            if self._limit <= self._light_limit:
                # Load is not the cause, and less of it no cure: the limit would fall to a single call.
                self._is_growing_fast = True
                self._adopt_as_light()
                return
            queue_free = (self.settings.grow_below + 0.02) * light.mean_s / (now.mean_s - doubt_s)
            self._is_growing_fast, self.reason = False, LimitReason.SLOWER
            self._enter(_Phase.STEADY, self._limit * min(0.95, max(0.5, queue_free)))
        elif self._is_full and (self._rounds % self.settings.light_every == 0 or self._limit < 1.5 * self._light_limit):
            self._go_light()
        elif self._is_full and now.mean_s - self.settings.grow_below * light.mean_s < 0.5 * doubt_s:
            self._grow()
        else:
            now.fade(0.7)

    def _grow(self) -> None:
        self.reason = LimitReason.GROWING
        if self._is_growing_fast:
            self._enter(_Phase.RAMP, self._limit, skip=0)
            return
        self._limit = min(self._limit + max(1.0, self.settings.growth * self._limit), self.settings.largest)
        self._now.fade(0.5)

    def _go_light(self) -> None:
        if self._limit < 2 * self.settings.smallest:
            self._leave_the_smallest()
            return
        self._before_light, self._reason_before_light = self._limit, self.reason
        self.reason = LimitReason.MEASURING
        self._enter(_Phase.LIGHT, self._limit / 2)

    def _leave_the_smallest(self) -> None:
        """There is no lighter load than this one; what it refuses may be borne later on, so it is tried seldom."""
        if self._rounds % self.settings.light_first:
            self._now.fade(0.7)
            return
        self._adopt_as_light()

    def _adopt_as_light(self) -> None:
        self._light, self._light_limit, self._faster_rounds = self._now, self._limit, 0
        self._now = _Latency()
        self._grow()

    def _enter(self, phase: _Phase, limit: float, *, skip: int | None = None) -> None:
        """Change phase or limit; by default a whole window of calls passes unread first."""
        self._skip = max(self.limit, int(limit)) if skip is None else skip
        self._phase = phase
        self._limit = max(float(self.settings.smallest), min(limit, float(self.settings.largest)))
        self._now = _Latency()
        self._begin_round()

    def _begin_round(self) -> None:
        self._good = self._refused = 0
        self._round_size = None

    def _review_refusals(self) -> bool:
        """Whether the round's refusals changed the limit."""
        ended = self._good + self._refused
        share = self._refused / ended
        if self._halving is not None:
            return self._review_halving(self._halving, share)
        normal = max(self._normal_refusals, 0.01)
        if share - normal <= 3.0 * math.sqrt(normal * (1.0 - normal) / ended):
            self._normal_refusals += 0.2 * (share - self._normal_refusals)
            return False
        limit = self._before_light if self._phase is _Phase.LIGHT else self._limit
        if limit < 2 * self.settings.smallest:
            return False
        self._halving = _Halving(good_share=1.0 - share, limit=limit)
        self._is_growing_fast, self.reason = False, LimitReason.REFUSED
        self._enter(_Phase.STEADY, limit / 2)
        return True

    def _review_halving(self, halving: _Halving, share: float) -> bool:
        hoped_for = min(1.0, halving.good_share * 2.0**halving.halvings)
        if 1.0 - share >= (halving.good_share + hoped_for) / 2:
            self._halving = None
            return False
        if halving.halvings < 2 and self._limit >= 2 * self.settings.smallest:
            halving.halvings += 1
            self._enter(_Phase.STEADY, self._limit / 2)
            return True
        self._halving, self._normal_refusals, self._is_growing_fast = None, share, True
        self.reason = LimitReason.REFUSED_ANYWAY
        self._enter(_Phase.STEADY, halving.limit)
        return True
