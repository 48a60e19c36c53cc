"""Sources are read and compiled before anybody depends on them, in a process of their own."""

import asyncio
import contextlib
from collections.abc import Generator

import psutil
import pytest

from rft.core.failure import Failure
from rft.core.grade import Grade
from rft.core.graders import PythonGrader
from rft.grader_gateway.builtin.python_code import PythonCode
from rft.grader_gateway.builtin.python_source import MAX_SOURCE_BYTES, source_problem
from rft.grader_gateway.builtin.source_check import BadSource, SourcesUnchecked, first_bad_source
from rft.grader_gateway.grader import close_grader
from tests.shared.finished import finished
from tests.shared.grader_sources import SOUND, nested
from tests.shared.waiting import until

SANE = "def grade(sample, item):\n    return 0.5\n"
ONLY_THE_COMPILER_TELLS = [
    (f"{SANE}return 1", "'return' outside function (line 3)"),
    (f"{SANE}await grade", "'await' outside function (line 3)"),
    ("def grade(sample, sample): return 1", "duplicate argument 'sample' in function definition (line 1)"),
    (f"nonlocal x\n{SANE}", "nonlocal declaration not allowed at module level (line 1)"),
    (f"{SANE}break", "'break' outside loop (line 3)"),
    (f"{SANE}def f():\n    x = 1\n    global x", "name 'x' is assigned to before global declaration (line 5)"),
    (f"{SANE}def f():\n    yield 1\n    [(yield) for _ in '']", "'yield' inside list comprehension (line 5)"),
    (f"from __future__ import braces\n{SANE}", "not a chance (line 1)"),
    (f"{SANE}class A:\n    def f(self):\n        nonlocal y", "no binding for nonlocal 'y' found (line 5)"),
    (f"{SANE}(x for x in y if (x := 1))", "assignment expression cannot rebind comprehension iteration variable 'x'"),
]


def checkers() -> set[psutil.Process]:
    """Processes below this one that check sources."""
    found: set[psutil.Process] = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any("sandbox.sources" in word for word in process.cmdline()):
                found.add(process)
    return found


@contextlib.contextmanager
def nothing_left() -> Generator[None]:
    yield
    assert not checkers()


@pytest.mark.parametrize(("source", "message"), ONLY_THE_COMPILER_TELLS)
async def test_what_only_the_compiler_tells_is_told_in_its_words_and_line(source: str, message: str) -> None:
    assert source_problem(source) is None, "its tree can be read"
    with nothing_left():
        bad = await first_bad_source([source])
    assert bad is not None
    assert bad.problem.startswith(f"is not Python: {message}")


async def test_a_check_and_a_grade_say_the_same_of_a_source() -> None:
    source, _ = ONLY_THE_COMPILER_TELLS[0]
    grader = PythonCode(PythonGrader(name="code", source=source), processes=1)
    try:
        failure = await grader.grade(finished("4"), item={}, trace_id="trace_1")
    finally:
        await close_grader(grader)
    bad = await first_bad_source([source])
    assert bad is not None
    assert isinstance(failure, Failure)
    assert failure.message == f"grader 'code' {bad.problem}"


async def test_every_sound_source_is_taken_in_one_go() -> None:
    with nothing_left():
        assert await first_bad_source(SOUND) is None
        assert await first_bad_source([]) is None


async def test_the_first_bad_source_is_the_one_that_is_told() -> None:
    assert await first_bad_source([SANE, "def grade(", f"{SANE}return 1"]) == BadSource(
        1, "not Python: '(' was never closed (line 1)"
    )
    missing = "import nothing_of_this_name\ndef grade(s, i): return 1"
    assert await first_bad_source([SANE, SANE, missing]) == BadSource(
        2, "it imports 'nothing_of_this_name', which is not installed here"
    )


@pytest.mark.parametrize("depth", [19, 90])
async def test_what_no_compiler_finishes_is_refused_within_its_limits(depth: int) -> None:
    with nothing_left():
        bad = await first_bad_source([SANE, nested(depth)])
    assert bad is not None
    assert bad.index == 1
    assert "compiled" in bad.problem


async def test_a_long_source_is_checked_whole() -> None:
    filled = "x = [" + "1, " * 40_000 + "]\n" + SANE
    assert len(filled) < MAX_SOURCE_BYTES
    assert await first_bad_source([filled]) is None
    assert await first_bad_source([f"{filled}return 1"]) == BadSource(
        0, "is not Python: 'return' outside function (line 4)"
    )


async def test_the_rest_of_the_house_goes_on_while_a_source_is_checked() -> None:
    checking = asyncio.ensure_future(first_bad_source([nested(19)]))
    await until(lambda: bool(checkers()), "the check's process", poll_s=0.005)
    assert not checking.done()
    assert await checking is not None


async def test_a_check_whose_process_is_lost_is_no_verdict_on_the_source() -> None:
    checking = asyncio.ensure_future(first_bad_source([nested(19)]))
    await until(lambda: bool(checkers()), "the check's process", poll_s=0.005)
    for process in checkers():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    with pytest.raises(SourcesUnchecked, match="its process has ended"):
        await checking
    assert await first_bad_source([SANE]) is None


async def test_what_passed_the_check_grades() -> None:
    source = "import re\ndef grade(sample, item):\n    return len(re.findall('.', sample['output_text']))"
    assert await first_bad_source([source]) is None
    grader = PythonCode(PythonGrader(name="code", source=source), processes=1)
    try:
        grade = await grader.grade(finished("four"), item={}, trace_id="trace_1")
    finally:
        await close_grader(grader)
    assert isinstance(grade, Grade)
    assert grade.reward == 4.0
