"""One endpoint's limiter: calls in flight, calls started per second, fairness, retries, and the breaker's word.

The queue is ours, never a connection pool's.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from rft.core.endpoint_load import EndpointLoad, LimitReason
from rft.egress.breaker import Breaker, BreakerState
from rft.egress.call_queue import CallQueue, EndpointDown
from rft.egress.call_rate import CallRate
from rft.egress.calls_inside import CallsInside, Slot
from rft.egress.owners_caps import OwnersCaps
from rft.egress.reply import AttemptFailure
from rft.egress.retry_share import RetryShare
from rft.egress.window import Window

Probe: TypeAlias = Callable[[], Awaitable[bool]]
"""Whether the endpoint answers at all."""

LONGEST_SILENCE_S = 60.0
"""An endpoint that asks us to stay away for longer is called again after this, so that it is not lost for hours."""


@dataclass(slots=True)
class Silence:
    """How long an endpoint asked us to stay away (Retry-After), whatever we call it for."""

    until_s: float = 0.0


class Limiter:
    """One endpoint's limiter: at most `window.limit` calls inside, `rate_limit` entries per second, fair to owners.

    Waiting calls are served by owner (a job): the owner with the fewest calls inside goes first, of several the one
    that was served longest ago, and within one owner first come, first served. Retries go before first attempts while
    the retry share covers them. Nobody enters while the endpoint asked us to stay away (Retry-After), nor while the
    breaker is open: then probes go out, which count as calls inside and as starts, too. After an outage the endpoint is
    approached anew, and calls that hang there since before are neither waited for nor learned from.
    """

    def __init__(
        self,
        window: Window,
        *,
        rate_limit: float | None = None,
        breaker: Breaker | None = None,
        retries: RetryShare | None = None,
        on_change: Callable[[BreakerState], None] | None = None,
        caps: OwnersCaps | None = None,
        silence: Silence | None = None,
        now: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`caps` and `silence`: those of several limiters, where an endpoint has more than one."""
        self._wall_clock = wall_clock
        self._rate, self._reason, self._reason_since_s = CallRate(), LimitReason.SET, now()
        self._window, self._breaker, self._retries, self._now = window, breaker, retries, now
        self._on_change = on_change
        self._caps, self._silence = caps or OwnersCaps(), silence or Silence()
        self.tighten(max_concurrency=None, rate_limit=rate_limit)
        self._next_by_rate_s = 0.0
        self._empty_since_s = now()
        self._timer: asyncio.TimerHandle | None = None
        self._probes: dict[str, Probe] = {}
        """By who called: how to ask for life in their name. The latest is the last."""
        self._prober: asyncio.Task[None] | None = None
        self._inside = CallsInside()
        self._trial: Slot | None = None
        """Of the call that tries a half-open endpoint. What is inside since before may hang there for long."""
        self._queue = CallQueue()

    @property
    def in_flight(self) -> int:
        """Calls inside now, with probes."""
        return self._inside.total

    @property
    def queued(self) -> int:
        """Calls waiting now."""
        return len(self._queue)

    @property
    def limit(self) -> int:
        """Calls inside at most, now."""
        if self._breaker is not None and self._breaker.state is not BreakerState.CLOSED:
            return 1 if self._breaker.state is BreakerState.HALF_OPEN else 0
        return (
            self._window.limit
            if self._caps.concurrency is None
            else max(1, min(self._caps.concurrency, self._window.limit))
        )

    @property
    def state(self) -> BreakerState:
        """The breaker's state; closed where there is none."""
        return BreakerState.CLOSED if self._breaker is None else self._breaker.state

    @property
    def reason(self) -> LimitReason:
        """Why `limit` is what it is."""
        match self.state:
            case BreakerState.OPEN:
                return LimitReason.DOWN
            case BreakerState.HALF_OPEN:
                return LimitReason.TRIAL
            case BreakerState.CLOSED:
                pass
        if self.limit >= self._window.largest:
            return LimitReason.SET
        return self._window.reason if self.limit == self._window.limit else LimitReason.ORDERED

    def load(self) -> EndpointLoad:
        """What the endpoint is given to bear now."""
        now_s, at, breaker = self._now(), self._wall_clock(), self._breaker
        self._note_reason(now_s)
        waits_s = [self._next_start_s - now_s] if self._next_start_s - now_s > 1.0 else []
        if breaker is not None and breaker.state is BreakerState.OPEN:
            waits_s.append(breaker.next_probe_s - now_s)
        down_since_s = None if breaker is None else breaker.down_since_s
        return EndpointLoad(
            limit=self.limit,
            reason=self._reason,
            changed_at=at - (now_s - self._reason_since_s),
            in_flight=self.in_flight,
            queued=self.queued,
            calls_per_s=self._rate.per_second(now_s),
            rate_limit=1.0 / self._caps.interval_s if self._caps.interval_s else None,
            breaker=self.state.value,
            down_since=None if down_since_s is None else at - (now_s - down_since_s),
            waits_until=at + max(waits_s) if waits_s and max(waits_s) > 0 else None,
        )

    def tighten(self, *, max_concurrency: int | None, rate_limit: float | None, owner: str = "") -> None:
        """Take over an owner's caps; of several caps on one endpoint the strictest holds."""
        self._caps.tighten(owner, max_concurrency=max_concurrency, rate_limit=rate_limit)

    def let_go(self, caller: str) -> None:
        """Remove a caller's caps and how to probe in its name; with the last caller's, that the endpoint is down."""
        self._caps.loosen(caller)
        self._inside.note_room()
        was_known = self._probes.pop(caller, None) is not None
        if was_known and not self._probes and self._breaker is not None:
            before, now_s = self._breaker.state, self._now()
            was_down = self._breaker.is_found_down(now_s)
            self._breaker.forget(now_s)
            if self._prober is not None:
                self._prober.cancel()
                self._prober = None
            self._announce(before, was_down=was_down)
        self._pump()

    async def enter(
        self, owner: str = "", *, is_retry: bool = False, probe: Probe | None = None, caller: str = ""
    ) -> Slot:
        """Wait for a slot. Each `enter` needs one `leave` of it; none when it raised.

        `probe` is how to ask for life while the breaker is open, in the name of `caller` until `let_go` of it. Raises
        EndpointDown when that has taken too long.
        """
        if probe is not None:
            self._probes.pop(caller, None)
            self._probes[caller] = probe
        if self._breaker is not None and self.state is BreakerState.OPEN and self._prober is None:
            self._breaker.note_call(self._now())
        self._start_prober()
        self._refuse_when_hopeless()
        if not self._queue and self._may_start() and (not is_retry or self._is_retry_covered()):
            return self._admit(owner, is_retry=is_retry)
        waiter = self._queue.join(owner, is_retry=is_retry)
        self._pump()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.leave(owner, waiter.result())
            else:
                self._queue.drop(owner, waiter, is_retry=is_retry)
                self._pump()
            raise

    def leave(self, owner: str = "", slot: Slot | None = None) -> None:
        """Release the slot."""
        self._inside.remove(owner, slot)
        if slot is not None and slot is self._trial:
            self._trial = None
        if self.in_flight == 0:
            self._empty_since_s = self._now()
        self._pump()

    def learn(self, failure: AttemptFailure | None, *, latency_s: float, slot: Slot | None = None) -> None:
        """Report how an attempt ended, before releasing the slot."""
        now_s = self._now()
        self._rate.add(now_s)
        if not self._inside.is_older(slot):
            self._window.on_end(failure, latency_s=latency_s, in_flight=self._inside.recent, now_s=now_s)
        if failure is not None and failure.retry_after_s:
            silence_s = min(failure.retry_after_s, LONGEST_SILENCE_S)
            self._silence.until_s = max(self._silence.until_s, now_s + silence_s)
        if self._retries is not None:
            self._retries.on_end()
            if failure is None and (waiting := self._queue.retries):
                self._retries.on_answer(waiting=waiting, now_s=now_s)
        if self._breaker is not None:
            before, was_down = self._breaker.state, self._breaker.is_found_down(now_s)
            self._breaker.on_end(failure, began_s=now_s - latency_s, now_s=now_s)
            self._announce(before, was_down=was_down)
        self._note_reason(now_s)

    async def aclose(self) -> None:
        """Stop probing and waking up."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._prober is not None:
            self._prober.cancel()
            await asyncio.gather(self._prober, return_exceptions=True)

    def _note_reason(self, now_s: float) -> None:
        reason = self.reason
        if reason is not self._reason:
            self._reason, self._reason_since_s = reason, now_s

    @property
    def _next_start_s(self) -> float:
        return max(self._next_by_rate_s, self._silence.until_s)

    def _may_start(self) -> bool:
        return self._has_room() and self._now() >= self._next_start_s

    def _has_room(self) -> bool:
        if not self._is_below_cap():
            return False
        match self.state:
            case BreakerState.CLOSED:
                return self._inside.recent < self._window.limit
            case BreakerState.HALF_OPEN:
                return self._trial is None
            case BreakerState.OPEN:
                return False

    def _is_below_cap(self) -> bool:
        return self._caps.concurrency is None or self.in_flight < max(1, self._caps.concurrency)

    def _is_retry_covered(self) -> bool:
        return self._retries is None or self._retries.covers(self._now())

    def _admit(self, owner: str, *, is_retry: bool) -> Slot:
        if self.in_flight == 0:
            self._window.on_start(self._now() - self._empty_since_s)
        slot = self._inside.add(owner)
        if self.state is BreakerState.HALF_OPEN:
            self._trial = slot
        if is_retry and self._retries is not None:
            self._retries.on_start()
        self._count_start()
        return slot

    def _count_start(self) -> None:
        if self._caps.interval_s:
            self._next_by_rate_s = self._now() + self._caps.interval_s

    def _pump(self) -> None:
        if self._breaker is not None and self.state is BreakerState.HALF_OPEN and not self._queue and not self._trial:
            self._breaker.forget(self._now())
            self._announce(BreakerState.HALF_OPEN, was_down=True)
        while self._queue and self._has_room():
            if (wait_s := self._next_start_s - self._now()) > 0:
                self._wake_in(wait_s)
                return
            is_retry = self._queue.retries > 0 and self._is_retry_covered()
            if not is_retry and not self._queue.first_attempts:
                self._wake_in(0.1)  # retries only, none of them covered yet
                return
            owner, waiter = self._queue.next(self._inside.by_owner, is_retry=is_retry)
            if not waiter.done():
                waiter.set_result(self._admit(owner, is_retry=is_retry))

    def _wake_in(self, wait_s: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._pump()

    def _announce(self, before: BreakerState, *, was_down: bool) -> None:
        state = self.state
        if state is before:
            return
        self._trial = None
        if was_down and state is BreakerState.CLOSED:
            # Else all that waited would go out at once at what has just come up, or wait for what hangs there.
            self._window.on_recovery()
            self._inside.note_recovery()
        if self._on_change is not None:
            self._on_change(state)
        self._start_prober()
        self._pump()

    def _refuse_when_hopeless(self) -> None:
        breaker, now_s = self._breaker, self._now()
        if breaker is None or breaker.last_failure is None or breaker.down_since_s is None:
            return
        if breaker.state is BreakerState.OPEN and breaker.is_beyond_hope(now_s):
            raise EndpointDown(breaker.last_failure, now_s - breaker.down_since_s)

    def _start_prober(self) -> None:
        if self._breaker is None or not self._probes or self._breaker.state is not BreakerState.OPEN:
            return
        if self._prober is None or self._prober.done():
            self._prober = asyncio.create_task(self._keep_probing(self._breaker))

    async def _keep_probing(self, breaker: Breaker) -> None:
        """Probe after each of the open breaker's pauses, until it answers, nobody may wait for it any longer, or all
        who called are gone."""
        before, was_down = breaker.state, False
        while breaker.state is BreakerState.OPEN and self._probes:
            await self._wait_until_probe_due(breaker)
            before = breaker.state
            if before is not BreakerState.OPEN or not self._probes:
                break  # The last caller went meanwhile.
            is_alive = await self._probe_inside(next(reversed(self._probes.values())))
            before, now_s = breaker.state, self._now()
            was_down = breaker.is_found_down(now_s)
            breaker.on_probe(is_alive=is_alive, now_s=now_s)
            if breaker.is_beyond_hope(now_s):
                self._fail_waiters()
                break
        # Not from within: the breaker may open again at once, and then needs a new prober.
        self._prober = None
        self._announce(before, was_down=was_down)
        self._pump()

    async def _wait_until_probe_due(self, breaker: Breaker) -> None:
        """Until the next probe is due, the rate limit allows a start, and the owner's cap has a free slot."""
        while breaker.state is BreakerState.OPEN:
            if (wait_s := max(breaker.next_probe_s, self._next_start_s) - self._now()) > 0:
                await asyncio.sleep(wait_s)
            elif not self._is_below_cap():
                await self._inside.room()
            else:
                return

    async def _probe_inside(self, probe: Probe) -> bool:
        slot = self._inside.add(None)
        self._count_start()
        try:
            return await probe()
        finally:
            self._inside.remove(None, slot)

    def _fail_waiters(self) -> None:
        try:
            self._refuse_when_hopeless()
        except EndpointDown as error:
            self._queue.fail_all(error)
