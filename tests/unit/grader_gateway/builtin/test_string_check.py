"""`string_check`: 1 or 0, and no score at all where its author named what no row has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.failure import Failure, FailureCode, Fault, Stage
from rft.core.grade import Grade
from rft.core.graders import StringCheckGrader
from rft.grader_gateway.builtin.string_check import Operation, StringCheck, holds
from rft.grader_gateway.templates import TemplateError
from tests.shared.finished import finished


def check(
    operation: Operation, text: str = "{{ sample.output_text }}", reference: str = "{{ item.answer }}"
) -> StringCheck:
    return StringCheck(StringCheckGrader(name="exact", input=text, reference=reference, operation=operation))


CASES: list[tuple[Operation, str, str, float]] = [
    ("eq", "4", "4", 1.0),
    ("eq", "4 ", "4", 0.0),
    ("ne", "4", "4", 0.0),
    ("ne", "five", "4", 1.0),
    ("like", "the answer is Four", "Four", 1.0),
    ("like", "the answer is four", "Four", 0.0),
    ("like", "Four", "the answer is Four", 0.0),
    ("ilike", "the answer is FOUR", "four", 1.0),
    ("ilike", "STRASSE", "straße", 1.0),
    ("eq", "", "", 1.0),
]


@pytest.mark.parametrize(("operation", "answer", "reference", "score"), CASES)
async def test_a_comparison(operation: Operation, answer: str, reference: str, score: float) -> None:
    grade = await check(operation).grade(finished(answer), item={"answer": reference}, trace_id="trace_1")
    assert isinstance(grade, Grade)
    assert (grade.reward, grade.scores, grade.grader) == (score, {"exact": score}, "exact")
    assert grade.model_errors == ()


@pytest.mark.parametrize("invalid", [0.0, -1.0])
async def test_an_answer_without_what_the_template_names_is_the_contracts_grade_and_says_so(invalid: float) -> None:
    spec = StringCheckGrader(
        name="exact", input="{{ sample.output_json.total }}", reference="4", operation="eq", invalid_grade=invalid
    )
    grade = await StringCheck(spec).grade(finished("?"), item={}, trace_id="t")
    assert isinstance(grade, Grade)
    assert (grade.reward, grade.model_errors, grade.is_invalid) == (invalid, ("sample_parse_error",), True)
    assert grade.error_details == "grader 'exact' names 'sample.output_json.total', which the answer does not have"


async def test_a_row_without_what_the_template_names_is_a_failure_of_its_author() -> None:
    failure = await check("eq").grade(finished(), item={}, trace_id="t")
    assert isinstance(failure, Failure)
    assert (failure.stage, failure.code, failure.fault) == (Stage.GRADER, FailureCode.INVALID_VARIABLE, Fault.ENDPOINT)
    assert (failure.endpoint, failure.detail) == ("exact", "invalid_variable_error")
    assert "item.answer" in failure.message


def test_a_template_that_is_none_is_refused() -> None:
    with pytest.raises(TemplateError, match="begin with"):
        check("eq", "{{ secrets.key }}")


@given(st.text(), st.text())
def test_the_operations_agree_with_each_other(text: str, reference: str) -> None:
    assert holds("eq", text, reference) != holds("ne", text, reference)
    assert not holds("eq", text, reference) or holds("like", text, reference)
    assert not holds("like", text, reference) or holds("ilike", text, reference)
    assert holds("like", text + reference + text, reference)


async def test_a_template_that_becomes_megabytes_is_no_zero_but_the_orders_failure() -> None:
    failure = await check("eq", text="{{ item.answer }}" * 100).grade(
        finished(), item={"answer": "4" * 100_000}, trace_id="t"
    )
    assert isinstance(failure, Failure)
    assert (failure.code, failure.fault, failure.endpoint) == (FailureCode.OVERSIZE_REQUEST, Fault.ENDPOINT, "exact")
    assert "more than 4,194,304 characters" in failure.message
