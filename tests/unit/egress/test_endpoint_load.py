"""What a limiter says of its endpoint: how many calls, why, since when, and until when it waits."""

from hypothesis import given
from hypothesis import strategies as st

from rft.core.endpoint_load import LimitReason
from rft.core.failure import FailureCode
from rft.egress.adaptive import AdaptiveSettings, AdaptiveWindow
from rft.egress.breaker import Breaker, BreakerSettings
from rft.egress.call_rate import SPAN_S, CallRate
from rft.egress.limiter import Limiter
from rft.egress.reply import AttemptFailure
from rft.egress.window import FixedWindow
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock

DOWN = AttemptFailure(FailureCode.CONNECT_ERROR, "could not be reached")
EPOCH = 1_790_000_000.0


def wall() -> float:
    return EPOCH + virtual_clock()


async def unanswered() -> bool:
    return False


def test_each_cap_has_its_reason() -> None:
    async def main() -> None:
        fixed = Limiter(FixedWindow(64), now=virtual_clock, wall_clock=wall)
        assert (fixed.load().limit, fixed.load().reason) == (64, LimitReason.SET)
        fixed.tighten(max_concurrency=8, rate_limit=2.0)
        load = fixed.load()
        assert (load.limit, load.reason, load.rate_limit) == (8, LimitReason.ORDERED, 2.0)
        adaptive = Limiter(AdaptiveWindow(AdaptiveSettings(largest=128)), now=virtual_clock, wall_clock=wall)
        assert (adaptive.load().limit, adaptive.load().reason) == (32, LimitReason.APPROACHING)
        adaptive.tighten(max_concurrency=128, rate_limit=None)
        assert adaptive.load().reason is LimitReason.APPROACHING, "the platform's own ceiling is not what counts"

    run_in_virtual_time(main())


def test_an_endpoint_that_is_down_says_since_when_and_when_it_is_probed() -> None:
    async def main() -> None:
        breaker = Breaker(BreakerSettings(failures_in_a_row=1, first_pause_s=4.0))
        limiter = Limiter(FixedWindow(64), breaker=breaker, now=virtual_clock, wall_clock=wall)
        await limiter.enter(probe=unanswered)
        limiter.learn(DOWN, latency_s=0.0)
        limiter.leave()
        breaker.on_probe(is_alive=False, now_s=virtual_clock())
        load = limiter.load()
        assert (load.limit, load.reason, load.breaker) == (0, LimitReason.DOWN, "open")
        assert (load.down_since, load.waits_until, load.changed_at) == (EPOCH, EPOCH + 4.0, EPOCH)
        await limiter.aclose()

    run_in_virtual_time(main())


def test_who_asked_us_to_stay_away_says_until_when() -> None:
    async def main() -> None:
        limiter = Limiter(FixedWindow(4), now=virtual_clock, wall_clock=wall)
        await limiter.enter()
        limiter.learn(AttemptFailure(FailureCode.RATE_LIMITED, "429", status=429, retry_after_s=30.0), latency_s=0.0)
        limiter.leave()
        load = limiter.load()
        assert (load.waits_until, load.breaker, load.down_since) == (EPOCH + 30.0, "closed", None)
        assert load.calls_per_s == 1 / SPAN_S

    run_in_virtual_time(main())


@given(st.lists(st.floats(0.0, 300.0), max_size=200), st.floats(0.0, 400.0))
def test_a_rate_counts_the_last_minute_to_the_second(calls_s: list[float], later_s: float) -> None:
    rate, now_s = CallRate(), max([later_s, *calls_s])
    for at_s in sorted(calls_s):
        rate.add(at_s)
    counted = round(rate.per_second(now_s) * SPAN_S)
    assert sum(at_s > now_s - SPAN_S for at_s in calls_s) >= counted
    assert counted >= sum(at_s > now_s - SPAN_S + 1 for at_s in calls_s)
