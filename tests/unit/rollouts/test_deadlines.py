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


async def waits_and_works(
    deadlines: Deadlines, place: asyncio.Semaphore, before_s: float, with_place_s: float, *, deadline_s: float
) -> bool:
    """Whether work, a wait in the queue and work with a place end before their deadline."""
    try:
        async with deadlines.within(deadline_s) as deadline:
            await asyncio.sleep(before_s)
            with deadlines.queued(deadline, limit_s=2 * deadline_s):
                await place.acquire()
            try:
                await asyncio.sleep(with_place_s)
            finally:
                place.release()
    except TimeoutError:
        return False
    return True


WORK = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=8)


@settings(deadline=None, max_examples=60)
@given(WORK, st.integers(1, 3), st.integers(5, 30), SPELLS)
def test_the_queue_costs_nobody_anything_held_or_not(
    work: list[tuple[int, int]], places: int, deadline_s: int, spells: list[tuple[int, int]]
) -> None:
    """Who works for less than the deadline makes it, however many go before; who works longer does not."""

    async def main() -> list[bool]:
        deadlines, place = Deadlines(), asyncio.Semaphore(places)
        world = asyncio.create_task(stand_still(deadlines, spells))
        made_it = await asyncio.gather(
            *(
                waits_and_works(deadlines, place, before_s + 0.25, with_place_s, deadline_s=deadline_s + 0.5)
                for before_s, with_place_s in work
            )
        )
        world.cancel()
        await asyncio.gather(world, return_exceptions=True)
        return made_it

    made_it = run_in_virtual_time(main())
    for (before_s, with_place_s), is_made in zip(work, made_it, strict=True):
        if before_s + with_place_s <= deadline_s:
            assert is_made
        elif not spells:
            assert not is_made


def test_a_queue_that_hangs_is_noticed_once_nobody_left_it_for_twice_as_long_as_a_rollout_may_take() -> None:
    async def main() -> None:
        deadlines, place = Deadlines(), asyncio.Semaphore(1)
        clock = asyncio.get_running_loop().time
        quick = [waits_and_works(deadlines, place, 0.0, 8.0, deadline_s=10.0) for _ in range(3)]
        assert await asyncio.gather(*quick) == [True] * 3
        await place.acquire()  # From second 24 on nobody gets in.

        async def seconds_until_struck(after_s: float) -> float:
            await asyncio.sleep(after_s)
            begun_s = clock()
            assert not await waits_and_works(deadlines, place, 0.0, 1.0, deadline_s=10.0)
            return clock() - begun_s

        assert await asyncio.gather(*map(seconds_until_struck, (0.0, 4.0, 22.0))) == [20.0, 16.0, 20.0]

    run_in_virtual_time(main())


def test_a_queue_is_not_taken_for_hung_while_the_run_is_held() -> None:
    async def main() -> None:
        deadlines, place = Deadlines(), asyncio.Semaphore(0)
        waiting = asyncio.create_task(waits_and_works(deadlines, place, 0.0, 1.0, deadline_s=10.0))
        await asyncio.sleep(5.0)
        deadlines.stop()
        await asyncio.sleep(100.0)
        deadlines.go_on()
        await asyncio.sleep(19.0)
        place.release()
        assert await waiting

    run_in_virtual_time(main())
