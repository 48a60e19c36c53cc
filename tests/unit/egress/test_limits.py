"""The limiter: never too many inside, never too fast, fair, and nobody is lost when callers give up."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rft.core.failure import FailureCode, Stage
from rft.egress.breaker import Breaker, BreakerSettings, BreakerState
from rft.egress.endpoint import Endpoint, Lane
from rft.egress.limiter import Limiter
from rft.egress.limits import Limits
from rft.egress.reply import AttemptFailure
from rft.egress.window import FixedWindow
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock

DOWN = AttemptFailure(FailureCode.CONNECT_ERROR, "is gone")


async def recover(limiter: Limiter) -> None:
    """As a probe finds it that is answered at once."""

    async def probe() -> bool:
        return True

    slot = await limiter.enter(probe=probe)
    limiter.leave(slot=slot)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_free_place_is_taken_without_waiting() -> None:
    limiter = Limiter(FixedWindow(2))
    await limiter.enter()
    await limiter.enter()
    assert (limiter.in_flight, limiter.queued) == (2, 0)


async def test_the_next_in_line_enters_when_somebody_leaves() -> None:
    limiter = Limiter(FixedWindow(1))
    await limiter.enter()
    second, third = asyncio.create_task(limiter.enter()), asyncio.create_task(limiter.enter())
    await settle()
    assert (limiter.in_flight, limiter.queued) == (1, 2)
    limiter.leave()
    await settle()
    assert second.done()
    assert not third.done()
    limiter.leave()
    await third


async def test_a_caller_who_gives_up_takes_no_place() -> None:
    limiter = Limiter(FixedWindow(1))
    await limiter.enter()
    waiting, patient = asyncio.create_task(limiter.enter()), asyncio.create_task(limiter.enter())
    await settle()
    waiting.cancel()
    limiter.leave()
    await settle()
    assert patient.done()
    assert limiter.in_flight == 1


async def test_a_caller_who_gives_up_just_as_the_place_comes_hands_it_on() -> None:
    limiter = Limiter(FixedWindow(1))
    await limiter.enter()
    waiting, patient = asyncio.create_task(limiter.enter()), asyncio.create_task(limiter.enter())
    await settle()
    limiter.leave()
    waiting.cancel()
    await settle()
    assert patient.done()
    assert limiter.in_flight == 1


async def test_a_small_job_does_not_wait_behind_a_large_one() -> None:
    limiter, order = Limiter(FixedWindow(2)), list[str]()

    async def call(owner: str) -> None:
        await limiter.enter(owner)
        order.append(owner)
        await asyncio.sleep(0.001)
        limiter.leave(owner)

    await asyncio.gather(*(call("large") for _ in range(20)), *(call("small") for _ in range(5)))
    assert Counter(order[2:10])["small"] >= 3
    assert (limiter.in_flight, limiter.queued) == (0, 0)


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
async def test_with_fewer_places_than_jobs_each_job_has_its_turn(limit: int) -> None:
    limiter, served, enough = Limiter(FixedWindow(limit)), Counter[str](), asyncio.Event()

    async def calls(owner: str) -> None:
        while not enough.is_set():
            await limiter.enter(owner)
            await asyncio.sleep(0)
            served[owner] += 1
            if served.total() >= 500:
                enough.set()
            limiter.leave(owner)

    await asyncio.gather(*(calls(owner) for owner in "abcde" for _ in range(4)))
    assert min(served[owner] for owner in "abcde") > 80, served


def test_calls_start_no_faster_than_the_rate() -> None:
    started = list[float]()

    async def calls() -> None:
        limiter = Limiter(FixedWindow(100), rate_limit=100.0, now=virtual_clock)

        async def call() -> None:
            await limiter.enter()
            started.append(virtual_clock())
            limiter.leave()

        await asyncio.gather(*(call() for _ in range(12)))

    run_in_virtual_time(calls())
    gaps = [later - earlier for earlier, later in pairwise(started)]
    assert gaps == [pytest.approx(0.01)] * 11


async def test_the_strictest_of_several_owners_caps_holds() -> None:
    limits = Limits.fixed(50)
    url = "http://127.0.0.1:1/tool"
    limiter = limits.limiter(Endpoint("a", Stage.TOOL, url, max_concurrency=5))
    assert limits.limiter(Endpoint("b", Stage.TOOL, url + "?x=1", max_concurrency=9)) is limiter
    assert limiter.limit == 5
    assert limits.limiter(Endpoint("c", Stage.TOOL, "http://127.0.0.1:2/tool")).limit == 50


def lanes() -> list[Endpoint]:
    return [Endpoint("a", Stage.TOOL, "http://127.0.0.1:1/tool", lane=lane) for lane in Lane]


async def test_an_endpoint_is_as_far_down_as_the_worst_of_its_calls_and_beginnings() -> None:
    told: list[tuple[str, str]] = []
    limits = Limits.adaptive(8, on_change=lambda change: told.append((change.endpoint, change.state.value)))
    calls, beginnings, ends = (limits.limiter(endpoint) for endpoint in lanes())
    key = "http://127.0.0.1:1/tool"

    async def attempts(limiter: Limiter, failure: AttemptFailure | None) -> None:
        for _ in range(10):
            limiter.learn(failure, latency_s=0.0)

    await attempts(ends, DOWN)
    assert told == []
    await attempts(beginnings, DOWN)
    assert told == [(key, "open")]
    await attempts(calls, DOWN)
    await recover(beginnings)
    assert told == [(key, "open")]
    load = limits.load_of(key)
    assert load is not None
    assert load.breaker == "open"
    await recover(calls)
    assert told == [(key, "open"), (key, "closed")]


async def test_what_an_endpoint_asks_for_holds_for_whatever_it_is_called_for() -> None:
    limits = Limits.adaptive(8)
    first, *others = (limits.limiter(endpoint) for endpoint in lanes())
    limits.limiter(Endpoint("b", Stage.GRADER, "http://127.0.0.1:1/tool", max_concurrency=2), owner="another job")
    assert [limiter.limit for limiter in others] == [2, 2]
    first.learn(AttemptFailure(FailureCode.RATE_LIMITED, "later", status=429, retry_after_s=30.0), latency_s=0.1)
    for limiter in others:
        waiting = asyncio.create_task(limiter.enter())
        await settle()
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert limiter.queued == 0
    limits.let_go("another job", ["http://127.0.0.1:1/tool"])
    assert [limiter.limit for limiter in others] == [8, 8]
    await limits.aclose()


async def test_who_waits_for_a_cap_goes_on_when_its_job_is_done_whatever_the_call_is_for() -> None:
    limits = Limits.adaptive(8)
    calls, beginnings, _ = (limits.limiter(endpoint) for endpoint in lanes())
    limits.limiter(Endpoint("b", Stage.TOOL, "http://127.0.0.1:1/tool", max_concurrency=1), owner="another job")
    await beginnings.enter()
    waiting = asyncio.create_task(beginnings.enter())
    await settle()
    assert not waiting.done()
    limits.let_go("another job", ["http://127.0.0.1:1/tool"])
    await asyncio.wait_for(waiting, 1.0)
    assert (calls.in_flight, beginnings.in_flight) == (0, 2)


@pytest.mark.parametrize(
    ("is_up", "is_left"), [(True, False), (False, False), (False, True)], ids=["up again", "it is down", "its job ends"]
)
def test_what_nobody_calls_any_more_holds_nobody_up(is_up: bool, is_left: bool) -> None:
    """A job is over whose beginnings found the server down; others hear of it who call their tool there."""

    async def main() -> list[BreakerState]:
        told: list[BreakerState] = []
        beginnings = Limiter(FixedWindow(8), breaker=Breaker(), on_change=told.append, now=virtual_clock)
        up = False

        async def probe() -> bool:
            return up

        async def begin() -> None:
            slot = await beginnings.enter(probe=probe, caller="first")
            await asyncio.sleep(0.1)
            beginnings.learn(DOWN, latency_s=0.1, slot=slot)
            beginnings.leave(slot=slot)

        await asyncio.gather(*(begin() for _ in range(8)), return_exceptions=True)
        waiting = [asyncio.create_task(begin()) for _ in range(8)]
        await asyncio.sleep(3.0)
        assert told[-1] is BreakerState.OPEN
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert beginnings.queued == 0
        up = is_up
        await asyncio.sleep(3.0)
        assert told[-1] is (BreakerState.CLOSED if is_up else BreakerState.OPEN)
        if is_up:
            return told
        await asyncio.sleep(3.0 if is_left else 60.0)
        assert told[-1] is (BreakerState.OPEN if is_left else BreakerState.CLOSED)
        beginnings.let_go("first")
        await beginnings.aclose()
        return told

    assert run_in_virtual_time(main())[-1] is BreakerState.CLOSED


def test_nobody_is_probed_in_the_name_of_a_job_that_is_gone() -> None:
    async def main() -> list[str]:
        probed: list[str] = []
        limiter = Limiter(
            FixedWindow(8), breaker=Breaker(BreakerSettings(1, probes_per_trial=10_000)), now=virtual_clock
        )

        def probe_of(job: str) -> Callable[[], Awaitable[bool]]:
            async def probe() -> bool:
                probed.append(job)
                return False

            return probe

        for job in ("first", "second"):
            slot = await limiter.enter(job, probe=probe_of(job), caller=job)
            limiter.leave(job, slot)
        limiter.learn(DOWN, latency_s=0.1)
        await asyncio.sleep(20.0)
        assert set(probed) == {"second"}
        limiter.let_go("second")
        probed.clear()
        await asyncio.sleep(60.0)
        assert set(probed) == {"first"}
        limiter.let_go("first")
        probed.clear()
        await asyncio.sleep(3_600.0)
        assert not probed
        slot = await limiter.enter("third", probe=probe_of("third"), caller="third")
        limiter.learn(DOWN, latency_s=0.0, slot=slot)
        await asyncio.sleep(1.0)
        assert set(probed) == {"third"}
        await limiter.aclose()
        return probed

    run_in_virtual_time(main())


async def test_adaptive_limits_grow_beyond_the_usual_where_more_calls_are_allowed() -> None:
    limiter = Limits.adaptive(1000).limiter(Endpoint("a", Stage.TOOL, "http://127.0.0.1:1/tool"))
    most = 0
    for _ in range(20_000):
        while limiter.in_flight < limiter.limit:
            await limiter.enter()
        limiter.learn(None, latency_s=0.1)
        limiter.leave()
        most = max(most, limiter.limit)
    assert 512 < most <= 1000


@settings(max_examples=60, deadline=None)
@given(
    limit=st.integers(1, 4),
    calls=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.none() | st.integers(0, 4)), max_size=20),
)
async def test_whoever_gives_up_whenever_the_count_stays_right(
    limit: int, calls: list[tuple[str, int, int | None]]
) -> None:
    limiter = Limiter(FixedWindow(limit))
    inside = most = 0

    async def call(owner: str, ticks: int) -> None:
        nonlocal inside, most
        await limiter.enter(owner)
        inside += 1
        most = max(most, inside)
        try:
            for _ in range(ticks):
                await asyncio.sleep(0)
        finally:
            inside -= 1
            limiter.leave(owner)

    tasks = [asyncio.create_task(call(owner, ticks)) for owner, ticks, _ in calls]
    for tick in range(6):
        for task, (_, _, gives_up_at) in zip(tasks, calls, strict=True):
            if gives_up_at == tick:
                task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), timeout=60)
    assert most <= limit
    assert (limiter.in_flight, limiter.queued, inside) == (0, 0, 0)


@pytest.mark.parametrize("limit", [1, 3])
async def test_everybody_gets_through(limit: int) -> None:
    limiter = Limiter(FixedWindow(limit))

    async def call() -> None:
        await limiter.enter()
        await asyncio.sleep(0)
        limiter.leave()

    await asyncio.wait_for(asyncio.gather(*(call() for _ in range(200))), timeout=60)
    assert limiter.in_flight == 0
