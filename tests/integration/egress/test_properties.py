"""Any sequence of faults: one outcome per call, attempts within budget, limits kept as counted at the server."""

import asyncio
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rft.core.failure import Failure, FailureCode
from rft.core.spec import RetryBudget
from rft.egress.endpoint_client import Answer
from rft.egress.retry import RETRYABLE
from rft.testing.faults import Fault, FaultKind

from .conftest import MakeBench

fault_kinds = st.sampled_from([kind for kind in FaultKind if kind not in (FaultKind.OVERSIZE, FaultKind.BOMB)])
faults = st.none() | st.builds(Fault, fault_kinds, status=st.sampled_from([200, 302, 400, 404, 429, 500, 503]))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sequence=st.lists(faults, max_size=25),
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
    budget = RetryBudget(max_retries=max_retries, total_s=10.0, first_wait_s=0.001, max_wait_s=0.002)
    bench = await make_bench(sequence, retry=budget, max_in_flight=max_in_flight)
    endpoint = bench.endpoint(timeout_s=0.1, is_safe=is_safe)
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


async def test_a_users_own_cap_is_kept_at_the_server(make_bench: MakeBench) -> None:
    bench = await make_bench(latency_s=0.01)
    endpoint = bench.endpoint(max_concurrency=3)
    outcomes = await asyncio.gather(*(bench.post(endpoint, call_id=f"call_{n}") for n in range(40)))
    assert all(isinstance(outcome, Answer) for outcome in outcomes)
    assert bench.server.endpoint.max_in_flight == 3


async def test_a_rate_limit_is_kept_at_the_server(make_bench: MakeBench) -> None:
    bench = await make_bench()
    endpoint = bench.endpoint(rate_limit=50.0)
    await asyncio.gather(*(bench.post(endpoint, call_id=f"call_{n}") for n in range(20)))
    arrivals = [call.at_s for call in bench.server.endpoint.calls]
    assert arrivals[-1] - arrivals[0] >= 0.35
    for start in arrivals:
        assert sum(start <= at < start + 0.2 for at in arrivals) <= 0.2 * 50 + 2


async def test_cancelled_calls_free_their_places(make_bench: MakeBench) -> None:
    bench = await make_bench([Fault(FaultKind.HANG)] * 4, max_in_flight=2)
    stuck = [asyncio.create_task(bench.post(bench.endpoint(timeout_s=60.0))) for _ in range(4)]
    await bench.server.endpoint.until(lambda seen: len(seen.calls) == 2)
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)
    outcomes = await asyncio.gather(*(bench.post(bench.endpoint(timeout_s=0.2)) for _ in range(6)))
    assert any(isinstance(outcome, Answer) for outcome in outcomes)
    limiter = bench.client.limits.limiter(bench.endpoint())
    assert (limiter.in_flight, limiter.queued) == (0, 0)
