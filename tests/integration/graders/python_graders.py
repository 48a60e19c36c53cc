"""Python graders in their sandbox, and which processes they have, for tests of both."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import psutil

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode
from rft.core.grade import Grade
from rft.core.graders import PythonGrader
from rft.grader_gateway.builtin.python_code import PythonCode
from rft.grader_gateway.grader import close_grader
from tests.integration.graders import hostile
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
