"""The hold: a round of rollouts waits for an endpoint that is down, instead of going on with what is left of it.

Two things hold a run. A circuit breaker that stays open: its calls wait where they are, all other rollouts go on, and
no rollout's deadline runs. Or a round of which too many rollouts failed: then failed ones are tried again, one at a
time, until one is graded; a conversation that only lacks its grade is only graded again. Time held counts as time of
the step and of its rollouts, wherever they waited. What no waiting heals holds nothing: it ends the run.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rft.core.errors import RftError
from rft.core.events import HoldBegan, HoldEnded
from rft.core.failure import Failure, Stage
from rft.core.spec import HoldRule
from rft.egress.breaker import BreakerState
from rft.egress.limits import BreakerChange
from rft.rollouts.deadlines import Deadlines

OPEN_FOR_S = 2.0
"""A breaker that closes again sooner than this is ignored."""
_TRIALS = "trials"
"""The cause of a hold that is not an endpoint's key."""


@dataclass(frozen=True, slots=True)
class FailingEndpoint:
    """The endpoint that a run waits for."""

    stage: Stage
    endpoint: str
    """In words, e.g. `tool 'search'`."""
    reason: str
    """One sentence a customer can act on; no secrets."""


class HoldExpired(RftError):
    """An endpoint was down for longer than the run may wait."""

    def __init__(self, failing: FailingEndpoint, held_s: float) -> None:
        super().__init__(f"The run was held for {held_s:.0f} s because of {failing.endpoint}: {failing.reason}")
        self.failing = failing


class UnrecoverableRound(RftError):
    """Too many rollouts of a round failed in a way that comes out the same, however long the run waits."""

    def __init__(self, failures: Sequence[Failure], *, rollouts: int) -> None:
        """Needs at least one failure."""
        (self.code, _), *_ = Counter(failure.code for failure in failures).most_common(1)
        self.failing = failing_endpoint_of(
            [failure for failure in failures if failure.code is self.code], rollouts=rollouts
        )
        super().__init__(
            f"Too many rollouts of a step ended with {self.code}, which waiting does not heal, because of"
            f" {self.failing.endpoint}: {self.failing.reason}"
        )


def failing_endpoint_of(failures: Sequence[Failure], *, rollouts: int) -> FailingEndpoint:
    """Where most of a round's failures happened, with one of them as the reason. Needs at least one."""
    (stage, name), _ = Counter((failure.stage, failure.endpoint) for failure in failures).most_common(1)[0]
    example = next(failure for failure in failures if (failure.stage, failure.endpoint) == (stage, name))
    return FailingEndpoint(
        stage=stage,
        endpoint=f"{stage} {name!r}" if name else f"the {stage}",
        reason=f"{len(failures)} of {rollouts} rollouts failed, for example: {example.message}",
    )


def trial_waits(rule: HoldRule) -> Iterator[float]:
    """Seconds before each trial of a hold: doubling, up to a most."""
    wait_s = min(rule.first_trial_s, rule.max_trial_s)
    while True:
        yield wait_s
        wait_s = min(wait_s * 2.0, rule.max_trial_s)


@dataclass(slots=True)
class _HoldPeriod:
    """One time of being held, from its beginning to its end."""

    failing: FailingEndpoint
    began_s: float
    causes: set[str]


class Hold:
    """Whether a run is held, round by round. Used only in the rollouts' event loop."""

    def __init__(
        self,
        rule: HoldRule,
        *,
        tell: Callable[[HoldBegan | HoldEnded], None],
        blame: Callable[[BreakerChange], FailingEndpoint],
        deadlines: Deadlines,
    ) -> None:
        """`tell` gets every beginning and end; `blame` says in words whose breaker it is."""
        self.rule = rule
        self._tell, self._blame, self._deadlines = tell, blame, deadlines
        self._down: dict[str, BreakerChange] = {}
        """Breakers that are not closed, by endpoint key."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._step = 0
        self._limit: asyncio.Timeout | None = None
        """Of the round under way."""
        self._period: _HoldPeriod | None = None
        self._last: _HoldPeriod | None = None
        self._trials_held_s = 0.0

    @property
    def is_held(self) -> bool:
        """Whether a round waits now."""
        return self._period is not None

    @asynccontextmanager
    async def round(self, step: int) -> AsyncGenerator[None]:
        """A round of rollouts: only inside is the run ever held. Raises HoldExpired when it waited too long.

        A round that is cancelled or expires ends without `HoldEnded`: the endpoint was not seen to recover.
        """
        limit: asyncio.Timeout | None = None
        try:
            async with asyncio.timeout(None) as limit:
                self._limit, self._step, self._trials_held_s = limit, step, 0.0
                for key in self._down:
                    self._watch(key)
                yield
                for cause in list(self._period.causes) if self._period else ():
                    self._remove(cause)
        except TimeoutError:
            if limit is None or not limit.expired() or self._last is None:
                raise
            raise HoldExpired(self._last.failing, self._now() - self._last.began_s) from None
        finally:
            self._limit = self._period = None
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()
            self._deadlines.go_on()

    def on_change(self, change: BreakerChange) -> None:
        """An endpoint's breaker opened, half opened or closed."""
        key = change.endpoint
        if change.state is BreakerState.CLOSED:
            self._down.pop(key, None)
            if (timer := self._timers.pop(key, None)) is not None:
                timer.cancel()
            self._remove(key)
            return
        is_news = key not in self._down
        self._down[key] = change
        if is_news and self._limit is not None:
            self._watch(key)

    def begin_trials(self, failing: FailingEndpoint) -> None:
        """Too many rollouts of the round failed. All trials of a round share one patience."""
        self._add(_TRIALS, failing)

    def end_trials(self) -> None:
        """A trial was graded: the endpoint answers again."""
        if self._period is not None and _TRIALS in self._period.causes:
            self._trials_held_s += self._now() - self._period.began_s
        self._remove(_TRIALS)

    def _watch(self, key: str) -> None:
        self._timers[key] = asyncio.get_running_loop().call_later(OPEN_FOR_S, self._stayed_open, key)

    def _stayed_open(self, key: str) -> None:
        self._timers.pop(key, None)
        self._add(key, self._blame(self._down[key]))
        self._deadlines.stop()

    def _add(self, cause: str, failing: FailingEndpoint) -> None:
        if self._period is not None:
            self._period.causes.add(cause)
            return
        self._period = self._last = _HoldPeriod(failing, self._now(), {cause})
        self._tell(HoldBegan(step=self._step, endpoint=failing.endpoint, stage=failing.stage, reason=failing.reason))
        if self._limit is not None:
            spent_s = self._trials_held_s if cause == _TRIALS else 0.0
            self._limit.reschedule(self._now() + max(0.0, self.rule.max_s - spent_s))

    def _remove(self, cause: str) -> None:
        period = self._period
        if period is None or cause not in period.causes:
            return
        period.causes.discard(cause)
        if not period.causes - {_TRIALS}:
            self._deadlines.go_on()
        if period.causes:
            return
        self._period = None
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(None)
        held_s = self._now() - period.began_s
        self._tell(HoldEnded(step=self._step, endpoint=period.failing.endpoint, held_s=held_s))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
