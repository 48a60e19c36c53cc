"""Rounds of a held run are tried again, each with its own patience, and told of once."""

import asyncio
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rft.core.failure import Stage
from rft.core.spec import HoldRule
from rft.egress.breaker import BreakerState
from rft.rollouts.deadlines import Deadlines
from rft.rollouts.hold import (
    OPEN_FOR_S,
    FailingEndpoint,
    Hold,
    HoldExpired,
    trial_waits,
)
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock
from tests.unit.rollouts.holds import RULE, Told, blame, change


@given(st.floats(0.1, 100.0), st.floats(0.1, 1000.0))
def test_waits_between_trials_double_up_to_their_most(first_s: float, most_s: float) -> None:
    waits = trial_waits(HoldRule(first_trial_s=first_s, max_trial_s=most_s))
    seen = [next(waits) for _ in range(20)]
    assert seen[0] == min(first_s, most_s)
    assert all(after == min(2 * before, most_s) for before, after in pairwise(seen))


def test_a_round_that_comes_while_the_run_is_held_waits_with_it_and_is_told_of_once() -> None:
    told: Told = []

    async def main() -> None:
        deadlines = Deadlines()
        hold = Hold(RULE, tell=lambda event: told.append((virtual_clock(), event)), blame=blame, deadlines=deadlines)

        async def round_of(step: int, begins_s: float, lasts_s: float) -> None:
            await asyncio.sleep(begins_s)
            async with hold.round(step):
                await asyncio.sleep(lasts_s)

        async def outage() -> None:
            await asyncio.sleep(5.0)
            hold.on_change(change(BreakerState.OPEN))
            await asyncio.sleep(60.0)
            hold.on_change(change(BreakerState.CLOSED))

        await asyncio.gather(round_of(1, 0.0, 40.0), round_of(2, 20.0, 150.0), outage())

    run_in_virtual_time(main())
    assert [(at, event.type, event.step) for at, event in told] == [
        (5.0 + OPEN_FOR_S, "hold_began", 1),
        (65.0, "hold_ended", 1),
    ]


def test_each_round_has_its_own_patience_with_its_trials() -> None:
    """Another round's trials neither end its patience nor lengthen it."""
    told: Told = []
    failing = FailingEndpoint(Stage.TOOL, "tool 'search'", "answered 503")

    async def main() -> None:
        hold = Hold(RULE, tell=lambda event: told.append((virtual_clock(), event)), blame=blame, deadlines=Deadlines())

        async def trying(step: int, begins_s: float, tries_s: float) -> float:
            await asyncio.sleep(begins_s)
            try:
                async with hold.round(step) as one:
                    one.begin_trials(failing)
                    await asyncio.sleep(tries_s)
                    one.end_trials()
                    await asyncio.sleep(500.0)
            except HoldExpired:
                pass
            return virtual_clock()

        async def untroubled() -> None:
            async with hold.round(9):
                await asyncio.sleep(1000.0)

        ends = await asyncio.gather(trying(1, 0.0, 1e6), trying(2, 60.0, 90.0), untroubled())
        assert ends[:2] == [100.0, 650.0]

    run_in_virtual_time(main())
    assert [(at, event.type, event.step) for at, event in told] == [(0.0, "hold_began", 1), (150.0, "hold_ended", 1)]


def test_a_breaker_that_opens_in_the_trials_of_one_round_holds_all_of_them() -> None:
    failing = FailingEndpoint(Stage.GRADER, "the grader", "answered 503")

    async def main() -> list[object]:
        hold = Hold(RULE, tell=lambda event: None, blame=blame, deadlines=Deadlines())

        async def trying() -> None:
            async with hold.round(1) as one:
                one.begin_trials(failing)
                await asyncio.sleep(50.0)
                one.end_trials()
                await asyncio.sleep(500.0)

        async def other() -> None:
            async with hold.round(2):
                await asyncio.sleep(1000.0)

        async def outage() -> None:
            await asyncio.sleep(20.0 - OPEN_FOR_S)
            hold.on_change(change(BreakerState.OPEN))

        ends = await asyncio.gather(trying(), other(), outage(), return_exceptions=True)
        return [(type(end), virtual_clock()) for end in ends[:2]]

    # The first one's patience began with its trials, 20 s before the breaker held the other, and ended with neither.
    assert run_in_virtual_time(main()) == [(HoldExpired, 120.0), (HoldExpired, 120.0)]


def test_a_round_knows_of_other_rounds_trials_in_its_time_and_waits_for_their_end() -> None:
    failing = FailingEndpoint(Stage.TOOL, "tool 'search'", "answered 503")
    found: list[tuple[float, str, bool]] = []
    waited: dict[str, float] = {}

    async def main() -> None:
        hold = Hold(RULE, tell=lambda event: None, blame=blame, deadlines=Deadlines())

        async def trying(step: int, begins_s: float, tries_s: float) -> None:
            async with hold.round(step) as one:
                await asyncio.sleep(begins_s)
                one.begin_trials(failing)
                await asyncio.sleep(tries_s)
                one.end_trials()
                found.append((virtual_clock(), f"own {step}", await one.others_recovered()))

        async def asking(name: str, enters_s: float, *asks_s: float) -> None:
            await asyncio.sleep(enters_s)
            async with hold.round(9) as one:
                for at_s in asks_s:
                    await asyncio.sleep(at_s - virtual_clock())
                    asked_s = virtual_clock()
                    found.append((asked_s, name, await one.others_recovered()))
                    waited[name] = virtual_clock() - asked_s

        await asyncio.gather(
            trying(1, 10.0, 20.0),
            asking("before", 0.0, 5.0),
            asking("during", 15.0, 20.0),
            asking("behind", 0.0, 50.0, 60.0),
            asking("later", 40.0, 70.0),
        )

    run_in_virtual_time(main())
    assert sorted(found) == [
        (5.0, "before", False),
        (20.0, "during", True),
        (30.0, "own 1", False),
        (50.0, "behind", True),
        (60.0, "behind", False),
        (70.0, "later", False),
    ]
    assert waited == {"before": 0.0, "during": 10.0, "behind": 0.0, "later": 0.0}


def test_a_round_that_is_cancelled_in_its_trials_is_waited_for_no_more() -> None:
    failing = FailingEndpoint(Stage.TOOL, "tool 'search'", "answered 503")

    async def main() -> float:
        hold = Hold(RULE, tell=lambda event: None, blame=blame, deadlines=Deadlines())

        async def trying() -> None:
            async with hold.round(1) as one:
                one.begin_trials(failing)
                await asyncio.sleep(1000.0)

        tried = asyncio.create_task(trying())
        async with hold.round(2) as one:
            asyncio.get_running_loop().call_later(7.0, tried.cancel)
            await asyncio.sleep(0.0)
            assert await one.others_recovered()
            return virtual_clock()

    assert run_in_virtual_time(main()) == 7.0
