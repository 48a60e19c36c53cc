"""The limiter at an endpoint that refuses, asks for silence, goes away and comes back; in virtual time."""

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rft.core.failure import FailureCode
from rft.egress.adaptive import AdaptiveSettings, AdaptiveWindow
from rft.egress.breaker import Breaker, BreakerSettings, BreakerState
from rft.egress.call_queue import EndpointDown
from rft.egress.limiter import LONGEST_SILENCE_S, Limiter
from rft.egress.reply import AttemptFailure
from rft.egress.retry_share import RetryShare
from rft.egress.window import FixedWindow
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock

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


@pytest.mark.parametrize(("asked_s", "waited_s"), [(30.0, 30.0), (86_400.0, LONGEST_SILENCE_S)])
@pytest.mark.parametrize("status", [429, 503])
def test_when_the_endpoint_asks_for_silence_nobody_calls_it(asked_s: float, waited_s: float, status: int) -> None:
    async def main() -> list[float]:
        host, limiter = Host([(asks_for_silence(asked_s, status=status), 1.0)]), make_limiter(8)
        await attempt(limiter, host)
        await asyncio.gather(*(attempt(limiter, host, owner) for owner in ("one job", "another job")))
        await limiter.aclose()
        return host.starts

    assert run_in_virtual_time(main()) == [0.0, *[pytest.approx(1.0 + waited_s)] * 2]


def test_a_probe_keeps_the_silence_too() -> None:
    async def main() -> list[float]:
        silence = asks_for_silence(20.0, status=503)
        host, limiter = Host([(silence, 0.0), (silence, 0.0)]), make_limiter(2)
        await asyncio.gather(attempt(limiter, host), attempt(limiter, host))
        assert limiter.state is BreakerState.OPEN
        await attempt(limiter, host)
        await limiter.aclose()
        return host.starts

    starts = run_in_virtual_time(main())
    assert starts[:2] == [0.0, 0.0]
    assert min(starts[2:]) >= 20.0


def test_a_probe_waits_for_room_below_the_owners_cap() -> None:
    async def main() -> Host:
        endings = [(DOWN, 0.1), (None, 10.0), (DOWN, 0.2), *[(None, 5.0)] * 20]
        host, limiter = Host(list(endings)), make_limiter(2)
        await asyncio.gather(*(call(limiter, host) for _ in range(12)))
        await limiter.aclose()
        return host

    host = run_in_virtual_time(main())
    assert host.most_inside == 2


def test_one_call_tries_the_endpoint_whatever_hangs_there_since_before() -> None:
    async def main() -> tuple[float, int]:
        hanging, down, probes = [(DOWN, 600.0)] * 4, [(DOWN, 0.1)] * 2, [(DOWN, 0.1), (None, 0.1)]
        host, limiter = Host([*hanging, *down, *probes, (None, 5.0)]), make_limiter(8)
        cut_off = [asyncio.create_task(attempt(limiter, host)) for _ in hanging]
        await asyncio.sleep(0)
        await asyncio.gather(*(attempt(limiter, host) for _ in down))
        waiting = [asyncio.create_task(attempt(limiter, host)) for _ in range(6)]
        await asyncio.sleep(3.0)
        cut_off.pop().cancel()
        await asyncio.sleep(1.0)
        trials = host.inside - len(cut_off)
        await asyncio.gather(*waiting)
        ended_s = virtual_clock()
        for call in cut_off:
            call.cancel()
        await limiter.aclose()
        return ended_s, trials

    ended_s, trials = run_in_virtual_time(main())
    assert ended_s < 10.0
    assert trials == 1, "a place that hangs and ends makes no room for a second trial"


@pytest.mark.parametrize("ending", ["cancelled", "ours"])
def test_a_trial_that_tells_nothing_makes_room_for_another(ending: str) -> None:
    async def main() -> float:
        endings = [(DOWN, 0.1), (DOWN, 0.1), (DOWN, 0.1), (None, 0.1), (OURS, 1.0)]
        host, limiter = Host(list(endings)), make_limiter(8)
        await asyncio.gather(attempt(limiter, host), attempt(limiter, host))
        trial = asyncio.create_task(attempt(limiter, host))
        await asyncio.sleep(1.0)
        assert (limiter.state, host.inside) == (BreakerState.HALF_OPEN, 1)
        if ending == "cancelled":
            trial.cancel()
        await attempt(limiter, host)
        await limiter.aclose()
        return virtual_clock()

    assert run_in_virtual_time(main()) < 10.0


def test_a_probe_is_a_start_like_any_other() -> None:
    async def main() -> list[float]:
        host, limiter = Host([*[(DOWN, 0.0)] * 5]), make_limiter(4, rate_limit=0.5)
        await asyncio.gather(*(call(limiter, host) for _ in range(4)))
        await limiter.aclose()
        return host.starts

    starts = run_in_virtual_time(main())
    assert min(later - earlier for earlier, later in pairwise(starts)) >= 2.0 - 1e-9


def test_after_an_outage_all_waiting_retries_go_out_soon() -> None:
    async def main() -> float:
        host = Host([*[(DOWN, 0.01)] * 60])
        limiter = make_limiter(400)
        await asyncio.gather(*(call(limiter, host) for _ in range(400)))
        await limiter.aclose()
        return virtual_clock()

    assert run_in_virtual_time(main()) < 60.0


def test_after_a_time_of_errors_that_no_probe_sees_all_waiting_retries_go_out_soon() -> None:
    async def main() -> float:
        error = AttemptFailure(FailureCode.INVALID_REPLY, "answered nonsense", status=200)
        host = Host([], trouble=error, trouble_ends_s=30.0)
        limiter = make_limiter(400)
        await asyncio.gather(*(call(limiter, host) for _ in range(400)))
        await limiter.aclose()
        return virtual_clock()

    assert run_in_virtual_time(main()) < 45.0


_endings = st.tuples(
    st.sampled_from([None, None, DOWN, DOWN, REFUSED, OURS])
    | st.builds(asks_for_silence, st.sampled_from([0.0, 0.5, 5.0, 300.0]), status=st.sampled_from([429, 503])),
    st.sampled_from([0.0, 0.01, 0.3, 4.0]),
)


@settings(max_examples=150, deadline=None)
@given(
    endings=st.lists(_endings, max_size=60),
    cap=st.integers(1, 4),
    rate_limit=st.sampled_from([None, 1.0, 20.0]),
    callers=st.integers(1, 15),
    given_up=st.lists(st.tuples(st.integers(0, 14), st.sampled_from([0.0, 0.2, 3.0, 40.0])), max_size=5),
)
def test_whatever_happens_caps_rates_and_silences_are_kept_and_nobody_waits_for_ever(
    endings: list[tuple[AttemptFailure | None, float]],
    cap: int,
    rate_limit: float | None,
    callers: int,
    given_up: list[tuple[int, float]],
) -> None:
    async def main() -> tuple[Host, Limiter]:
        host, limiter = Host(list(endings)), make_limiter(cap, rate_limit)
        tasks = [asyncio.create_task(call(limiter, host, "ab"[number % 2])) for number in range(callers)]
        for number, at_s in given_up:
            asyncio.get_running_loop().call_later(at_s, tasks[number % callers].cancel)
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), timeout=36_000.0)
        await asyncio.sleep(2 * LONGEST_SILENCE_S)  # places of callers that gave up are cleared when their turn comes
        await limiter.aclose()
        return host, limiter

    host, limiter = run_in_virtual_time(main())
    assert host.most_inside <= cap
    assert (limiter.in_flight, limiter.queued) == (0, 0)
    if rate_limit is not None:
        assert all(later - earlier >= 1.0 / rate_limit - 1e-9 for earlier, later in pairwise(host.starts))
    for start_s in host.starts:
        assert not any(since < start_s < until - 1e-9 for since, until in host.silences)


async def borne(limiter: Limiter, window: AdaptiveWindow) -> Host:
    """An endpoint that is known to bear 512 calls at once."""
    host = Host([])
    while window.limit < 512:
        await asyncio.gather(*(attempt(limiter, host) for _ in range(512)))
    return host


@pytest.mark.parametrize(
    ("ends", "after_s"),
    [(DOWN, 600.0), (DOWN, 2.0), (None, 0.5), (REFUSED, 0.5)],
    ids=["hangs", "fails", "ends", "429"],
)
def test_what_came_up_again_is_approached_anew_whatever_hangs_there_since_before(
    ends: AttemptFailure | None, after_s: float
) -> None:
    async def main() -> tuple[int, int, float, list[BreakerState]]:
        window, changes = AdaptiveWindow(AdaptiveSettings(largest=512)), list[BreakerState]()
        breaker = Breaker(BreakerSettings(failures_in_a_row=10, first_pause_s=0.5))
        closed = asyncio.Event()

        def note(state: BreakerState) -> None:
            changes.append(state)
            if state is BreakerState.CLOSED:
                closed.set()

        limiter = Limiter(window, breaker=breaker, now=virtual_clock, on_change=note)
        host = await borne(limiter, window)
        began_s = virtual_clock()
        host.endings = [*[(ends, after_s)] * 60, *[(DOWN, 0.1)] * 10, (DOWN, 0.1), (None, 0.1), *[(None, 0.2)] * 512]
        hanging = [asyncio.create_task(attempt(limiter, host)) for _ in range(60)]
        await asyncio.sleep(0)
        await asyncio.gather(*(attempt(limiter, host) for _ in range(10)))
        waiting = [asyncio.create_task(attempt(limiter, host)) for _ in range(512)]
        await closed.wait()
        await asyncio.sleep(0.01)
        at_once = host.inside - sum(not call.done() for call in hanging)
        host.most_inside = 0
        await asyncio.gather(*waiting)
        took_s = virtual_clock() - began_s
        for call in hanging:
            call.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        await limiter.aclose()
        return at_once, host.most_inside, took_s, changes

    at_once, most, took_s, changes = run_in_virtual_time(main())
    assert at_once <= AdaptiveSettings().start
    assert most < 60 + 300, "of 512 that it bore before"
    assert took_s < 10.0
    assert changes.count(BreakerState.OPEN) == 1, "that calls from before fail at last is no news"


class NotingWindow(FixedWindow):
    """Keeps how attempts ended that it was to learn from."""

    def __init__(self) -> None:
        super().__init__(64)
        self.ends: list[AttemptFailure | None] = []

    def on_end(self, failure: AttemptFailure | None, *, latency_s: float, in_flight: int, now_s: float) -> None:
        self.ends.append(failure)


def test_nothing_is_learned_from_what_hung_at_the_server_before() -> None:
    async def main() -> list[AttemptFailure | None]:
        window = NotingWindow()
        limiter = Limiter(window, breaker=Breaker(SETTINGS), now=virtual_clock)
        host = Host([*[(OURS, 30.0)] * 3, *[(DOWN, 0.1)] * 2, (DOWN, 0.1), (None, 0.1), (None, 0.1)])
        hanging = [asyncio.create_task(attempt(limiter, host)) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.gather(*(attempt(limiter, host) for _ in range(2)))
        await attempt(limiter, host)
        await asyncio.gather(*hanging)
        await limiter.aclose()
        return window.ends

    assert run_in_virtual_time(main()) == [DOWN, DOWN, None]


def test_what_kept_everybody_away_for_long_is_approached_anew_too() -> None:
    async def main() -> int:
        window = AdaptiveWindow(AdaptiveSettings(largest=512))
        limiter = Limiter(window, breaker=Breaker(BreakerSettings()), now=virtual_clock)
        host = await borne(limiter, window)
        host.endings = [*[(asks_for_silence(60.0, status=503), 0.1)] * 10, (None, 0.1), *[(None, 1.0)] * 512]
        await asyncio.gather(*(attempt(limiter, host) for _ in range(10)))
        waiting = [asyncio.create_task(attempt(limiter, host)) for _ in range(512)]
        await asyncio.sleep(60.9)
        at_once = host.inside
        await asyncio.gather(*waiting)
        await limiter.aclose()
        return at_once

    assert 0 < run_in_virtual_time(main()) <= AdaptiveSettings().start + 1


def test_a_server_that_ends_what_is_inside_and_takes_nothing_new_is_down() -> None:
    async def main() -> tuple[list[BreakerState], list[int]]:
        changes = list[BreakerState]()
        limiter = Limiter(
            AdaptiveWindow(AdaptiveSettings(largest=512)),
            breaker=Breaker(BreakerSettings()),
            retries=RetryShare(),
            on_change=changes.append,
            now=virtual_clock,
        )
        host = Host([(None, 2.0 * number) for number in range(1, 21)], trouble=DOWN)
        inside = [asyncio.create_task(attempt(limiter, host)) for _ in range(20)]
        await asyncio.sleep(0.5)
        host.trouble_ends_s = 60.0
        attempts = await asyncio.gather(*(call(limiter, host) for _ in range(200)))
        await asyncio.gather(*inside)
        await limiter.aclose()
        return changes, attempts

    changes, attempts = run_in_virtual_time(main())
    assert len(changes) < 10
    assert max(attempts) < 4


def test_a_probe_waits_for_no_cap_of_a_job_that_is_done() -> None:
    async def main() -> float:
        host, limiter = Host([*[(DOWN, 600.0)] * 4, *[(DOWN, 0.1)] * 2]), make_limiter(64)
        hanging = [asyncio.create_task(attempt(limiter, host)) for _ in range(6)]
        await asyncio.sleep(0.05)
        limiter.tighten(max_concurrency=2, rate_limit=None, owner="another job")
        await asyncio.sleep(1.0)
        waiting = asyncio.create_task(attempt(limiter, host))
        await asyncio.sleep(4.0)
        assert not waiting.done()
        limiter.let_go("another job")
        await waiting
        ended_s = virtual_clock()
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        await limiter.aclose()
        return ended_s

    assert run_in_virtual_time(main()) < 10.0


@pytest.mark.parametrize("is_up", [True, False], ids=["up since", "starting"])
def test_a_burst_hours_after_an_outage_finds_out_whether_it_is_over(is_up: bool) -> None:
    async def main() -> list[AttemptFailure | BaseException | None]:
        host, limiter = Host([], trouble=DOWN, trouble_ends_s=8_000.0), make_limiter(64)
        await asyncio.gather(*(attempt(limiter, host) for _ in range(2)))
        # Some of them go out as trials meanwhile.
        given_up = await asyncio.gather(*(attempt(limiter, host) for _ in range(400)), return_exceptions=True)
        assert isinstance(given_up[-1], EndpointDown)
        await asyncio.sleep(7 * 3_600.0)
        host.trouble_ends_s = 0.0 if is_up else virtual_clock() + 3.0
        ended = await asyncio.gather(*(attempt(limiter, host) for _ in range(64)), return_exceptions=True)
        await limiter.aclose()
        return ended

    assert run_in_virtual_time(main()) == [None] * 64
