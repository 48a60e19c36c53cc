"""Deadlines that stand still while the run is held."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rft.rollouts.deadlines import Deadlines
from rft.testing.samplers_time import run_in_virtual_time


async def sleeps_through(deadlines: Deadlines, seconds: float, *, deadline_s: float) -> bool:
    """Whether a sleep ends before its deadline."""
    try:
        async with deadlines.within(deadline_s):
            await asyncio.sleep(seconds)
    except TimeoutError:
        return False
    return True


async def stand_still(deadlines: Deadlines, spells: Sequence[tuple[float, float]]) -> None:
    """Run and stand still in turns, for so many seconds each."""
    for running_s, still_s in spells:
        await asyncio.sleep(running_s)
        deadlines.stop()
        deadlines.stop()
        await asyncio.sleep(still_s)
        deadlines.go_on()
        deadlines.go_on()


SPELLS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), max_size=4)


@settings(deadline=None)
@given(SPELLS, st.integers(1, 40))
def test_only_time_that_runs_counts(spells: list[tuple[int, int]], deadline_s: int) -> None:
    """The rollout sleeps as long as the world stands and a bit less, or more, than its deadline beyond."""

    async def outcome(spare_s: float) -> bool:
        deadlines, work_s, running_s = Deadlines(), 0.0, 0.0
        for ran_s, still_s in spells:
            if running_s + ran_s >= deadline_s:
                break
            running_s, work_s = running_s + ran_s, work_s + ran_s + still_s
        work_s += deadline_s - running_s + spare_s
        world = asyncio.create_task(stand_still(deadlines, spells))
        try:
            return await sleeps_through(deadlines, work_s, deadline_s=deadline_s)
        finally:
            world.cancel()
            await asyncio.gather(world, return_exceptions=True)

    assert run_in_virtual_time(outcome(-0.5))
    assert not run_in_virtual_time(outcome(0.5))


def test_one_that_begins_while_they_stand_still_gets_its_whole_time() -> None:
    async def main() -> None:
        deadlines = Deadlines()
        deadlines.stop()
        late = asyncio.create_task(sleeps_through(deadlines, 109.0, deadline_s=10.0))
        too_late = asyncio.create_task(sleeps_through(deadlines, 111.0, deadline_s=10.0))
        await asyncio.sleep(100.0)
        deadlines.go_on()
        assert (await late, await too_late) == (True, False)

    run_in_virtual_time(main())


def test_a_deadline_that_struck_is_not_moved_any_more() -> None:
    async def main() -> None:
        deadlines = Deadlines()

        async def stubborn() -> None:
            try:
                await asyncio.sleep(100.0)
            except asyncio.CancelledError:
                deadlines.stop()
                deadlines.go_on()
                raise

        with pytest.raises(TimeoutError):
            async with deadlines.within(5.0):
                await stubborn()

    run_in_virtual_time(main())
