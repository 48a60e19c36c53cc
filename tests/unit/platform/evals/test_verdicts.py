"""What passes, what fails, and what has no verdict."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import RUNTIME_ERROR, SAMPLE_PARSE_ERROR, Grade, PartOutcome, TokenUsage
from rft.platform.evals.criteria import CRITERION_GRADER, names_sample, passing_score
from rft.platform.evals.verdicts import Criterion, NoVerdict, judge_usage, verdicts

EXACT: Any = {"type": "string_check", "input": "{{item.a}}", "reference": "{{item.b}}", "operation": "eq"}
JUDGE: Any = {"type": "score_model", "model": "m", "input": [{"role": "user", "content": "{{sample.output_text}}"}]}
CODE: Any = {"type": "python", "source": "def grade(sample, item):\n    return 1.0\n"}
SIMILAR: Any = {
    "type": "text_similarity",
    "input": "{{sample.output_text}}",
    "reference": "x",
    "evaluation_metric": "bleu",
    "pass_threshold": 0.3,
}
LABEL: Any = {**JUDGE, "type": "label_model", "labels": ["good", "bad"], "passing_labels": ["good"]}
MULTI: Any = {"type": "multi", "graders": {"a": EXACT, "b": SIMILAR}, "calculate_output": "a + b"}
FAILED = Failure(stage=Stage.GRADER, code=FailureCode.TIMEOUT, message="no reply")


def grade(reward: float, *errors: str, **more: Any) -> Grade:
    return Grade(reward=reward, grader="g", model_errors=errors, **more)


@pytest.mark.parametrize(
    ("grader", "score"),
    [
        (EXACT, 1.0),
        ({**EXACT, "pass_threshold": 0.0}, 0.0),
        (SIMILAR, 0.3),
        (LABEL, 1.0),
        (JUDGE, 0.5),
        ({**JUDGE, "range": [1, 7]}, 4.0),
        ({**JUDGE, "range": [1, 7], "pass_threshold": 6}, 6.0),
        (CODE, 0.5),
        (MULTI, 0.5),
    ],
)
def test_a_score_passes_from_its_threshold_on(grader: Any, score: float) -> None:
    assert passing_score(CRITERION_GRADER.validate_python(grader)) == score


@pytest.mark.parametrize(
    ("grader", "names"), [(EXACT, False), (SIMILAR, True), (JUDGE, True), (CODE, False), (MULTI, True)]
)
def test_whether_a_grader_names_the_sample_is_told_by_its_templates(grader: Any, names: bool) -> None:
    assert names_sample(CRITERION_GRADER.validate_python(grader)) is names


def criterion(threshold: float = 0.5) -> Criterion:
    return Criterion("exact-1", "string_check", threshold, names_sample=True)


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ([grade(1.0), grade(0.5)], "pass"),
        ([grade(1.0), grade(0.49)], "fail"),
        ([grade(0.0, SAMPLE_PARSE_ERROR), grade(1.0)], "fail"),
        ([grade(1.0), FAILED], "error"),
        ([grade(0.0), FAILED], "error"),
        ([grade(0.0, RUNTIME_ERROR, is_invalid=True), grade(1.0)], "error"),
        ([NoVerdict("sample_missing", "none")] * 2, "error"),
    ],
)
def test_an_item_passes_when_all_criteria_do_and_is_no_failure_without_a_verdict(
    outcomes: list[Any], status: str
) -> None:
    assert verdicts([criterion(), criterion()], outcomes).status == status


def test_what_has_no_verdict_has_no_score_and_says_whose_doing_that_is() -> None:
    told = verdicts([criterion()] * 3, [grade(0.0, RUNTIME_ERROR, error_details="line 3"), FAILED, grade(0.25)])
    assert told.scores == (None, None, 0.25)
    assert told.passes == (None, None, False)
    assert told.failure_code == RUNTIME_ERROR
    errors = [result["error"] for result in told.results]
    assert TypeAdapter[list[Any]](list[Any]).validate_python(errors) == [
        {"code": RUNTIME_ERROR, "message": "line 3", "stage": "grader", "fault": "endpoint"},
        {"code": "timeout", "message": "no reply", "stage": "grader", "fault": "endpoint"},
        None,
    ]
    assert [result["score"] for result in told.results] == [None, None, 0.25]


def test_tokens_of_judges_are_counted_also_where_no_score_came_of_them() -> None:
    spent = {"judge": TokenUsage(prompt_tokens=5, completion_tokens=2)}
    told = judge_usage([grade(1.0, usage=spent), FAILED.model_copy(update={"usage": spent}), NoVerdict("x", "y")])
    assert told["judge"].model_dump() == {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "cached_tokens": 0,
        "calls": 2,
    }


def test_each_part_that_asks_a_judge_is_a_call_of_its_own() -> None:
    once, twice = TokenUsage(prompt_tokens=5), TokenUsage(prompt_tokens=10)
    parts = {"a": PartOutcome(usage={"judge": once}), "b": PartOutcome(usage={"judge": once}), "c": PartOutcome()}
    whole = {"parts": parts, "usage": {"judge": twice}}
    told = judge_usage([grade(1.0, **whole), FAILED.model_copy(update=whole), grade(1.0, usage={"judge": once})])
    assert (told["judge"].calls, told["judge"].prompt_tokens) == (5, 25)


def test_what_graders_were_sent_and_answered_stands_beside_their_scores() -> None:
    parts = {
        "style": PartOutcome(score=1.0, request="is it?", reply="well written"),
        "length": PartOutcome(score=0.0),
    }
    told = verdicts(
        [criterion()] * 3, [grade(1.0, request="{}", reply='{"score": 1}'), grade(0.5, parts=parts), grade(0.25)]
    )
    assert [result.get("request") for result in told.results] == ["{}", None, None]
    assert [result.get("sub_requests") for result in told.results] == [None, {"style": "is it?"}, None]
    assert [result.get("reply") for result in told.results] == ['{"score": 1}', None, None]
    assert [result.get("sub_replies") for result in told.results] == [None, {"style": "well written"}, None]


@pytest.mark.parametrize("scale", [1.0, 1e9])
@pytest.mark.parametrize(("score", "passes"), [(0.7 + 0.2 + 0.1, True), (1.0, True), (0.999, False)])
def test_a_fully_right_answer_does_not_fail_by_rounding(scale: float, score: float, passes: bool) -> None:
    assert verdicts([criterion(scale)], [grade(scale * score)]).passes == (passes,)
