"""Waiting for the other loop ends at once when told to, and what ran there is taken down."""

import asyncio
import threading

import pytest

from rft.core.errors import RunAborted
from rft.trainer.loop_thread import LoopThread


def test_results_and_exceptions_come_through() -> None:
    loop_thread = LoopThread()

    async def answer() -> int:
        await asyncio.sleep(0)
        return 7

    async def fail() -> None:
        raise KeyError("x")

    assert loop_thread.call(answer()) == 7
    with pytest.raises(KeyError):
        loop_thread.call(fail())
    loop_thread.close()


def test_a_stop_interrupts_the_wait_and_cancels_the_work() -> None:
    loop_thread = LoopThread()
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
        loop_thread.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(RunAborted):
        loop_thread.call(work())
    stopper.join()
    with pytest.raises(RunAborted):
        loop_thread.check()
    with pytest.raises(RunAborted):
        loop_thread.call(work())
    last_done: list[bool] = []

    async def last() -> None:
        last_done.append(cancelled.is_set())

    loop_thread.finish(last())
    loop_thread.close()
    assert last_done == [True]


def test_what_the_work_left_in_the_background_lives_until_the_last_things_are_done() -> None:
    loop_thread = LoopThread()
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

    loop_thread.call(work())
    loop_thread.stop()
    loop_thread.finish(hear_out())
    loop_thread.close()
    assert told == ["last word"]
    assert left[1].cancelled()


def test_a_failure_known_to_another_thread_ends_the_wait_and_every_later_one() -> None:
    loop_thread, started = LoopThread(), threading.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    def fail() -> None:
        started.wait()
        loop_thread.fail(KeyError("first"))
        loop_thread.fail(KeyError("second"))

    failing = threading.Thread(target=fail)
    failing.start()
    with pytest.raises(KeyError, match="first"):
        loop_thread.call(work())
    failing.join()
    with pytest.raises(KeyError, match="first"):
        loop_thread.call(work())
    assert not loop_thread.is_stopped
    loop_thread.stop()
    with pytest.raises(RunAborted):
        loop_thread.check()
    loop_thread.close()


def test_a_stop_between_the_last_look_and_the_wait_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a signal's handler, which runs wherever the waiting thread is, under the lock that it has."""
    loop_thread = LoopThread()
    waited: list[float | None] = []
    wait = threading.Condition.wait

    def stopped_before(condition: threading.Condition, timeout: float | None = None) -> bool:
        if threading.current_thread() is threading.main_thread():
            waited.append(timeout)
            if len(waited) == 1:
                loop_thread.stop()
        return wait(condition, 5.0 if timeout is None else timeout)

    async def work() -> None:
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(threading.Condition, "wait", stopped_before)
        with pytest.raises(RunAborted):
            loop_thread.call(work())
    assert None not in waited, "nothing would have ended it"
    loop_thread.close()
