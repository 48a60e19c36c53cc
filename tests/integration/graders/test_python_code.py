"""Python graders in their sandbox: hostile ones are contained, honest ones say what CPython says."""

import contextlib
import copy
import io
import sys
import types
import warnings
from collections.abc import Generator
from typing import cast

import pytest

from rft.core.failure import Failure, FailureCode, Fault, Stage
from rft.core.grade import Grade
from rft.core.graders import PythonGrader
from rft.grader_gateway.builtin.python_code import PythonCode
from rft.grader_gateway.contract import to_sample
from rft.grader_gateway.grader import close_grader
from rft.rollouts.failure_actions import FailureAction, action_for
from tests.integration.graders import honest, hostile
from tests.integration.graders.python_graders import (
    BEFORE_ANY_GRADE,
    SANE,
    all_of,
    children,
    is_contained,
    judged,
    opened,
)
from tests.shared.finished import finished


@pytest.mark.slow
async def test_hostile_graders_are_contained_and_leave_nothing_behind() -> None:
    before = children()

    async def contain(one: hostile.Hostile) -> tuple[str, Grade | Failure, Grade | Failure | None]:
        timeout_s = 1.0 if one.contained_by == "took longer than" else 120.0
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


def in_process(source: str, case: int) -> float:
    module = types.ModuleType("grader")
    item, sample = copy.deepcopy(honest.ITEM) | {"case": case}, to_sample(finished(honest.ANSWER))
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

    async def judge(one: tuple[str, int]) -> list[Grade | Failure]:
        source, cases = one
        async with opened(source) as grader:
            return [
                await judged(grader, answer=honest.ANSWER, item=honest.ITEM | {"case": case}) for case in range(cases)
            ]

    wrong = [
        f"{source}\ncase {case} is {verdict!r}\nnot {value!r}"
        for (source, _), verdicts in zip(sources, await all_of(judge, sources), strict=True)
        for case, verdict in enumerate(verdicts)
        if (value := in_process(source, case)) != (verdict.reward if isinstance(verdict, Grade) else None)
    ]
    assert not wrong, "\n\n".join(wrong)
    assert sum(cases for _, cases in sources) >= 200


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
