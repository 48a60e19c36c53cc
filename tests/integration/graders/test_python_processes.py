"""Processes of python graders: how many there are, how they end, and what their end or a busy machine costs."""

import asyncio
import contextlib
import gc
import signal
import sys
import time
from contextlib import AsyncExitStack

import psutil
import pytest

from rft.core.failure import Failure, FailureCode, Fault
from rft.core.grade import Grade
from rft.core.graders import PythonGrader
from rft.grader_gateway.builtin.python_code import PythonCode
from rft.grader_gateway.builtin.sandbox.pool import AT_ONCE
from rft.grader_gateway.grader import close_grader
from tests.integration.graders.python_graders import (
    SANE,
    children,
    is_contained,
    is_running,
    judged,
    opened,
    until_a_grade_runs,
)
from tests.shared.waiting import until


async def test_its_processes_are_started_once() -> None:
    before = children()
    async with opened(SANE) as grader:
        await judged(grader)
        first = children() - before
        for _ in range(5):
            await judged(grader)
        assert children() - before == first
        assert len(first) == 1
    assert children() <= before


async def test_a_lost_process_is_replaced_unseen() -> None:
    before = children()
    async with opened(SANE) as grader:
        await judged(grader)
        [process] = children() - before
        process.kill()
        assert isinstance(await judged(grader), Grade)
        assert process not in children()


async def test_a_cancelled_grade_ends_its_process() -> None:
    before = children()
    async with opened("def grade(sample, item):\n    while item: pass\n    return 0.5", timeout_s=120) as grader:
        await judged(grader)
        endless = asyncio.ensure_future(judged(grader, item={"is_endless": True}))
        await until_a_grade_runs(before)
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless
        assert isinstance(await judged(grader), Grade)


async def test_a_closed_grader_ends_a_grade_under_way() -> None:
    before = children()
    async with opened("def grade(sample, item):\n    while True: pass", timeout_s=120) as grader:
        endless = asyncio.ensure_future(judged(grader))
        await until_a_grade_runs(before)
        await close_grader(grader)
        assert isinstance(await endless, Failure)
    assert children() <= before


async def test_a_grader_that_nobody_closed_takes_its_process_along() -> None:
    before = children()
    grader = PythonCode(PythonGrader(name="code", source=SANE), processes=1)
    await judged(grader)
    del grader
    # The thread that graded may still have it in hand.
    await until(lambda: gc.collect() >= 0 and children() <= before, "the process to go", poll_s=0.005)


async def test_many_rollouts_are_graded_at_once() -> None:
    async with opened("def grade(sample, item):\n    return item['n']") as grader:
        grades = await asyncio.gather(*(judged(grader, item={"n": n}) for n in range(100)))
    assert [grade.reward for grade in grades if isinstance(grade, Grade)] == [float(n) for n in range(100)]


async def test_graders_together_take_no_more_than_their_slots_and_all_get_one() -> None:
    before = children()
    source = "import time\ndef grade(sample, item):\n    time.sleep(item['s'])\n    return 1"
    async with AsyncExitStack() as stack:
        graders = [await stack.enter_async_context(opened(source)) for _ in range(AT_ONCE + 2)]
        endless = [asyncio.ensure_future(judged(grader, item={"s": 3600})) for grader in graders[:AT_ONCE]]
        # One below us for each sandbox; what these start below them comes and goes.
        await until(lambda: len(children(recursive=False) - before) == AT_ONCE, "all slots to be taken", poll_s=0.01)
        waiting = [asyncio.ensure_future(judged(grader, item={"s": 0})) for grader in graders[AT_ONCE:]]
        waiting[0].cancel()
        await close_grader(graders[AT_ONCE])
        assert not waiting[1].done()
        assert len(children(recursive=False) - before) == AT_ONCE
        for grade in endless:
            grade.cancel()
        assert isinstance(await waiting[1], Grade)
    assert children() <= before


async def test_a_sandbox_ends_with_the_process_that_started_it() -> None:
    before = children()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST_THAT_DIES, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    pid = int(await process.stdout.readline())
    assert await process.wait() == -signal.SIGKILL
    await until(lambda: not is_running(pid), "the end of the sandbox", poll_s=0.005)
    assert children() <= before


HOST_THAT_DIES = """
import os, signal, threading, time
from rft.grader_gateway.builtin.sandbox.process import SandboxProcess, SandboxSetup

sandbox = SandboxProcess(SandboxSetup("def grade(sample, item):\\n    while True: pass", 100.0, 2**30))
sandbox.start()
threading.Thread(target=sandbox.grade, args=({"sample": {}, "item": {}},), daemon=True).start()
children = f"/proc/{sandbox.pid}/task/{sandbox.pid}/children"
while not (found := open(children).read().split()):
    time.sleep(0.005)
print(found[0], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def grades_under_way(before: set[psutil.Process]) -> list[psutil.Process]:
    """The processes that sandboxes forked: one tries the compiler before the first grade."""
    found: list[psutil.Process] = []
    for sandbox in children(recursive=False) - before:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [process for process in sandbox.children(recursive=True) if not process.children()]
    return found


async def grade_process(before: set[psutil.Process]) -> psutil.Process:
    """The process of the one grade under way, of a sandbox that graded before."""
    await until_a_grade_runs(before)
    [grade] = grades_under_way(before)
    return grade


async def test_a_grade_that_is_killed_from_outside_again_and_again_is_our_failure() -> None:
    before = children()
    async with opened("def grade(sample, item):\n    while item: pass\n    return 0.5") as grader:
        judging = asyncio.ensure_future(judged(grader, item={"is_endless": True}))
        while not judging.done():
            for process in grades_under_way(before):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            await asyncio.sleep(0.01)
        failure = await judging
    assert isinstance(failure, Failure)
    assert (failure.code, failure.fault) == (FailureCode.INTERNAL_ERROR, Fault.PLATFORM)
    assert "was killed from outside (SIGKILL)" in failure.message


@pytest.mark.parametrize("signal_", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
async def test_a_signal_from_outside_costs_no_answer_its_score(signal_: signal.Signals) -> None:
    before = children()
    source = "import time\ndef grade(sample, item):\n    time.sleep(item['s'])\n    return 0.5"
    async with opened(source) as grader:
        await judged(grader, item={"s": 0})
        # So long that no busy machine finds it over before the signal.
        judging = asyncio.ensure_future(judged(grader, item={"s": 2}))
        (await grade_process(before)).send_signal(signal_)
        grade = await judging
    assert isinstance(grade, Grade), grade
    assert grade.reward == 0.5


BUSY = "import os\nos.sched_setaffinity(0, {%d})\nprint(flush=True)\nwhile True: pass"
COMPUTES = """
import time
def grade(sample, item):
    until = time.process_time() + item.get("s", %s)
    while time.process_time() < until: pass
    return 0.5
"""


async def test_a_machine_that_is_busy_costs_no_answer_its_score() -> None:
    before = children()
    [processor, *_] = psutil.Process().cpu_affinity()
    async with opened(COMPUTES % 0.4, timeout_s=1.0) as grader, AsyncExitStack() as stack:
        await judged(grader, item={"s": 0})
        [sandbox] = children(recursive=False) - before
        sandbox.cpu_affinity([processor])
        for _ in range(8):
            # In sessions of their own: some kernels share processors out by session first.
            busy = await asyncio.create_subprocess_exec(
                sys.executable, "-c", BUSY % processor, stdout=asyncio.subprocess.PIPE, start_new_session=True
            )
            stack.push_async_callback(busy.wait)
            stack.callback(busy.kill)
            assert busy.stdout is not None
            await busy.stdout.readline()
        started_s = time.monotonic()
        grade = await judged(grader)
        assert time.monotonic() - started_s > 1.0, "it was busy enough"
    assert isinstance(grade, Grade), grade
    assert grade.reward == 0.5


async def test_a_grade_that_is_stopped_from_outside_has_all_its_time_when_it_goes_on() -> None:
    before = children()
    # So long that no busy machine finds it over before it is stopped.
    async with opened(COMPUTES % 2, timeout_s=4.0) as grader:
        await judged(grader, item={"s": 0})
        judging = asyncio.ensure_future(judged(grader))
        process = await grade_process(before)
        process.suspend()
        await asyncio.sleep(4.0)
        process.resume()
        grade = await judging
    assert isinstance(grade, Grade), grade


@pytest.mark.parametrize("source", ["while True: pass", "import time; time.sleep(60)", "import signal; signal.pause()"])
async def test_what_computes_or_sleeps_for_too_long_is_ended_in_time(source: str) -> None:
    async with opened(f"def grade(sample, item):\n    {source}", timeout_s=1.0) as grader:
        await judged(grader)
        started_s = time.monotonic()
        verdict = await judged(grader)
        assert is_contained(verdict, "took longer than 1 s")
        assert time.monotonic() - started_s < 30.0
