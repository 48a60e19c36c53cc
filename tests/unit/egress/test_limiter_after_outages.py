"""The limiter when an endpoint comes up again: approached anew, whatever hangs there since before; in virtual time."""

import asyncio

import pytest

from rft.egress.adaptive import AdaptiveSettings, AdaptiveWindow
from rft.egress.breaker import Breaker, BreakerSettings, BreakerState
from rft.egress.call_queue import EndpointDown
from rft.egress.limiter import Limiter
from rft.egress.reply import AttemptFailure
from rft.egress.retry_share import RetryShare
from rft.egress.window import FixedWindow
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock
from tests.unit.egress.troubled_host import (
    DOWN,
    OURS,
    REFUSED,
    SETTINGS,
    Host,
    asks_for_silence,
    attempt,
    borne,
    call,
    make_limiter,
)


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
        for task in hanging:
            task.cancel()
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
