"""What is wrong with a python grader's source is told without running it."""

import sys
from importlib.machinery import PathFinder

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.graders import MultiGrader, PythonGrader
from rft.grader_gateway.build import refuse_bad_sources
from rft.grader_gateway.builtin.python_source import MAX_SOURCE_BYTES, glance_problem, source_problem
from tests.shared.grader_sources import SOUND, nested


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
    ("def grade(s, i): return " + "-" * 90_000 + "1", "not Python"),
    ("x = " + "+".join(["1"] * 40_000), "not Python"),
    ("lambda: (grade := 1)", "does not define `grade"),
    ("a;" * 130_000, "more than 100,000 words"),
    ("a" + "\u0301\u0316" * 30_000 + " = 1", "accents"),
    ("import nothing_of_this_name\ndef grade(s, i): return 1", "'nothing_of_this_name', which is not installed"),
    ("def grade(s, i):\n    from nothing_of_this_name.x import y\n    return 1", "is not installed here"),
    ("#" * (MAX_SOURCE_BYTES + 1), "longer than"),
    ("'\ud800'", "not Python"),
]


@pytest.mark.parametrize(("source", "message"), PROBLEMS)
def test_a_problem_is_told_in_words(source: str, message: str) -> None:
    problem = source_problem(source)
    assert problem is not None
    assert message in problem


@pytest.mark.parametrize("depth", [19, 60, 90])
def test_what_cannot_be_compiled_in_any_time_is_only_read(depth: int) -> None:
    assert source_problem(nested(depth)) is None


def test_a_package_of_the_contract_that_is_not_here_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in [name for name in sys.modules if name.partition(".")[0] == "sqlparse"]:
        monkeypatch.delitem(sys.modules, package)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [PathFinder])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    problem = source_problem("import sqlparse\ndef grade(s, i): return 1")
    assert problem == "it imports 'sqlparse', which is not installed here"


@given(st.text(max_size=200))
def test_any_text_is_sound_or_a_problem(source: str) -> None:
    assert source_problem(source) is None or source_problem(source)


@pytest.mark.parametrize("source", [*SOUND, "def \uff47\uff52\uff41\uff44\uff45(s, i): return 1"])
def test_what_is_sound_stands_up_to_a_glance(source: str) -> None:
    assert source_problem(source) is None
    assert glance_problem(source) is None


@given(st.text(max_size=200) | st.text(alphabet="grade=1\n", max_size=20))
def test_a_glance_refuses_nothing_that_would_be_taken(source: str) -> None:
    assert glance_problem(source) is None or source_problem(source) is not None


@pytest.mark.parametrize(
    ("source", "message"),
    [("x = 1", "does not define `grade"), ("#grade" + "#" * MAX_SOURCE_BYTES, "longer than 256 kB")],
)
def test_a_glance_sees_what_is_too_long_or_never_names_grade(source: str, message: str) -> None:
    assert message in (glance_problem(source) or "")


def test_a_run_does_not_begin_with_a_source_that_cannot_grade_here() -> None:
    good, bad = (
        PythonGrader(name="good", source=SOUND[0]),
        PythonGrader(name="bad", source="import nothing_of_this_name"),
    )
    refuse_bad_sources(good)
    refuse_bad_sources(MultiGrader(name="both", graders={"a": good}, calculate_output="a"))
    for spec in (bad, MultiGrader(name="both", graders={"a": good, "b": bad}, calculate_output="a + b")):
        with pytest.raises(ValueError, match="grader 'bad': it does not define"):
            refuse_bad_sources(spec)


def test_a_package_that_this_process_keeps_out_is_there_for_graders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlparse", None)
    assert source_problem("import sqlparse\ndef grade(s, i): return 1") is None
    monkeypatch.setitem(sys.modules, "nothing_of_this_name", None)
    problem = source_problem("import nothing_of_this_name\ndef grade(s, i): return 1")
    assert problem == "it imports 'nothing_of_this_name', which is not installed here"
