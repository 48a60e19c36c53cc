"""Any sequence of faults: one outcome per call, attempts within budget, limits kept as counted at the server."""

import asyncio
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rft.core.failure import Failure, FailureCode
from rft.core.spec import RetryBudget
from rft.egress.endpoint_client import Answer
from rft.egress.retry import RETRYABLE
from rft.testing.faults import Fault, FaultKind

from .conftest import MakeBench

SLOW = (FaultKind.HANG, FaultKind.SLOW_DRIP)
KINDS = [kind for kind in FaultKind if kind not in (FaultKind.OVERSIZE, FaultKind.BOMB, *SLOW)]


def faults_of(*kinds: FaultKind) -> st.SearchStrategy[Fault | None]:
    statuses = st.sampled_from([200, 302, 400, 404, 429, 500, 503])
    return st.none() | st.builds(Fault, st.sampled_from(kinds), status=statuses)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sequence=st.lists(faults_of(*KINDS), max_size=25),
    calls=st.integers(1, 12),
    max_in_flight=st.integers(1, 5),
    max_retries=st.integers(0, 3),
    is_safe=st.booleans(),
)
async def test_whatever_happens_each_call_ends_once_within_budget_and_limits(
    make_bench: MakeBench,
    sequence: list[Fault | None],
    calls: int,
    max_in_flight: int,
    max_retries: int,
    *,
    is_safe: bool,
) -> None:
    budget = RetryBudget(max_retries=max_retries, total_s=300.0, first_wait_s=0.001, max_wait_s=0.002)
    bench = await make_bench(sequence, retry=budget, max_in_flight=max_in_flight)
    endpoint = bench.endpoint(timeout_s=60.0, is_safe=is_safe)
    outcomes = await asyncio.gather(*(bench.post(endpoint, call_id=f"call_{n}") for n in range(calls)))

    received = Counter(call.headers["idempotency-key"] for call in bench.server.endpoint.calls)
    for number, outcome in enumerate(outcomes):
        assert isinstance(outcome, Answer | Failure)
        assert 1 <= outcome.attempts <= max_retries + 1
        assert received[f"trace_1/call_{number}"] == outcome.attempts
        if isinstance(outcome, Failure):
            assert outcome.code is not FailureCode.INTERNAL_ERROR
            gave_up_early = outcome.attempts <= max_retries
            assert not gave_up_early or outcome.code not in RETRYABLE or not is_safe
    assert sum(received.values()) == len(bench.records)
    assert bench.server.endpoint.max_in_flight <= max_in_flight
    limiter = bench.client.limits.limiter(endpoint)
    assert (limiter.in_flight, limiter.queued) == (0, 0)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sequence=st.lists(faults_of(*KINDS, *SLOW), max_size=10), calls=st.integers(1, 6))
async def test_calls_that_run_out_of_time_are_counted_whether_or_not_they_arrived(
    make_bench: MakeBench, sequence: list[Fault | None], calls: int
) -> None:
    budget = RetryBudget(max_retries=2, total_s=300.0, first_wait_s=0.001, max_wait_s=0.002)
    bench = await make_bench(sequence, retry=budget, max_in_flight=3)
    endpoint = bench.endpoint(timeout_s=0.1)
    outcomes = await asyncio.gather(*(bench.post(endpoint, call_id=f"call_{n}") for n in range(calls)))

    received = Counter(call.headers["idempotency-key"] for call in bench.server.endpoint.calls)
    timed_out = Counter(record.call_id for record in bench.records if record.code is FailureCode.TIMEOUT)
    for number, outcome in enumerate(outcomes):
        arrived = received[f"trace_1/call_{number}"]
        # On a busy machine a tenth of a second can be over before the endpoint has looked at the call.
        assert outcome.attempts - timed_out[f"call_{number}"] <= arrived <= outcome.attempts <= 3
    assert sum(outcome.attempts for outcome in outcomes) == len(bench.records)
    limiter = bench.client.limits.limiter(endpoint)
    assert (limiter.in_flight, limiter.queued) == (0, 0)


async def test_a_users_own_cap_is_kept_at_the_server(make_bench: MakeBench) -> None:
    bench = await make_bench(latency_s=0.01)
    endpoint = bench.endpoint(max_concurrency=3)
    outcomes = await asyncio.gather(*(bench.post(endpoint, call_id=f"call_{n}") for n in range(40)))
    assert all(isinstance(outcome, Answer) for outcome in outcomes)
    assert bench.server.endpoint.max_in_flight == 3


async def test_a_rate_limit_is_kept_at_the_server(make_bench: MakeBench) -> None:
    bench = await make_bench()
    endpoint = bench.endpoint(rate_limit=50.0)
    began_s = asyncio.get_running_loop().time()
    await asyncio.gather(*(bench.post(endpoint, call_id=f"call_{n}") for n in range(20)))
    calls = bench.server.endpoint.calls
    assert len(calls) == 20
    for number, call in enumerate(calls):
        assert call.at_s - began_s >= number / 50.0 - 0.001, "one in a fiftieth of a second"


async def test_a_cancelled_attempt_is_in_the_ledger_and_teaches_nobody_anything(make_bench: MakeBench) -> None:
    bench = await make_bench([Fault(FaultKind.HANG)])
    stuck = asyncio.create_task(bench.post(bench.endpoint(timeout_s=60.0)))
    await bench.server.endpoint.until(lambda seen: len(seen.calls) == 1)
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck
    [record] = bench.records
    assert (record.code, record.attempt, record.status) == (FailureCode.CANCELLED, 1, None)
    assert record.sent_bytes > 0
    assert isinstance(await bench.post(), Answer)


async def test_a_call_that_is_cancelled_in_the_queue_was_no_attempt(make_bench: MakeBench) -> None:
    bench = await make_bench([Fault(FaultKind.HANG)], max_in_flight=1)
    stuck, waiting = (asyncio.create_task(bench.post(bench.endpoint(timeout_s=60.0))) for _ in range(2))
    await bench.server.endpoint.until(lambda seen: len(seen.calls) == 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not bench.records
    stuck.cancel()
    await asyncio.gather(stuck, return_exceptions=True)
    assert [record.code for record in bench.records] == [FailureCode.CANCELLED]


@pytest.mark.parametrize(
    "kind", [FaultKind.OVERSIZE, FaultKind.BOMB, FaultKind.EARLY_END, FaultKind.SLOW_DRIP, FaultKind.FALSE_ENCODING]
)
async def test_the_ledger_tells_the_bytes_of_replies_that_were_of_no_use(
    make_bench: MakeBench, kind: FaultKind
) -> None:
    bench = await make_bench([Fault(kind)], retry=RetryBudget(max_retries=0))
    assert isinstance(await bench.post(bench.endpoint(timeout_s=3.0)), Failure)
    assert bench.records[0].received_bytes > 0


async def test_cancelled_calls_free_their_places(make_bench: MakeBench) -> None:
    bench = await make_bench([Fault(FaultKind.HANG)] * 4, max_in_flight=2)
    stuck = [asyncio.create_task(bench.post(bench.endpoint(timeout_s=60.0))) for _ in range(4)]
    await bench.server.endpoint.until(lambda seen: len(seen.calls) == 2)
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)
    outcomes = await asyncio.gather(*(bench.post(bench.endpoint(timeout_s=1.0)) for _ in range(6)))
    assert any(isinstance(outcome, Answer) for outcome in outcomes)
    limiter = bench.client.limits.limiter(bench.endpoint())
    assert (limiter.in_flight, limiter.queued) == (0, 0)
