"""The breaker's states, and the share that retries may take."""

import pytest

from rft.core.failure import FailureCode
from rft.egress.breaker import DOWN_CODES, Breaker, BreakerSettings, BreakerState, RetryShare
from rft.egress.reply import AttemptFailure

DOWN = AttemptFailure(FailureCode.CONNECT_ERROR, "could not be reached")
SETTINGS = BreakerSettings(failures_in_a_row=3, first_pause_s=1.0, max_pause_s=4.0, max_open_s=100.0)


def opened(now_s: float = 0.0) -> Breaker:
    breaker = Breaker(SETTINGS)
    for _ in range(3):
        breaker.on_end(DOWN, began_s=now_s, now_s=now_s)
    return breaker


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    breaker = Breaker(SETTINGS)
    for failure in (DOWN, DOWN, None, DOWN, DOWN):
        breaker.on_end(failure, began_s=0.0, now_s=0.0)
    assert breaker.state is BreakerState.CLOSED
    breaker.on_end(DOWN, began_s=0.0, now_s=0.0)
    assert breaker.state is BreakerState.OPEN
    assert breaker.last_failure is DOWN


@pytest.mark.parametrize("code", [code for code in FailureCode if code not in DOWN_CODES])
def test_what_comes_from_a_living_endpoint_never_opens_it(code: FailureCode) -> None:
    breaker = Breaker(SETTINGS)
    for _ in range(10):
        breaker.on_end(AttemptFailure(code, "x"), began_s=0.0, now_s=0.0)
    assert breaker.state is BreakerState.CLOSED


def test_probe_and_trial_close_it() -> None:
    breaker = opened()
    breaker.on_probe(is_alive=True, now_s=1.0)
    assert breaker.state is BreakerState.HALF_OPEN
    breaker.on_end(None, began_s=1.5, now_s=2.0)
    assert breaker.state is BreakerState.CLOSED
    assert breaker.down_since_s is None


def test_a_failed_trial_opens_it_again_and_a_straggler_does_not() -> None:
    breaker = opened()
    breaker.on_probe(is_alive=True, now_s=5.0)
    breaker.on_end(DOWN, began_s=0.0, now_s=6.0)
    assert breaker.state is BreakerState.HALF_OPEN
    breaker.on_end(DOWN, began_s=5.5, now_s=6.0)
    assert breaker.state is BreakerState.OPEN
    assert breaker.down_since_s == 0.0


def test_the_pauses_between_probes_grow_to_their_ceiling() -> None:
    breaker, now_s, pauses = opened(), 0.0, list[float]()
    for _ in range(5):
        pauses.append(breaker.next_probe_s - now_s)
        now_s = breaker.next_probe_s
        breaker.on_probe(is_alive=False, now_s=now_s)
    assert pauses == [1.0, 2.0, 4.0, 4.0, 4.0]


def test_a_success_while_open_closes_it() -> None:
    breaker = opened()
    breaker.on_end(None, began_s=0.0, now_s=1.0)
    assert breaker.state is BreakerState.CLOSED


def test_hope_ends() -> None:
    breaker = opened()
    assert not breaker.is_beyond_hope(100.0)
    assert breaker.is_beyond_hope(100.1)


def test_failing_retries_stay_a_share_of_the_traffic() -> None:
    retries, made = RetryShare(share=0.2, per_s=0.0), 0
    for _ in range(1000):
        retries.on_end(is_retry=False, has_failed=True)
        while retries.covers(0.0):
            made += 1
            retries.on_end(is_retry=True, has_failed=True)
    assert made <= 0.25 * 1000 + 15


def test_succeeding_retries_make_way_for_more() -> None:
    retries = RetryShare(share=0.2, per_s=0.0)
    for _ in range(1000):
        assert retries.covers(0.0)
        retries.on_end(is_retry=True, has_failed=False)


def test_nothing_waits_forever() -> None:
    retries = RetryShare(per_s=1.0)
    while retries.covers(0.0):
        retries.on_end(is_retry=True, has_failed=True)
    assert not retries.covers(0.5)
    assert retries.covers(1.5)


def test_only_so_many_retries_are_inside_as_are_covered() -> None:
    retries = RetryShare(per_s=0.0)
    while retries.covers(0.0):
        retries.in_flight += 1
    assert retries.in_flight == 10
