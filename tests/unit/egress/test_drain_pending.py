"""What is still to be told when a run is over: waited for as long as somebody listens; in virtual time."""

import asyncio
from collections.abc import Sequence

import pytest

from rft.egress.drain_pending import DRAIN_S, QUIET_S, drain_pending
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock

FOR_EVER_S = 1e6


@pytest.mark.parametrize(
    ("takes_s", "late", "over_s"),
    [
        ([], 0, 0.0),
        ([1.0, 30.0], 0, 30.0),
        ([600.0, 1200.0, 1800.0, 2400.0], 0, 2400.0),
        ([FOR_EVER_S] * 3, 3, QUIET_S + DRAIN_S),
        ([600.0, FOR_EVER_S], 1, 2 * QUIET_S + DRAIN_S),
    ],
)
def test_what_goes_on_ending_is_waited_for_and_nothing_else(takes_s: Sequence[float], late: int, over_s: float) -> None:
    async def main() -> tuple[int, float]:
        tasks = [asyncio.create_task(asyncio.sleep(seconds)) for seconds in takes_s]
        return await drain_pending(tasks), virtual_clock()

    assert run_in_virtual_time(main()) == (late, pytest.approx(over_s))


def test_in_a_hurry_there_are_seconds_left() -> None:
    async def main() -> tuple[int, float]:
        hurry = asyncio.Event()
        asyncio.get_running_loop().call_later(20.0, hurry.set)
        return await drain_pending([asyncio.create_task(asyncio.sleep(FOR_EVER_S))], hurry), virtual_clock()

    assert run_in_virtual_time(main()) == (1, pytest.approx(20.0 + DRAIN_S))
