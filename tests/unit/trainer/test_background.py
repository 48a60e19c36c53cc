"""Waiting for the other loop ends at once when told to, and what ran there is taken down."""

import asyncio
import threading

import pytest

from rft.core.errors import RunAborted
from rft.trainer.background import Background


def test_results_and_exceptions_come_through() -> None:
    background = Background()

    async def answer() -> int:
        await asyncio.sleep(0)
        return 7

    async def fail() -> None:
        raise KeyError("x")

    assert background.call(answer()) == 7
    with pytest.raises(KeyError):
        background.call(fail())
    background.close()


def test_a_stop_interrupts_the_wait_and_cancels_the_work() -> None:
    background = Background()
    started, cancelled = threading.Event(), threading.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def stop() -> None:
        started.wait()
        background.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(RunAborted):
        background.call(work())
    stopper.join()
    with pytest.raises(RunAborted):
        background.check()
    with pytest.raises(RunAborted):
        background.call(work())
    last_done: list[bool] = []

    async def last() -> None:
        last_done.append(cancelled.is_set())

    background.finish(last())
    background.close()
    assert last_done == [True]


def test_what_the_work_left_in_the_background_lives_until_the_last_things_are_done() -> None:
    background = Background()
    left: list[asyncio.Task[None]] = []
    told: list[str] = []

    async def last_word() -> None:
        await asyncio.sleep(0.01)
        told.append("last word")

    async def for_ever() -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        left.extend([asyncio.create_task(last_word()), asyncio.create_task(for_ever())])

    async def hear_out() -> None:
        await left[0]

    background.call(work())
    background.stop()
    background.finish(hear_out())
    background.close()
    assert told == ["last word"]
    assert left[1].cancelled()
