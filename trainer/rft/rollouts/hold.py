"""The hold: rounds of rollouts wait for an endpoint that is down, instead of going on with what is left of them.

Two things hold a run. A circuit breaker that stays open: its calls wait where they are, all other rollouts go on, and
no rollout's deadline runs. Or a round of which too many rollouts failed: then failed ones are tried again, one at a
time, until one is graded; a conversation that only lacks its grade is only graded again. Time held counts as time of
the step and of its rollouts, wherever they waited. What no waiting heals holds nothing: it ends the run.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from rft.core.errors import RftError
from rft.core.events import HoldBegan, HoldEnded
from rft.core.failure import Failure, Stage
from rft.core.spec import HoldRule
from rft.egress.breaker import BreakerState
from rft.egress.limits import BreakerChange
from rft.rollouts.deadlines import Deadlines

OPEN_FOR_S = 2.0
"""A breaker that closes again sooner than this is ignored."""


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


@dataclass(slots=True, eq=False)
class RoundHold:
    """One round's part in the holds of its run."""

    step: int
    _hold: "Hold"
    _limit: asyncio.Timeout
    """Strikes when the round has waited too long."""
    _seen_trials: int
    """Of all rounds, see `others_recovered`."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when its trials end, or the round itself."""
    _last: "_HoldPeriod | None" = None
    """The period that it waited in last."""
    _began_trials_s: float | None = None
    _trials_s: float = 0.0
    """Of trials that ended: all trials of a round share one patience."""

    @property
    def rule(self) -> HoldRule:
        """Of the run."""
        return self._hold.rule

    def begin_trials(self, failing: FailingEndpoint) -> None:
        """Too many rollouts of the round failed: it tries again, from time to time."""
        self._began_trials_s = _now_s()
        self.over.clear()
        self._hold.trials_begun += 1
        self._seen_trials += 1
        self._hold.add(self, failing, step=self.step)
        self.waits(self.rule.max_s - self._trials_s)

    def end_trials(self) -> None:
        """A trial was graded: the endpoint answers again."""
        if self._began_trials_s is None:
            return
        self._trials_s += _now_s() - self._began_trials_s
        self._began_trials_s = None
        self.over.set()
        self._hold.remove(self)

    async def others_recovered(self) -> bool:
        """Whether other rounds tried failed rollouts again in the time of this one, after the last of them has ended.

        True once for each time: what failed here meanwhile, it failed of the same.
        """
        has_news, self._seen_trials = self._hold.trials_begun > self._seen_trials, self._hold.trials_begun
        while (other := self._hold.other_in_trials(self)) is not None:
            await other.over.wait()
        return has_news

    def waits(self, most_s: float) -> None:
        """From now on for so long at most, unless it waits already."""
        if self._limit.when() is None:
            self._limit.reschedule(_now_s() + max(0.0, most_s))
        self._last = self._hold.period

    def goes_on(self) -> None:
        """What held it is over, but for its own trials."""
        if self._began_trials_s is None and not self._limit.expired():
            self._limit.reschedule(None)

    def expired(self) -> "HoldExpired | None":
        """Why the round has ended, where it has waited too long."""
        if self._last is None or not self._limit.expired():
            return None
        return HoldExpired(self._last.failing, _now_s() - self._last.began_s)


_Cause = str | RoundHold
"""The key of an endpoint whose breaker is open, or the round that tries failed rollouts again."""


@dataclass(slots=True)
class _HoldPeriod:
    """One time of being held, from its beginning to its end."""

    failing: FailingEndpoint
    began_s: float
    causes: set[_Cause]


class Hold:
    """Whether a run is held: its rounds under way, and what they wait for. Used only in the rollouts' event loop."""

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
        self.period: _HoldPeriod | None = None
        self._tell, self._blame, self._deadlines = tell, blame, deadlines
        self._down: dict[str, BreakerChange] = {}
        """Breakers that are not closed, by endpoint key."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._rounds: list[RoundHold] = []
        """Under way, the one that began first first."""
        self.trials_begun = 0
        """How often a round began to try failed rollouts again."""
        self._step = 0
        """That the period under way was told of."""

    @property
    def is_held(self) -> bool:
        """Whether a round waits now."""
        return self.period is not None

    @asynccontextmanager
    async def round(self, step: int) -> AsyncGenerator[RoundHold]:
        """A round of rollouts: only inside is the run ever held. Raises HoldExpired when it waited too long.

        A round that is cancelled or expires ends without `HoldEnded`: the endpoint was not seen to recover.
        """
        one: RoundHold | None = None
        try:
            async with asyncio.timeout(None) as limit:
                one = RoundHold(step, self, limit, self.trials_begun - len(self._in_trials()))
                self._enter(one)
                yield one
                self.remove(one)
                if self._rounds == [one]:
                    for cause in list(self.period.causes) if self.period else ():
                        self.remove(cause)
        except TimeoutError:
            expired = None if one is None else one.expired()
            if expired is None:
                raise
            raise expired from None
        finally:
            if one is not None:
                self._leave(one)

    def on_change(self, change: BreakerChange) -> None:
        """An endpoint's breaker opened, half opened or closed."""
        key = change.endpoint
        if change.state is BreakerState.CLOSED:
            self._down.pop(key, None)
            if (timer := self._timers.pop(key, None)) is not None:
                timer.cancel()
            self.remove(key)
            return
        is_news = key not in self._down
        self._down[key] = change
        if is_news and self._rounds:
            self._watch(key)

    def add(self, cause: _Cause, failing: FailingEndpoint, *, step: int) -> None:
        """One more cause to wait."""
        if self.period is not None:
            self.period.causes.add(cause)
            return
        self.period, self._step = _HoldPeriod(failing, _now_s(), {cause}), step
        self._tell(HoldBegan(step=step, endpoint=failing.endpoint, stage=failing.stage, reason=failing.reason))

    def remove(self, cause: _Cause) -> None:
        """The cause is gone; the last one ends the hold."""
        period = self.period
        if period is None or cause not in period.causes:
            return
        period.causes.discard(cause)
        self._go_on()
        if period.causes:
            return
        self.period = None
        held_s = _now_s() - period.began_s
        self._tell(HoldEnded(step=self._step, endpoint=period.failing.endpoint, held_s=held_s))

    def other_in_trials(self, one: RoundHold) -> RoundHold | None:
        """Another round that tries failed rollouts again now."""
        return next((other for other in self._in_trials() if other is not one), None)

    def _in_trials(self) -> list[RoundHold]:
        causes = () if self.period is None else self.period.causes
        return [cause for cause in causes if isinstance(cause, RoundHold)]

    def _enter(self, one: RoundHold) -> None:
        self._rounds.append(one)
        if self._has_open_breaker():
            one.waits(self.rule.max_s)
        for key in self._down.keys() - self._timers.keys():
            if self.period is None or key not in self.period.causes:
                self._watch(key)

    def _leave(self, one: RoundHold) -> None:
        self._rounds.remove(one)
        one.over.set()
        if self.period is not None:
            self.period.causes.discard(one)
            if not self.period.causes or not self._rounds:
                self.period = None
        if not self._rounds:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()
        self._go_on()

    def _watch(self, key: str) -> None:
        self._timers[key] = asyncio.get_running_loop().call_later(OPEN_FOR_S, self._stayed_open, key)

    def _stayed_open(self, key: str) -> None:
        self._timers.pop(key, None)
        self.add(key, self._blame(self._down[key]), step=self._rounds[0].step)
        self._deadlines.stop()
        for one in self._rounds:
            one.waits(self.rule.max_s)

    def _has_open_breaker(self) -> bool:
        return self.period is not None and any(isinstance(cause, str) for cause in self.period.causes)

    def _go_on(self) -> None:
        """Where no breaker holds the run any more, rounds wait for their own trials alone."""
        if self._has_open_breaker():
            return
        self._deadlines.go_on()
        for one in self._rounds:
            one.goes_on()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
