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


def down(now_s: float = 0.0) -> Breaker:
    """Open, and the first probe found nobody."""
    breaker = opened(now_s)
    breaker.on_probe(is_alive=False, now_s=now_s)
    return breaker


def test_a_first_probe_goes_out_at_once_and_an_answer_closes_it() -> None:
    breaker = opened(7.0)
    assert breaker.next_probe_s == 7.0
    breaker.on_probe(is_alive=True, now_s=7.1)
    assert (breaker.state, breaker.down_since_s) == (BreakerState.CLOSED, None)


def test_calls_that_fail_at_a_door_that_answers_are_probed_for_again() -> None:
    breaker = opened()
    breaker.on_probe(is_alive=True, now_s=0.0)
    for _ in range(2):
        breaker.on_end(DOWN, began_s=0.0, now_s=1.0)
    assert breaker.state is BreakerState.CLOSED
    breaker.on_end(DOWN, began_s=0.0, now_s=1.0)
    assert breaker.state is BreakerState.OPEN


def test_probe_and_trial_close_it() -> None:
    breaker = down()
    breaker.on_probe(is_alive=True, now_s=1.0)
    assert breaker.state is BreakerState.HALF_OPEN
    breaker.on_end(None, began_s=1.5, now_s=2.0)
    assert breaker.state is BreakerState.CLOSED
    assert breaker.down_since_s is None


def test_a_failed_trial_opens_it_again_and_a_straggler_does_not() -> None:
    breaker = down()
    breaker.on_probe(is_alive=True, now_s=5.0)
    breaker.on_end(DOWN, began_s=0.0, now_s=6.0)
    assert breaker.state is BreakerState.HALF_OPEN
    breaker.on_end(DOWN, began_s=5.5, now_s=6.0)
    assert breaker.state is BreakerState.OPEN
    assert breaker.down_since_s == 0.0


def test_answered_probes_and_failed_trials_in_turn_do_not_hold_it_open_for_ever() -> None:
    breaker = down()
    for trial in range(SETTINGS.most_trials):
        assert breaker.state is BreakerState.OPEN, trial
        breaker.on_probe(is_alive=True, now_s=trial)
        breaker.on_end(DOWN, began_s=trial, now_s=trial)
    assert breaker.state is BreakerState.CLOSED


def test_a_trial_goes_out_though_nobody_answers_probes() -> None:
    breaker = opened()
    for _ in range(SETTINGS.probes_per_trial):
        assert breaker.state is BreakerState.OPEN
        breaker.on_probe(is_alive=False, now_s=1.0)
    assert breaker.state is BreakerState.HALF_OPEN
    breaker.on_end(DOWN, began_s=1.0, now_s=2.0)
    assert breaker.state is BreakerState.OPEN
    for _ in range(SETTINGS.probes_per_trial):
        breaker.on_probe(is_alive=False, now_s=3.0)
    breaker.on_end(None, began_s=3.0, now_s=4.0)
    assert breaker.state is BreakerState.CLOSED


def test_the_pauses_between_probes_grow_to_their_ceiling() -> None:
    breaker, now_s, pauses = opened(), 0.0, list[float]()
    for _ in range(SETTINGS.probes_per_trial):
        pauses.append(breaker.next_probe_s - now_s)
        now_s = breaker.next_probe_s
        breaker.on_probe(is_alive=False, now_s=now_s)
    assert pauses == [0.0, 1.0, 2.0, 4.0, 4.0, 4.0]


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
