"""Every fault over a real socket: the right code, the right number of attempts, one outcome."""

import time

import pytest

from rft.core.failure import Failure, FailureCode
from rft.core.spec import RetryBudget
from rft.egress.endpoint_client import Answer
from rft.testing.faults import Fault, FaultKind

from .conftest import BUDGET, MakeBench

RETRIED = BUDGET.max_retries + 1
FAULTS: list[tuple[Fault, FailureCode, int]] = [
    (Fault(FaultKind.STATUS, status=500), FailureCode.SERVER_ERROR, RETRIED),
    (Fault(FaultKind.STATUS, status=503), FailureCode.SERVER_ERROR, RETRIED),
    (Fault(FaultKind.STATUS, status=599), FailureCode.SERVER_ERROR, RETRIED),
    (Fault(FaultKind.STATUS, status=429), FailureCode.RATE_LIMITED, RETRIED),
    (Fault(FaultKind.STATUS, status=429, retry_after="0"), FailureCode.RATE_LIMITED, RETRIED),
    (Fault(FaultKind.STATUS, status=304), FailureCode.UNEXPECTED_STATUS, 1),
    (Fault(FaultKind.REDIRECT), FailureCode.UNEXPECTED_STATUS, 1),
    (Fault(FaultKind.RESET_BEFORE_HEADERS), FailureCode.CONNECTION_RESET, RETRIED),
    (Fault(FaultKind.RESET_AFTER_HEADERS), FailureCode.CONNECTION_RESET, RETRIED),
    (Fault(FaultKind.HALF_CLOSED), FailureCode.CONNECTION_RESET, RETRIED),
    (Fault(FaultKind.EARLY_END), FailureCode.CONNECTION_RESET, RETRIED),
    (Fault(FaultKind.GARBAGE), FailureCode.INVALID_REPLY, RETRIED),
    (Fault(FaultKind.HANG), FailureCode.TIMEOUT, RETRIED),
    (Fault(FaultKind.SLOW_DRIP), FailureCode.TIMEOUT, RETRIED),
    (Fault(FaultKind.NOT_JSON), FailureCode.INVALID_REPLY, RETRIED),
    (Fault(FaultKind.EMPTY_BODY), FailureCode.INVALID_REPLY, RETRIED),
    (Fault(FaultKind.SHAPELESS), FailureCode.INVALID_REPLY, RETRIED),
    (Fault(FaultKind.WRONG_CONTENT_TYPE), FailureCode.INVALID_REPLY, RETRIED),
    (Fault(FaultKind.FALSE_ENCODING), FailureCode.INVALID_REPLY, RETRIED),
    (Fault(FaultKind.OVERSIZE), FailureCode.OVERSIZE_REPLY, 1),
    (Fault(FaultKind.BOMB), FailureCode.OVERSIZE_REPLY, 1),
]


@pytest.mark.parametrize(("fault", "code", "attempts"), FAULTS, ids=lambda value: str(getattr(value, "kind", value)))
async def test_a_lasting_fault_ends_in_one_failure(
    make_bench: MakeBench, fault: Fault, code: FailureCode, attempts: int
) -> None:
    bench = await make_bench([fault], last_stays=True)
    outcome = await bench.post(bench.endpoint(timeout_s=0.15 if code is FailureCode.TIMEOUT else 60.0))
    assert isinstance(outcome, Failure)
    assert (outcome.code, outcome.attempts) == (code, attempts)
    assert outcome.endpoint == "echo"
    assert "echo" in outcome.message
    seen = len(bench.server.endpoint.calls)
    # On a busy machine the time of a call can be over before the endpoint has looked at it.
    assert 1 <= seen <= attempts if code is FailureCode.TIMEOUT else seen == attempts
    assert [record.code for record in bench.records] == [code] * attempts


@pytest.mark.parametrize(
    "fault", [fault for fault, _, attempts in FAULTS if attempts > 1], ids=lambda fault: str(fault.kind)
)
async def test_a_passing_fault_is_healed_by_the_next_attempt(make_bench: MakeBench, fault: Fault) -> None:
    bench = await make_bench([fault])
    is_slow = fault.kind in (FaultKind.HANG, FaultKind.SLOW_DRIP)
    outcome = await bench.post(bench.endpoint(timeout_s=2.0 if is_slow else 60.0))
    assert isinstance(outcome, Answer)
    assert outcome.value == "hi"
    # On a busy machine the time of the next attempt can be over, too.
    assert outcome.attempts >= 2 if is_slow else outcome.attempts == 2


@pytest.mark.parametrize("kind", [FaultKind.STATUS, FaultKind.RESET_BEFORE_HEADERS, FaultKind.NOT_JSON])
async def test_a_call_that_may_have_arrived_is_not_repeated_when_unsafe(make_bench: MakeBench, kind: FaultKind) -> None:
    bench = await make_bench([Fault(kind)])
    outcome = await bench.post(bench.endpoint(is_safe=False))
    assert isinstance(outcome, Failure)
    assert outcome.attempts == len(bench.server.endpoint.calls) == 1


async def test_a_4xx_goes_to_the_reader_and_is_not_retried(make_bench: MakeBench) -> None:
    bench = await make_bench([Fault(FaultKind.STATUS, status=404)])
    outcome = await bench.post()
    assert isinstance(outcome, Answer)
    assert (outcome.value, outcome.attempts) == ("404", 1)


async def test_every_attempt_says_which_call_and_which_attempt_it_is(make_bench: MakeBench) -> None:
    bench = await make_bench([Fault(FaultKind.STATUS), Fault(FaultKind.STATUS)])
    await bench.post()
    calls = bench.server.endpoint.calls
    assert [call.headers["idempotency-key"] for call in calls] == ["trace_1/call_1"] * 3
    assert [call.headers["x-rft-attempt"] for call in calls] == ["1", "2", "3"]
    assert {call.headers["authorization"] for call in calls} == {"Bearer top-secret-token"}
    assert {call.headers["content-type"] for call in calls} == {"application/json"}


async def test_a_header_value_that_the_endpoint_echoes_is_redacted(make_bench: MakeBench) -> None:
    echo = Fault(FaultKind.STATUS, status=500, body=b"bad key: Bearer top-secret-token / top-secret-token")
    bench = await make_bench([echo], last_stays=True)
    outcome = await bench.post()
    assert isinstance(outcome, Failure)
    assert "bad key" in outcome.message
    assert "top-secret-token" not in outcome.message


@pytest.mark.parametrize("status", [302, 500])
async def test_a_secret_is_redacted_before_the_message_is_cut(make_bench: MakeBench, status: int) -> None:
    body = b"x" * 185 + b" Bearer top-secret-token"
    bench = await make_bench([Fault(FaultKind.STATUS, status=status, body=body)], last_stays=True)
    outcome = await bench.post()
    assert isinstance(outcome, Failure)
    assert "top-" not in outcome.message
    assert "***" in outcome.message


async def test_retry_after_is_waited_for(make_bench: MakeBench) -> None:
    bench = await make_bench([Fault(FaultKind.STATUS, status=429, retry_after="0.2")])
    outcome = await bench.post()
    assert isinstance(outcome, Answer)
    first, second = bench.server.endpoint.calls
    assert second.at_s - first.at_s >= 0.2


async def test_retry_after_beyond_the_budget_ends_the_call_at_once(make_bench: MakeBench) -> None:
    bench = await make_bench([Fault(FaultKind.STATUS, status=503, retry_after="3600")])
    started_s = time.monotonic()
    outcome = await bench.post()
    assert isinstance(outcome, Failure)
    assert (outcome.code, outcome.attempts, outcome.status) == (FailureCode.SERVER_ERROR, 1, 503)
    assert time.monotonic() - started_s < 120


@pytest.mark.parametrize("kind", [FaultKind.HANG, FaultKind.SLOW_DRIP])
async def test_the_deadline_is_total_not_per_read(make_bench: MakeBench, kind: FaultKind) -> None:
    bench = await make_bench([Fault(kind)], retry=RetryBudget(max_retries=0))
    started_s = time.monotonic()
    outcome = await bench.post(bench.endpoint(timeout_s=0.3))
    assert isinstance(outcome, Failure)
    assert outcome.code is FailureCode.TIMEOUT
    assert time.monotonic() - started_s >= 0.3, "and it ended: neither fault ever does"


async def test_all_attempts_share_one_budget_of_time(make_bench: MakeBench) -> None:
    budget = RetryBudget(max_retries=50, total_s=0.5, first_wait_s=0.001, max_wait_s=0.001)
    bench = await make_bench([Fault(FaultKind.HANG)], last_stays=True, retry=budget)
    outcome = await bench.post(bench.endpoint(timeout_s=0.2))
    assert isinstance(outcome, Failure)
    assert 1 <= outcome.attempts <= 3
