"""The limiter at an endpoint that refuses, asks for silence, goes away and comes back; in virtual time."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rft.core.failure import FailureCode
from rft.egress.breaker import BreakerState
from rft.egress.limiter import LONGEST_SILENCE_S, Limiter
from rft.egress.reply import AttemptFailure
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock
from tests.unit.egress.troubled_host import (
    DOWN,
    OURS,
    REFUSED,
    Host,
    asks_for_silence,
    attempt,
    call,
    make_limiter,
)


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
        for task in cut_off:
            task.cancel()
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


@pytest.mark.lengthy
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
