"""What is wrong with a python grader's source is told without running it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.graders import PythonGrader
from rft.grader_gateway.builtin.python_code import MAX_SOURCE_BYTES, PythonCode, source_problem

SOUND = [
    "def grade(sample, item):\n    return 1.0",
    "grade = lambda sample, item: 1.0",
    "from math import pow as grade",
    "try:\n    def grade(s, i): return 1\nexcept ValueError:\n    pass",
    "class Judge:\n    def __call__(self, s, i): return 1\ngrade = Judge()",
    "import re\nBAD = '\\d'\ndef grade(s, i): return 1",
    "raise SystemExit('never run')\ndef grade(s, i): return 1",
]


@pytest.mark.parametrize("source", SOUND)
def test_source_that_defines_grade_is_sound(source: str) -> None:
    assert source_problem(source) is None


PROBLEMS = [
    ("", "does not define `grade"),
    ("def score(sample, item): return 1", "does not define `grade"),
    ("def outer():\n    def grade(s, i): return 1", "does not define `grade"),
    ("print(grade)", "does not define `grade"),
    ("def grade(sample, item)\n    return 1", "not Python"),
    ("def grade(s, i):\n\treturn 1\n        return 2", "not Python"),
    ("\x00", "not Python"),
    ("def grade(s, i): return " + "(" * 10_000, "not Python"),
    ("def grade(s, i): return " + "-" * 100_000 + "1", "not Python"),
    ("x = " + "+".join(["1"] * 60_000), "not Python"),
    ("#" * (MAX_SOURCE_BYTES + 1), "longer than"),
    ("'\ud800'", "not Python"),
]


@pytest.mark.parametrize(("source", "words"), PROBLEMS)
def test_a_problem_is_told_in_words(source: str, words: str) -> None:
    problem = source_problem(source)
    assert problem is not None
    assert words in problem


@given(st.text(max_size=200))
def test_any_text_is_sound_or_a_problem(source: str) -> None:
    assert source_problem(source) is None or source_problem(source)


def test_a_grader_with_a_problem_is_not_opened() -> None:
    with pytest.raises(ValueError, match="does not define"):
        PythonCode(PythonGrader(name="code", source="x = 1"))
