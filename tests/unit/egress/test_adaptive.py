"""The adaptive window against models of endpoints, in simulated time."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.endpoint_load import LimitReason
from rft.core.failure import FailureCode
from rft.egress.adaptive import AdaptiveSettings, AdaptiveWindow, is_overload
from rft.egress.reply import AttemptFailure
from rft.egress.window import FixedWindow, Window

from .simulation import REFUSED, Endpoint, Seen, simulate

BROKEN = AttemptFailure(FailureCode.SERVER_ERROR, "answered 503", status=503)


def saturating(capacity: int, service_s: float) -> Endpoint:
    """Latency explodes beyond the capacity; beyond twice of it calls are refused."""

    def endpoint(inside: int, noise: random.Random) -> tuple[float, AttemptFailure | None]:
        if inside > 2 * capacity:
            return 0.005, REFUSED
        return service_s * max(1.0, inside / capacity) ** 2 * noise.uniform(0.7, 1.3), None

    return endpoint


def endless(service_s: float, broken_share: float = 0.0, *, is_wild: bool = False) -> Endpoint:
    """Bears any number of calls; some break for reasons of their own."""

    def endpoint(inside: int, noise: random.Random) -> tuple[float, AttemptFailure | None]:
        if noise.random() < broken_share:
            return 0.01, BROKEN
        return (noise.expovariate(1 / service_s) if is_wild else service_s * noise.uniform(0.7, 1.3)), None

    return endpoint


def after_ramp_up(endpoint: Endpoint, *, callers: int, seed: int, ramp_s: float = 10.0, seconds: float = 30.0) -> Seen:
    window = AdaptiveWindow()
    simulate(window, endpoint, callers=callers, seconds=ramp_s, seed=seed)
    return simulate(window, endpoint, callers=callers, seconds=seconds, start_s=ramp_s + 0.5, seed=seed + 100)


def best_fixed(endpoint: Endpoint, *, callers: int) -> float:
    limits = {1, 2, 5, 8, 10, 15, 20, 30, 35, 40, 45, 50, 60, 100, 180, 200, 220, callers}
    return max(
        simulate(FixedWindow(limit), endpoint, callers=callers, seconds=20).goodput
        for limit in limits
        if limit <= callers
    )


@pytest.mark.lengthy
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("capacity", "service_s", "callers"), [(40, 0.2, 200), (40, 0.05, 200), (200, 0.2, 500)])
def test_a_saturating_endpoint_is_used_and_not_trampled(
    capacity: int, service_s: float, callers: int, seed: int
) -> None:
    endpoint = saturating(capacity, service_s)
    seen = after_ramp_up(endpoint, callers=callers, seed=seed)
    assert seen.goodput >= 0.85 * best_fixed(endpoint, callers=callers)
    assert seen.most_in_flight <= 1.25 * capacity
    assert seen.error_share <= 0.01


@pytest.mark.parametrize("capacity", [5, 10])
def test_a_tiny_endpoint_is_found_as_well(capacity: int) -> None:
    seen = after_ramp_up(saturating(capacity, 0.2), callers=200, seed=1, ramp_s=60.0, seconds=60.0)
    assert seen.most_in_flight <= 1.7 * capacity
    assert seen.error_share <= 0.01
    assert seen.goodput >= 0.7 * capacity / 0.2


def queueing(capacity: int, service_s: float) -> Endpoint:
    """Works on so many calls at once, and lets all others wait."""

    def endpoint(inside: int, noise: random.Random) -> tuple[float, AttemptFailure | None]:
        return service_s * max(1.0, inside / capacity) * noise.uniform(0.7, 1.3), None

    return endpoint


def last_of_steps(endpoint: Endpoint, *, callers: int) -> Seen:
    """The sixth burst, with a pause before each, in which the trainer updates."""
    window, seen = AdaptiveWindow(), Seen()
    for step in range(6):
        window.on_start(5.0 if step else 0.0)
        seen = simulate(window, endpoint, callers=callers, seconds=50.0, start_s=60.0 * step, seed=step)
    return seen


@pytest.mark.parametrize(("capacity", "service_s"), [(8, 0.5), (20, 1.0), (50, 1.0)])
def test_steps_with_pauses_do_not_give_all_callers_to_an_endpoint_that_lets_them_wait(
    capacity: int, service_s: float
) -> None:
    seen = last_of_steps(queueing(capacity, service_s), callers=512)
    assert seen.most_in_flight <= 4 * capacity
    assert seen.goodput >= 0.9 * capacity / service_s


@pytest.mark.lengthy
@pytest.mark.parametrize("is_wild", [False, True])
def test_steps_with_pauses_give_all_callers_to_an_endpoint_that_bears_them(*, is_wild: bool) -> None:
    seen = last_of_steps(endless(0.2, is_wild=is_wild), callers=500)
    assert seen.most_in_flight >= 490
    assert seen.goodput >= 0.85 * 500 / 0.201


def slow_for_a_while(endpoint: Endpoint, *, since: int, until: int) -> Endpoint:
    """As while it starts up, or a neighbour is at work: calls from the one to the other take five times as long."""
    calls = 0

    def slow(inside: int, noise: random.Random) -> tuple[float, AttemptFailure | None]:
        nonlocal calls
        calls += 1
        latency_s, failure = endpoint(inside, noise)
        return latency_s * (5.0 if since <= calls < until else 1.0), failure

    return slow


@pytest.mark.lengthy
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("since", "until"), [(0, 5_000), (20_000, 25_000)])
def test_an_endpoint_that_was_slow_for_a_while_is_measured_anew(since: int, until: int, seed: int) -> None:
    window, endpoint = AdaptiveWindow(), slow_for_a_while(queueing(64, 0.1), since=since, until=until)
    simulate(window, endpoint, callers=512, seconds=200.0, seed=seed)
    light_s = window.light_latency_s
    assert light_s is not None
    assert light_s <= 0.13
    seen = simulate(window, endpoint, callers=512, seconds=20.0, start_s=200.0)
    assert seen.most_in_flight <= 1.5 * 64
    assert seen.goodput >= 0.9 * 640


def heavy_tailed(endpoint: Endpoint) -> Endpoint:
    """Three calls in a hundred take twenty times as long, whatever the load."""

    def heavy(inside: int, noise: random.Random) -> tuple[float, AttemptFailure | None]:
        times = 20.0 if noise.random() < 0.03 else 1.0
        latency_s, failure = endpoint(inside, noise)
        return times * latency_s, failure

    return heavy


@pytest.mark.parametrize("seed", range(6))
def test_a_round_without_one_of_the_few_slow_calls_is_no_new_measure(seed: int) -> None:
    window, endpoint = AdaptiveWindow(), heavy_tailed(queueing(64, 0.1))
    simulate(window, endpoint, callers=300, seconds=40.0, seed=seed)
    seen = simulate(window, endpoint, callers=300, seconds=40.0, start_s=40.0, seed=seed + 9)
    assert seen.goodput >= 0.9 * 64 / (0.1 * (0.97 + 20 * 0.03))


def lengthening(endpoint: Endpoint, *, doubled_after: int) -> Endpoint:
    """Its calls ask for more and more: at the same load each takes longer than those before."""
    calls = 0

    def longer(inside: int, noise: random.Random) -> tuple[float, AttemptFailure | None]:
        nonlocal calls
        calls += 1
        latency_s, failure = endpoint(inside, noise)
        return latency_s * (1.0 + calls / doubled_after), failure

    return longer


@pytest.mark.parametrize(
    ("endpoint", "doubled_after", "best_limit"),
    [(queueing(50, 0.2), 2_000, 50), (queueing(200, 0.2), 5_000, 200), (endless(0.2), 10_000, 512)],
)
def test_calls_that_grow_longer_by_themselves_do_not_strangle_the_endpoint(
    endpoint: Endpoint, doubled_after: int, best_limit: int
) -> None:
    def goodput(window: Window) -> float:
        longer = lengthening(endpoint, doubled_after=doubled_after)
        return simulate(window, longer, callers=512, seconds=150.0, seed=1).goodput

    assert goodput(AdaptiveWindow()) >= 0.7 * goodput(FixedWindow(best_limit))


@pytest.mark.lengthy
@pytest.mark.parametrize("is_wild", [False, True])
def test_an_endpoint_that_bears_everything_gets_everything(*, is_wild: bool) -> None:
    seen = after_ramp_up(endless(0.1, is_wild=is_wild), callers=500, seed=1)
    assert seen.goodput >= 0.85 * 500 / 0.101


@pytest.mark.lengthy
@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_failures_that_do_not_come_of_load_do_not_strangle_the_endpoint(share: float) -> None:
    endpoint = endless(0.1, share)
    seen = after_ramp_up(endpoint, callers=300, seed=1, ramp_s=20.0)
    assert seen.goodput >= 0.85 * best_fixed(endpoint, callers=300)


def narrow(capacity: int, service_s: float) -> Endpoint:
    """Bears so many calls and refuses all others at once."""

    def endpoint(inside: int, noise: random.Random) -> tuple[float, AttemptFailure | None]:
        return (0.005, REFUSED) if inside > capacity else (service_s * noise.uniform(0.9, 1.1), None)

    return endpoint


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_from_a_single_call_at_a_time_the_limit_grows_again_without_a_pause(seed: int) -> None:
    window = AdaptiveWindow()
    simulate(window, narrow(1, 0.2), callers=128, seconds=300.0, seed=seed)
    seen = simulate(window, narrow(1, 0.2), callers=128, seconds=300.0, start_s=300.001, seed=seed)
    assert (window.limit, seen.goodput) == (1, pytest.approx(5.0, rel=0.05))
    assert seen.error_share < 0.2
    simulate(window, endless(0.2), callers=128, seconds=120.0, start_s=600.002, seed=seed)
    assert window.limit > 100


def test_the_ramp_doubles_per_round() -> None:
    window = AdaptiveWindow(AdaptiveSettings(start=10))
    for expected in (20, 40, 80):
        for _ in range(window.limit):
            window.on_end(None, latency_s=0.1, in_flight=window.limit, now_s=0.0)
        assert window.limit == expected


def test_a_ramp_ends_where_calls_begin_to_wait() -> None:
    window, highest = AdaptiveWindow(), 0
    for _ in range(1000):
        window.on_end(None, latency_s=0.1 * max(1.0, window.limit / 40), in_flight=window.limit, now_s=0.0)
        highest = max(highest, window.limit)
    assert highest <= 100


def test_unused_places_are_no_reason_to_grow() -> None:
    window = AdaptiveWindow()
    for _ in range(500):
        window.on_end(None, latency_s=0.1, in_flight=3, now_s=0.0)
    assert window.limit == 32


def test_the_limit_says_why_it_is_as_it_is() -> None:
    def after(endpoint: Endpoint, *, callers: int, seconds: float = 20.0) -> LimitReason:
        window = AdaptiveWindow()
        simulate(window, endpoint, callers=callers, seconds=seconds, seed=1)
        return window.reason

    assert AdaptiveWindow().reason is LimitReason.APPROACHING
    assert after(endless(0.1), callers=500, seconds=0.5) is LimitReason.GROWING
    assert after(endless(0.1), callers=3) is LimitReason.ENOUGH
    seen = {after(saturating(40, 0.2), callers=200, seconds=seconds) for seconds in range(10, 40)}
    assert LimitReason.SLOWER in seen
    assert seen <= {LimitReason.SLOWER, LimitReason.GROWING, LimitReason.MEASURING, LimitReason.REFUSED}


def test_refusals_and_their_end_are_reasons() -> None:
    """Half of the calls are refused, however few there are."""
    window, reasons = AdaptiveWindow(AdaptiveSettings(start=64)), list[LimitReason]()
    for number in range(1000):
        failure = REFUSED if number % 2 else None
        window.on_end(failure, latency_s=0.1, in_flight=window.limit, now_s=0.0)
        reasons.append(window.reason)
    assert LimitReason.REFUSED in reasons
    assert LimitReason.REFUSED_ANYWAY in reasons[reasons.index(LimitReason.REFUSED) :]


def test_a_pause_is_a_reason() -> None:
    window = AdaptiveWindow()
    simulate(window, saturating(40, 0.2), callers=200, seconds=20)
    window.on_start(60.0)
    assert window.reason is LimitReason.APPROACHING


def test_after_a_pause_the_known_limit_is_approached_anew() -> None:
    window = AdaptiveWindow()
    simulate(window, endless(0.1), callers=500, seconds=5)
    known = window.limit
    window.on_start(0.5)
    assert window.limit == known
    window.on_start(60.0)
    assert window.limit == pytest.approx(known / 2, abs=1)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, REFUSED, BROKEN, AttemptFailure(FailureCode.INVALID_REPLY, "x")]),
            st.floats(0, 1000),
            st.integers(1, 600),
            st.booleans(),
        ),
        max_size=300,
    )
)
def test_whatever_happens_the_limit_stays_within_its_bounds(
    events: list[tuple[AttemptFailure | None, float, int, bool]],
) -> None:
    window = AdaptiveWindow(AdaptiveSettings(start=4, largest=64))
    for now_s, (failure, latency_s, in_flight, has_paused) in enumerate(events):
        if has_paused:
            window.on_start(5.0)
        window.on_end(failure, latency_s=latency_s, in_flight=in_flight, now_s=now_s)
        assert 1 <= window.limit <= 64


@pytest.mark.parametrize("code", FailureCode)
def test_what_counts_as_overload(code: FailureCode) -> None:
    expected = code in {
        FailureCode.RATE_LIMITED,
        FailureCode.TIMEOUT,
        FailureCode.CONNECT_ERROR,
        FailureCode.CONNECTION_RESET,
    }
    assert is_overload(AttemptFailure(code, "x")) is expected
    assert is_overload(AttemptFailure(FailureCode.SERVER_ERROR, "x", status=503))
    assert not is_overload(AttemptFailure(FailureCode.SERVER_ERROR, "x", status=500))
