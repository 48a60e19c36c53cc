"""The breaker's states."""

import pytest

from rft.core.failure import FailureCode
from rft.egress.breaker import DOWN_CODES, Breaker, BreakerSettings, BreakerState
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


@pytest.mark.parametrize("code", [FailureCode.INTERNAL_ERROR, FailureCode.BLOCKED_ADDRESS, FailureCode.CANCELLED])
def test_what_failed_on_our_side_neither_opens_nor_closes_it(code: FailureCode) -> None:
    breaker = opened()
    for _ in range(5):
        breaker.on_end(AttemptFailure(code, "x"), began_s=0.0, now_s=1.0)
    assert breaker.state is BreakerState.OPEN
    closed = Breaker(SETTINGS)
    for failure in (DOWN, DOWN, AttemptFailure(code, "x"), DOWN):
        closed.on_end(failure, began_s=0.0, now_s=0.0)
    assert closed.state is BreakerState.OPEN


def test_a_refusal_is_a_reply_and_closes_it() -> None:
    breaker = opened()
    breaker.on_end(AttemptFailure(FailureCode.RATE_LIMITED, "answered 429", status=429), began_s=0.0, now_s=1.0)
    assert breaker.state is BreakerState.CLOSED


def test_hope_ends() -> None:
    breaker = opened()
    assert not breaker.is_beyond_hope(100.0)
    assert breaker.is_beyond_hope(100.1)


def test_an_answer_that_was_slow_to_come_counts_against_failures_in_a_row_and_closes_nothing() -> None:
    breaker = opened()
    breaker.on_probe(is_alive=True, now_s=1.0)
    breaker.on_end(DOWN, began_s=1.0, now_s=2.0)
    breaker.on_end(DOWN, began_s=1.0, now_s=2.0)
    breaker.on_end(None, began_s=0.5, now_s=2.0)
    breaker.on_end(DOWN, began_s=1.0, now_s=2.0)
    assert breaker.state is BreakerState.CLOSED
    down_since = down(10.0)
    down_since.on_end(None, began_s=9.0, now_s=11.0)
    assert down_since.state is BreakerState.OPEN


def test_trials_go_out_again_and_again_though_nobody_answers_probes() -> None:
    breaker, trials = opened(), list[int]()
    for probe in range(1, 4 * SETTINGS.probes_per_trial):
        breaker.on_probe(is_alive=False, now_s=float(probe))
        if breaker.state is BreakerState.HALF_OPEN:
            trials.append(probe)
            breaker.on_end(DOWN, began_s=float(probe), now_s=probe + 0.5)
    assert trials == [6, 12, 18]


def test_it_is_found_down_by_a_probe_that_finds_nobody_or_by_two_seconds() -> None:
    assert not Breaker(SETTINGS).is_found_down(1e9)
    breaker = opened()
    assert not breaker.is_found_down(2.0)
    assert breaker.is_found_down(2.1)
    breaker.on_probe(is_alive=False, now_s=0.1)
    assert breaker.is_found_down(0.1)


def test_what_nobody_looked_at_for_long_has_all_its_trials_before_it() -> None:
    breaker = down()
    breaker.on_probe(is_alive=True, now_s=1.0)
    breaker.on_end(DOWN, began_s=1.0, now_s=2.0)
    breaker.note_call(breaker.next_probe_s + SETTINGS.max_pause_s)
    assert breaker.down_since_s == 0.0, "it was looked at lately"
    breaker.note_call(1000.0)
    assert (breaker.down_since_s, breaker.next_probe_s) == (1000.0, 1000.0)
    for trial in range(SETTINGS.most_trials):
        assert breaker.state is BreakerState.OPEN
        breaker.on_probe(is_alive=True, now_s=1001.0 + trial)
        breaker.on_end(DOWN, began_s=1001.0 + trial, now_s=1001.5 + trial)
    assert breaker.state is BreakerState.CLOSED
