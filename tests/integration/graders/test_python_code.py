"""Python graders in their sandbox: hostile ones are contained, honest ones say what CPython says."""

import asyncio
import contextlib
import copy
import gc
import io
import signal
import sys
import time
import types
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar, cast

import psutil
import pytest

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode, Fault, Stage
from rft.core.grade import Grade
from rft.core.graders import PythonGrader
from rft.grader_gateway.builtin.python_code import PythonCode
from rft.grader_gateway.builtin.sandbox.pool import AT_ONCE
from rft.grader_gateway.contract import to_sample
from rft.grader_gateway.grader import close_grader
from rft.rollouts.failure_actions import FailureAction, action_for
from tests.integration.graders import honest, hostile
from tests.shared.finished import finished
from tests.shared.waiting import until

T = TypeVar("T")
R = TypeVar("R")

TOGETHER = 4
MEMORY_BYTES = 700 * 1024**2
BEFORE_ANY_GRADE = {
    "never ends before the grade",
    "says in its first breath that this machine refuses it",
    *(one.name for one in hostile.COMPILER),
}
SERVERS = {"postgres", "valkey-server"}
SANE = "def grade(sample, item):\n    return 0.5"


@asynccontextmanager
async def opened(source: str, *, timeout_s: float = 120.0, has_file_rules: bool = True) -> AsyncGenerator[PythonCode]:
    spec = PythonGrader(name="code", source=source, timeout_s=timeout_s)
    grader = PythonCode(spec, memory_bytes=MEMORY_BYTES, processes=1, has_file_rules=has_file_rules)
    try:
        yield grader
    finally:
        await close_grader(grader)


async def judged(grader: PythonCode, *, answer: str = "4", item: JsonObject | None = None) -> Grade | Failure:
    return await grader.grade(finished(answer), item=item or {}, trace_id="trace_1")


async def all_of(judge: Callable[[T], Awaitable[R]], things: list[T]) -> list[R]:
    gate = asyncio.Semaphore(TOGETHER)

    async def one(thing: T) -> R:
        async with gate:
            return await judge(thing)

    return await asyncio.gather(*(one(thing) for thing in things))


def children(*, recursive: bool = True) -> set[psutil.Process]:
    """All processes below this one, but those of the servers that other tests left running: theirs come and go."""
    found: set[psutil.Process] = set()
    for process in psutil.Process().children(recursive=recursive):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() not in SERVERS:
                found.add(process)
    return found


def is_contained(verdict: Grade | Failure, message: str) -> bool:
    """The grade is the contract's, and says why; what cannot be compiled is no grade at all."""
    if isinstance(verdict, Failure):
        return verdict.code is FailureCode.GRADER_ERROR and message in verdict.message
    details = verdict.error_details or ""
    return (verdict.reward, verdict.is_invalid, verdict.model_errors) == (
        0.0,
        True,
        ("python_grader_runtime_error",),
    ) and (message in details and len(details) <= 2_500)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def until_a_grade_runs(before: set[psutil.Process]) -> None:
    """The sandbox, the process that it forked for a row, and the grade."""
    await until(lambda: len(children() - before) >= 3, "the grade's process", poll_s=0.005)


@pytest.mark.slow
async def test_hostile_graders_are_contained_and_leave_nothing_behind() -> None:
    before = children()

    async def contain(one: hostile.Hostile) -> tuple[str, Grade | Failure, Grade | Failure | None]:
        timeout_s = 3.0 if one.contained_by == "took longer than" else 120.0
        async with opened(one.source, timeout_s=timeout_s) as grader:
            verdict = await judged(grader)
            if one.name in BEFORE_ANY_GRADE:
                return one.name, verdict, None
            return one.name, verdict, await judged(grader, item={"is_honest": True})

    wrong: list[str] = []
    for one, (name, verdict, after) in zip(hostile.ALL, await all_of(contain, hostile.ALL), strict=True):
        if not is_contained(verdict, one.contained_by):
            wrong.append(f"{name}: {verdict!r}")
        elif after is not None and not (isinstance(after, Grade) and after.reward == 0.5):
            wrong.append(f"{name}, asked honestly afterwards: {after!r}")
    assert not wrong, "\n".join(wrong)
    assert len(hostile.ALL) > 90
    assert children() <= before


def in_process(source: str) -> float:
    module = types.ModuleType("grader")
    item, sample = copy.deepcopy(honest.ITEM), to_sample(finished(honest.ANSWER))
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        with patched_modules(module):
            exec(compile(source, "<grader>", "exec", dont_inherit=True), module.__dict__)
            return float(cast("float", module.grade(sample, item)))


@contextlib.contextmanager
def patched_modules(module: types.ModuleType) -> Generator[None]:
    """Dataclasses look their module up by its name."""
    sys.modules["grader"] = module
    try:
        yield
    finally:
        del sys.modules["grader"]


@pytest.mark.slow
async def test_honest_graders_give_what_cpython_gives() -> None:
    sources = list(honest.sources())
    expected = [in_process(source) for source in sources]

    async def judge(source: str) -> Grade | Failure:
        async with opened(source) as grader:
            return await judged(grader, answer=honest.ANSWER, item=honest.ITEM)

    wrong = [
        f"{source}\nis {verdict!r}\nnot {value!r}"
        for source, value, verdict in zip(sources, expected, await all_of(judge, sources), strict=True)
        if not isinstance(verdict, Grade) or verdict.reward != value
    ]
    assert not wrong, "\n\n".join(wrong)
    assert len(sources) >= 200


async def test_a_grade_has_the_graders_name_and_raw_score() -> None:
    async with opened(
        "def grade(sample, item):\n    return sample['output_text'] == item['answer']  * 1 or 3"
    ) as grader:
        grade = await judged(grader, answer="no", item={"answer": "yes"})
    assert isinstance(grade, Grade)
    assert (grade.reward, grade.scores, grade.grader) == (3.0, {"code": 3.0}, "code")


async def test_what_the_code_raises_is_the_contracts_grade_with_its_line_and_traceback() -> None:
    source = "def half(x):\n    return x / 0\n\ndef grade(sample, item):\n    return half(1)"
    async with opened(source) as grader:
        grade = await judged(grader)
    assert isinstance(grade, Grade)
    assert (grade.reward, grade.scores, grade.is_invalid) == (0.0, {"code": 0.0}, True)
    assert grade.model_errors == ("python_grader_runtime_error",)
    first, *rest = (grade.error_details or "").splitlines()
    assert first == "grader 'code' raised ZeroDivisionError: division by zero (line 2)"
    assert [line.strip(" ~^") for line in rest if line.strip(" ~^")] == [
        "Traceback (most recent call last):",
        'File "<grader>", line 5, in grade',
        "return half(1)",
        'File "<grader>", line 2, in half',
        "return x / 0",
        "ZeroDivisionError: division by zero",
    ]


async def test_the_invalid_grade_takes_the_place_of_zero() -> None:
    spec = PythonGrader(name="code", source="def grade(sample, item):\n    return None", invalid_grade=-0.5)
    grader = PythonCode(spec, processes=1)
    try:
        grade = await judged(grader)
    finally:
        await close_grader(grader)
    assert isinstance(grade, Grade)
    assert (grade.reward, grade.error_details) == (-0.5, "grader 'code' returned nothing (None), not a number")


@pytest.mark.parametrize("value", ["1e154", "-1.1e15", "10 ** 400", "__import__('decimal').Decimal('1e999')"])
async def test_a_number_beyond_all_scores_is_no_zero_but_a_failure(value: str) -> None:
    async with opened(f"def grade(sample, item):\n    return {value}") as grader:
        failure = await judged(grader)
    assert isinstance(failure, Failure)
    assert (failure.stage, failure.code, failure.endpoint) == (Stage.GRADER, FailureCode.INVALID_SCORE, "code")
    assert "which lies beyond 1e+15" in failure.message
    assert action_for(failure) is FailureAction.FAIL_JOB


async def test_errors_do_not_show_the_paths_of_this_machine() -> None:
    source = "import json\ndef grade(sample, item):\n    from json import nothing\n    return json.loads('{')"
    for text in (source, source.replace("from json import nothing", "pass")):
        async with opened(text) as grader:
            grade = await judged(grader)
        assert isinstance(grade, Grade)
        details = grade.error_details or ""
        assert "cannot import name 'nothing'" in details or "<python>/json/decoder.py" in details
        assert sys.prefix not in details
        assert sys.base_prefix not in details


async def test_details_can_be_stored_and_are_short_whatever_was_raised() -> None:
    source = "def grade(sample, item):\n    raise ValueError('\\x00\\ud800\\x1b[2J' + 'x' * 10**6)"
    async with opened(source) as grader:
        grade = await judged(grader)
    assert isinstance(grade, Grade)
    details = grade.error_details or ""
    assert len(details) < 2_500
    assert details.encode()
    assert not {"\x00", "\x1b"} & set(details)


async def test_what_one_grade_does_is_forgotten_before_the_next() -> None:
    source = "seen = []\ndef grade(sample, item):\n    seen.append(1)\n    return len(seen)"
    async with opened(source) as grader:
        grades = [await judged(grader) for _ in range(3)]
    assert [grade.reward for grade in grades if isinstance(grade, Grade)] == [1.0, 1.0, 1.0]


async def test_text_of_any_kind_reaches_the_grader() -> None:
    answer = 'line\nline\u2028 "quoted" \x00 😀 \ud800'
    async with opened(
        "def grade(sample, item):\n    return sample['output_text'] == item['x']['y'][0] and 1.0"
    ) as grader:
        grade = await judged(grader, answer=answer, item={"x": {"y": [answer]}})
    assert isinstance(grade, Grade), grade
    assert grade.reward == 1.0


async def test_a_large_row_reaches_the_grader() -> None:
    async with opened("def grade(sample, item):\n    return len(item['text'])") as grader:
        grade = await judged(grader, item={"text": "x" * 5_000_000})
    assert isinstance(grade, Grade)
    assert grade.reward == 5_000_000


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


async def test_what_cannot_be_compiled_is_tried_once_and_is_the_graders_fault() -> None:
    before = children()
    async with opened(hostile.COMPILER[2].source) as grader:
        failures = [await judged(grader) for _ in range(3)]
        assert children() <= before
    messages = {failure.message for failure in failures if isinstance(failure, Failure)}
    assert messages == {"grader 'code' is not Python: 'return' outside function (line 2)"}


async def test_a_source_that_names_characters_is_compiled_where_no_file_can_be_opened() -> None:
    async with opened("def grade(sample, item):\n    return ord('\\N{DIGIT ONE}')", has_file_rules=False) as grader:
        grade = await judged(grader)
    assert isinstance(grade, Grade), grade
    assert grade.reward == 49.0


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


async def test_a_machine_that_cannot_hold_the_code_refuses_it_and_the_fault_is_ours() -> None:
    grader = PythonCode(PythonGrader(name="code", source=SANE), memory_bytes=2**80, processes=1)
    failure = await judged(grader)
    await close_grader(grader)
    assert isinstance(failure, Failure)
    assert (failure.code, failure.fault) == (FailureCode.INTERNAL_ERROR, Fault.PLATFORM)
    assert "cannot be held safely" in failure.message


async def test_without_the_kernels_file_rules_files_stay_shut() -> None:
    async def contain(one: hostile.Hostile) -> Grade | Failure:
        async with opened(one.source, has_file_rules=False) as grader:
            return await judged(grader)

    verdicts = await all_of(contain, hostile.FILES)
    assert all(isinstance(verdict, Grade) and verdict.is_invalid for verdict in verdicts)


async def test_without_the_kernels_file_rules_no_file_can_be_opened_at_all() -> None:
    async with opened("def grade(sample, item):\n    import json\n    return open(json.__file__).read(1) == '' or 1",
                      has_file_rules=False) as grader:  # fmt: skip
        verdict = await judged(grader)
    assert is_contained(verdict, "PermissionError")
    async with opened("import re\ndef grade(sample, item):\n    return len(re.findall('.', 'abc'))",
                      has_file_rules=False) as grader:  # fmt: skip
        grade = await judged(grader)
    assert isinstance(grade, Grade)
    assert grade.reward == 3.0


async def test_yes_and_no_are_one_and_zero_whoever_says_them() -> None:
    async with opened("import numpy as np\ndef grade(sample, item):\n    return eval(item['x'])") as grader:
        grades = [
            await judged(grader, item={"x": x}) for x in ("True", "False", "np.bool_(True)", "np.float32(0.5) > 1")
        ]
    assert [grade.reward for grade in grades if isinstance(grade, Grade)] == [1.0, 0.0, 1.0, 0.0]


async def test_a_program_among_the_imports_is_not_run_ahead_and_its_end_is_the_sources_affair() -> None:
    async with opened("import numpy.f2py.__main__\ndef grade(sample, item):\n    return 1") as grader:
        verdict = await judged(grader)
    assert is_contained(verdict, "raised SystemExit")


async def test_a_package_that_is_imported_late_works_all_the_same() -> None:
    source = "def grade(sample, item):\n    return float(__import__('numpy').linalg.norm([3, 4]))"
    async with opened(source) as grader:
        grade = await judged(grader)
    assert isinstance(grade, Grade), grade
    assert grade.reward == 5.0


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
    until = time.process_time() + 0.4
    while time.process_time() < until: pass
    return 0.5
"""


async def test_a_machine_that_is_busy_costs_no_answer_its_score() -> None:
    before = children()
    [processor, *_] = psutil.Process().cpu_affinity()
    async with opened(COMPUTES, timeout_s=1.0) as grader, AsyncExitStack() as stack:
        await judged(grader)
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
    async with opened(COMPUTES, timeout_s=1.0) as grader:
        await judged(grader)
        judging = asyncio.ensure_future(judged(grader))
        process = await grade_process(before)
        process.suspend()
        await asyncio.sleep(2.0)
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
