"""A run is held while a breaker stays open, tells so once, and fails when it lasts too long."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rft.core.events import HoldBegan, HoldEnded
from rft.core.failure import Stage
from rft.core.spec import HoldRule
from rft.egress.breaker import BreakerState
from rft.rollouts.deadlines import Deadlines
from rft.rollouts.hold import (
    OPEN_FOR_S,
    Hold,
    HoldExpired,
)
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock
from tests.unit.rollouts.holds import RULE, Told, blame, change, held_run


def test_a_breaker_that_stays_open_holds_the_run_until_it_closes() -> None:
    async def script(hold: Hold, deadlines: Deadlines) -> None:
        hold.on_change(change(BreakerState.OPEN))
        await asyncio.sleep(50)
        assert hold.is_held
        hold.on_change(change(BreakerState.HALF_OPEN))
        await asyncio.sleep(1)
        assert hold.is_held, "a trial is on its way"
        hold.on_change(change(BreakerState.CLOSED))
        assert not hold.is_held
        await asyncio.sleep(500)

    told, _ = held_run(script)
    assert told == [
        (
            OPEN_FOR_S,
            HoldBegan(step=3, endpoint="tool 'http://a/tool'", stage=Stage.TOOL, reason="answered 503"),
        ),
        (51.0, HoldEnded(step=3, endpoint="tool 'http://a/tool'", held_s=51.0 - OPEN_FOR_S)),
    ]


def test_a_flap_says_nothing() -> None:
    async def script(hold: Hold, deadlines: Deadlines) -> None:
        for _ in range(5):
            hold.on_change(change(BreakerState.OPEN))
            await asyncio.sleep(OPEN_FOR_S - 0.1)
            hold.on_change(change(BreakerState.CLOSED))
            await asyncio.sleep(1)

    assert held_run(script)[0] == []


def test_the_hold_ends_when_the_last_of_several_breakers_closed() -> None:
    async def script(hold: Hold, deadlines: Deadlines) -> None:
        hold.on_change(change(BreakerState.OPEN, "http://a/"))
        hold.on_change(change(BreakerState.OPEN, "http://b/"))
        await asyncio.sleep(10)
        hold.on_change(change(BreakerState.CLOSED, "http://a/"))
        await asyncio.sleep(10)
        hold.on_change(change(BreakerState.CLOSED, "http://b/"))

    told, _ = held_run(script)
    assert [(at, event.type) for at, event in told] == [(OPEN_FOR_S, "hold_began"), (20.0, "hold_ended")]


def test_a_hold_that_lasts_too_long_fails_the_round_and_names_the_endpoint() -> None:
    async def script(hold: Hold, deadlines: Deadlines) -> None:
        hold.on_change(change(BreakerState.OPEN))
        await asyncio.sleep(101.0 + OPEN_FOR_S)

    with pytest.raises(HoldExpired, match=r"held for 100 s because of tool 'http://a/tool': answered 503"):
        held_run(script)


def test_a_timeout_of_the_work_itself_is_not_taken_for_the_holds() -> None:
    async def script(hold: Hold, deadlines: Deadlines) -> None:
        raise TimeoutError("a bug")

    with pytest.raises(TimeoutError, match="a bug"):
        held_run(script)


def test_rollout_deadlines_stand_still_while_a_breaker_is_open() -> None:
    async def script(hold: Hold, deadlines: Deadlines) -> None:
        async with deadlines.within(10.0):
            hold.on_change(change(BreakerState.OPEN))
            await asyncio.sleep(80.0)
            hold.on_change(change(BreakerState.CLOSED))
            await asyncio.sleep(10.0 - OPEN_FOR_S - 0.1)

    held_run(script)


def test_between_rounds_nothing_is_held() -> None:
    """Nobody waits for the endpoint while the policy is updated; the next round looks again."""
    told: Told = []

    async def main() -> None:
        hold = Hold(RULE, tell=lambda event: told.append((virtual_clock(), event)), blame=blame, deadlines=Deadlines())
        async with hold.round(1):
            hold.on_change(change(BreakerState.OPEN))
            await asyncio.sleep(10.0)
        assert not hold.is_held
        await asyncio.sleep(1000.0)
        async with hold.round(2):
            await asyncio.sleep(10.0)

    run_in_virtual_time(main())
    assert [(at, event.type, event.step) for at, event in told] == [
        (OPEN_FOR_S, "hold_began", 1),
        (10.0, "hold_ended", 1),
        (1010.0 + OPEN_FOR_S, "hold_began", 2),
        (1020.0, "hold_ended", 2),
    ]


def test_a_round_that_is_cancelled_claims_no_recovery() -> None:
    told: Told = []

    async def main() -> None:
        hold = Hold(RULE, tell=lambda event: told.append((virtual_clock(), event)), blame=blame, deadlines=Deadlines())

        async def work() -> None:
            async with hold.round(1):
                hold.on_change(change(BreakerState.OPEN))
                await asyncio.sleep(1000.0)

        task = asyncio.create_task(work())
        await asyncio.sleep(10.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not hold.is_held

    run_in_virtual_time(main())
    assert [event.type for _, event in told] == ["hold_began"]


CHANGES = st.lists(st.tuples(st.floats(0.0, 5.0), st.sampled_from("abc"), st.sampled_from(BreakerState)), max_size=25)


@settings(deadline=None)
@given(CHANGES)
def test_whatever_breakers_do_beginnings_and_ends_take_turns(changes: list[tuple[float, str, BreakerState]]) -> None:
    async def script(hold: Hold, deadlines: Deadlines) -> None:
        since: dict[str, float] = {}
        for wait_s, endpoint, state in changes:
            await asyncio.sleep(wait_s)
            hold.on_change(change(state, endpoint))
            if state is BreakerState.CLOSED:
                since.pop(endpoint, None)
            else:
                since.setdefault(endpoint, virtual_clock())
            overdue = [key for key, began_s in since.items() if virtual_clock() - began_s > OPEN_FOR_S + 0.01]
            fresh = all(virtual_clock() - began_s < OPEN_FOR_S - 0.01 for began_s in since.values())
            assert hold.is_held or not overdue
            assert not hold.is_held or not fresh

    told, hold = held_run(script, rule=HoldRule(max_s=1e6))
    assert not hold.is_held
    kinds = [event.type for _, event in told]
    assert kinds == ["hold_began", "hold_ended"] * (len(kinds) // 2)
    for (began_s, began), (ended_s, ended) in list(pairwise(told))[::2]:
        assert isinstance(ended, HoldEnded)
        assert ended.endpoint == began.endpoint
        assert ended.held_s == pytest.approx(ended_s - began_s)
