"""Tasks end when they are stopped, also those that lose a cancellation on the way."""

import asyncio

from rft.platform.store.stop_tasks import stop_tasks


async def loses(times: int) -> None:
    """As `asyncio.wait_for` of Python 3.11 does when what it waits for ends in the same moment."""
    for _ in range(times):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue
    await asyncio.Event().wait()


async def raises() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise ValueError("on the way out")


async def test_a_lost_cancellation_is_followed_by_another() -> None:
    tasks = [asyncio.create_task(loses(times)) for times in range(3)]
    await asyncio.sleep(0)
    await stop_tasks(*tasks)
    assert all(task.cancelled() for task in tasks)


async def test_what_has_ended_stays_what_it_was() -> None:
    done, broken = asyncio.create_task(asyncio.sleep(0, "done")), asyncio.create_task(raises())
    await done
    await stop_tasks(done, broken)
    assert done.result() == "done"
    assert isinstance(broken.exception(), ValueError)
