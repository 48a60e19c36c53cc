"""The capacity read off attempts: nearly the true one, and nothing claimed that was not seen."""

from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rft.core.attempt import Attempt
from rft.core.failure import FailureCode, Stage
from rft.rollouts.rehearsal_capacity import Capacity, capacity_of

SERVICE_S = 0.1


def attempt(started_s: float, latency_s: float, code: FailureCode | None = None) -> Attempt:
    return Attempt(
        at=started_s + latency_s,
        trace_id="trace_1",
        stage=Stage.TOOL,
        endpoint="search",
        call_id="call_1",
        attempt=1,
        code=code,
        status=200 if code is None else 503,
        latency_s=latency_s,
        queued_s=0.0,
        sent_bytes=1,
        received_bytes=1,
    )


def under_load(levels: range, *, servers: int = 10**6, refuses_above: int = 10**6, rounds: int = 4) -> list[Attempt]:
    """At each level so many callers, each of whom calls again when answered; calls beyond the servers stand in line."""
    return [
        attempt
        for number, level in enumerate(levels)
        for attempt in _round(1_000.0 * number, level, min(servers, level), refuses_above, rounds)
    ]


def _round(began_s: float, level: int, servers: int, refuses_above: int, rounds: int) -> Iterator[Attempt]:
    free_s = [began_s] * servers
    callers = [(began_s + 0.001 * place, place, 0) for place in range(level)]
    while callers:
        at_s, place, turn = heappop(callers)
        if place >= refuses_above:
            yield attempt(at_s, SERVICE_S, FailureCode.SERVER_ERROR)
            end_s = at_s + SERVICE_S
        else:
            end_s = max(at_s, heappop(free_s)) + SERVICE_S
            heappush(free_s, end_s)
            yield attempt(at_s, end_s - at_s)
        if turn + 1 < rounds:
            heappush(callers, (end_s, place, turn + 1))


@settings(max_examples=12, deadline=None)
@given(capacity=st.integers(10, 60))
def test_the_capacity_of_an_endpoint_that_queues_is_found(capacity: int) -> None:
    found = capacity_of(under_load(range(4, 3 * capacity, 3), servers=capacity))
    assert found.is_limit_found
    assert found.safe_concurrency is not None
    assert 0.7 * capacity <= found.safe_concurrency <= 1.7 * capacity


def test_an_endpoint_that_only_gets_better_has_no_limit_yet() -> None:
    found = capacity_of(under_load(range(1, 40)))
    assert found == Capacity(peak_in_flight=39, safe_concurrency=39, is_limit_found=False)


def test_latency_that_grew_by_no_more_than_our_own_delay_is_no_limit() -> None:
    calls = under_load(range(4, 60, 4), servers=20)
    assert capacity_of(calls, own_delay_s=0.05).is_limit_found
    assert not capacity_of(calls, own_delay_s=5.0).is_limit_found


def test_refusals_under_load_are_a_limit() -> None:
    found = capacity_of(under_load(range(2, 80, 2), refuses_above=30))
    assert found.is_limit_found
    assert found.safe_concurrency is not None
    assert 22 <= found.safe_concurrency <= 36


def test_errors_that_have_nothing_to_do_with_load_are_no_limit() -> None:
    calls = under_load(range(10, 40, 5))
    draw = Random(1)
    broken = [replace(call, code=FailureCode.SERVER_ERROR) if draw.random() < 0.2 else call for call in calls]
    assert not capacity_of(broken).is_limit_found


def test_nothing_answered_is_nothing_known() -> None:
    broken = [attempt(0.0, SERVICE_S, FailureCode.TIMEOUT) for _ in range(20)]
    assert capacity_of(broken) == Capacity(peak_in_flight=20, safe_concurrency=None, is_limit_found=False)


@pytest.mark.parametrize("calls", [0, 1, 5])
def test_a_handful_of_calls_says_only_how_many_were_inside(calls: int) -> None:
    found = capacity_of([attempt(0.0, SERVICE_S) for _ in range(calls)])
    assert found == Capacity(calls, calls or None, is_limit_found=False)


@settings(max_examples=60, deadline=None)
@given(
    calls=st.lists(
        st.tuples(st.floats(0, 10), st.floats(0.001, 3), st.booleans()),
        max_size=60,
    )
)
def test_nobody_is_said_to_bear_more_than_was_ever_inside(calls: list[tuple[float, float, bool]]) -> None:
    attempts = [attempt(start, latency, None if good else FailureCode.TIMEOUT) for start, latency, good in calls]
    found = capacity_of(attempts)
    assert found.peak_in_flight <= len(calls)
    assert found.safe_concurrency is None or 1 <= found.safe_concurrency <= found.peak_in_flight
