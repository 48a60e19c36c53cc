"""What is closed in the end of a cancelled work is closed to its end, in seconds."""

import asyncio

import pytest

from rft.egress.finish_closing import finish_closing


async def test_however_often_the_work_is_cancelled_it_is_closed_and_knows_that_it_must_hurry() -> None:
    closing, go_on, closed = asyncio.Event(), asyncio.Event(), list[bool]()

    async def close(hurry: asyncio.Event) -> None:
        closing.set()
        await go_on.wait()
        closed.append(hurry.is_set())

    work = asyncio.create_task(finish_closing(close))
    await closing.wait()
    for _ in range(3):
        work.cancel()
        await asyncio.sleep(0)
    assert not work.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert closed == [True]


async def test_work_that_was_cancelled_before_hurries_from_the_beginning() -> None:
    hurried = list[bool]()

    async def close(hurry: asyncio.Event) -> None:
        hurried.append(hurry.is_set())

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await finish_closing(close)

    cancelled = asyncio.create_task(work())
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    await finish_closing(close)
    assert hurried == [True, False]


async def test_what_breaks_in_the_closing_is_raised() -> None:
    async def close(hurry: asyncio.Event) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await finish_closing(close)
