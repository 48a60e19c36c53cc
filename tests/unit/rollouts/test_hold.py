"""A run is held while a breaker stays open, tells so once, and fails when it lasts too long."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rft.core.events import HoldBegan, HoldEnded
from rft.core.failure import FAULTS, Failure, FailureCode, Fault, Stage
from rft.core.spec import HoldRule
from rft.egress.breaker import BreakerState
from rft.egress.limits import BreakerChange
from rft.egress.reply import AttemptFailure
from rft.rollouts.deadlines import Deadlines
from rft.rollouts.failure_actions import FailureAction, action_for
from rft.rollouts.hold import (
    OPEN_FOR_S,
    FailingEndpoint,
    Hold,
    HoldExpired,
    UnrecoverableRound,
    failing_endpoint_of,
    trial_waits,
)
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock

RULE = HoldRule(max_s=100.0)
Told = list[tuple[float, HoldBegan | HoldEnded]]


def change(state: BreakerState, endpoint: str = "http://a/tool") -> BreakerChange:
    return BreakerChange(endpoint, state, AttemptFailure(FailureCode.SERVER_ERROR, "answered 503"))


def blame(broken: BreakerChange) -> FailingEndpoint:
    return FailingEndpoint(Stage.TOOL, f"tool {broken.endpoint!r}", "answered 503")


def held_run(
    script: Callable[[Hold, Deadlines], Coroutine[Any, Any, None]], *, rule: HoldRule = RULE
) -> tuple[Told, Hold]:
    """What a round of rollouts tells while the script runs in it."""
    told: Told = []

    async def main() -> Hold:
        deadlines = Deadlines()
        hold = Hold(rule, tell=lambda event: told.append((virtual_clock(), event)), blame=blame, deadlines=deadlines)
        async with hold.round(3):
            await script(hold, deadlines)
        return hold

    return told, run_in_virtual_time(main())


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


def failure(code: FailureCode, name: str | None = "search", stage: Stage = Stage.TOOL) -> Failure:
    return Failure(stage=stage, code=code, message=f"{name} is down", endpoint=name)


ORDER = {FailureCode.OVERSIZE_REQUEST, FailureCode.GRADER_ERROR, FailureCode.INVALID_VARIABLE}


@pytest.mark.parametrize("code", list(FailureCode))
def test_every_code_has_one_remedy_and_only_endpoints_are_waited_for(code: FailureCode) -> None:
    ours = FAULTS[code] is Fault.PLATFORM
    wanted = FailureAction.REDO_ROUND if ours else FailureAction.FAIL_JOB if code in ORDER else FailureAction.WAIT
    assert action_for(failure(code)) is wanted


def test_a_hopeless_round_is_named_after_its_most_frequent_code_and_where_that_happened() -> None:
    failures = [
        failure(FailureCode.OVERSIZE_REQUEST),
        failure(FailureCode.OVERSIZE_REQUEST, "lookup"),
        failure(FailureCode.OVERSIZE_REQUEST),
        *[failure(FailureCode.GRADER_ERROR, "judge", Stage.GRADER)] * 2,
    ]
    unrecoverable = UnrecoverableRound(failures, rollouts=8)
    assert (unrecoverable.code, unrecoverable.failing.endpoint) == (FailureCode.OVERSIZE_REQUEST, "tool 'search'")
    assert "oversize_request" in str(unrecoverable)
    assert unrecoverable.failing.reason == "3 of 8 rollouts failed, for example: search is down"


def test_the_culprit_is_where_most_rollouts_failed() -> None:
    failures = [
        failure(FailureCode.TIMEOUT, "lookup"),
        failure(FailureCode.TIMEOUT),
        failure(FailureCode.SERVER_ERROR),
        failure(FailureCode.TIMEOUT, None, Stage.GRADER),
    ]
    failing = failing_endpoint_of(failures, rollouts=8)
    assert (failing.stage, failing.endpoint) == (Stage.TOOL, "tool 'search'")
    assert failing.reason == "4 of 8 rollouts failed, for example: search is down"
    assert failing_endpoint_of(failures[3:], rollouts=8).endpoint == "the grader"


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
