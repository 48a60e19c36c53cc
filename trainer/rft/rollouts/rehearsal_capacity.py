"""How many calls at once an endpoint bears, from attempts at many levels of concurrency. Pure.

By Little's law, n calls inside, each staying for the mean latency, are n / latency calls per second, of which the share
that is answered counts. Up to an endpoint's capacity that rate grows with n; beyond, calls only queue or are refused.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from rft.core.attempt import Attempt

_LEVEL_FACTOR = 1.25
_FEWEST = 16
"""Attempts that make a level worth looking at."""
_ENOUGH = 0.85
"""Share of the best rate that a level must reach."""
_BEYOND = 1.4
"""A level this much higher, tried without a better rate, shows that a limit was found."""
_TOLERATED_ERRORS = 0.02
_CLOCK_STEP_S = 1e-6
"""Unix time as a float is not finer."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the attempts at one URL say."""

    peak_in_flight: int
    safe_concurrency: int | None
    """None when nothing was answered."""
    is_limit_found: bool


@dataclass(slots=True)
class _Level:
    """Attempts that started while about so many were inside."""

    attempts: int = 0
    answered: int = 0
    inside: int = 0
    latency_s: float = 0.0

    @property
    def concurrency(self) -> float:
        return self.inside / self.attempts

    @property
    def mean_latency_s(self) -> float:
        return self.latency_s / self.attempts

    @property
    def rate(self) -> float:
        """Answers per second."""
        return self.concurrency / max(self.mean_latency_s, 1e-6) * self.answered / self.attempts

    @property
    def error_share(self) -> float:
        return 1.0 - self.answered / self.attempts

    @property
    def likely_errors(self) -> float:
        """Its share of errors, put higher where few attempts speak for it."""
        return (self.attempts - self.answered + 2) / (self.attempts + 4)

    def is_calm(self, usual_errors: float) -> bool:
        """Whether its errors are no more than usual, beyond what chance explains."""
        share = max(usual_errors, _TOLERATED_ERRORS)
        return self.error_share <= share + 2.0 * math.sqrt(share * (1.0 - share) / self.attempts)


def capacity_of(attempts: Sequence[Attempt], own_delay_s: float = 0.0) -> Capacity:
    """The lowest concurrency that brings nearly the best rate of answers without more errors than usual.

    `own_delay_s` is how late this process was at its own work: latency that grew by no more says nothing.
    """
    inside = _inside_at_start(attempts)
    peak = max((count for _, count in inside), default=0)
    if not any(attempt.code is None for attempt in attempts):
        return Capacity(peak, None, is_limit_found=False)
    levels = [level for level in _levels(inside) if level.attempts >= _FEWEST and level.answered]
    if not levels:
        return Capacity(peak, peak, is_limit_found=False)
    usual_errors = min(level.likely_errors for level in levels)
    calm = [level for level in levels if level.is_calm(usual_errors)]
    best = max(level.rate for level in calm)
    safe = next(level for level in calm if level.rate >= _ENOUGH * best)
    beyond = [level for level in levels if level.concurrency >= _BEYOND * safe.concurrency]
    if any(_is_worse(level, safe, own_delay_s, usual_errors) for level in beyond):
        return Capacity(peak, max(1, round(safe.concurrency)), is_limit_found=True)
    return Capacity(peak, peak, is_limit_found=False)


def _is_worse(level: _Level, safe: _Level, own_delay_s: float, usual_errors: float) -> bool:
    return level.mean_latency_s - safe.mean_latency_s > own_delay_s or not level.is_calm(usual_errors)


def _levels(inside: Sequence[tuple[Attempt, int]]) -> list[_Level]:
    """By rising concurrency."""
    levels: defaultdict[int, _Level] = defaultdict(_Level)
    for attempt, count in inside:
        level = levels[round(math.log(count, _LEVEL_FACTOR))]
        level.attempts += 1
        level.answered += attempt.code is None
        level.inside += count
        level.latency_s += attempt.latency_s
    return [levels[number] for number in sorted(levels)]


def _inside_at_start(attempts: Sequence[Attempt]) -> list[tuple[Attempt, int]]:
    """Each attempt with the number of those that were inside when it started, itself included."""
    ends: list[float] = []
    counted: list[tuple[Attempt, int]] = []
    for attempt in sorted(attempts, key=lambda one: one.at - one.latency_s):
        started_s = attempt.at - attempt.latency_s
        while ends and ends[0] <= started_s + _CLOCK_STEP_S:
            heappop(ends)
        heappush(ends, attempt.at)
        counted.append((attempt, len(ends)))
    return counted
