"""Each error of the contract has something that sets it, and nothing sets another."""

from typing import Any

import pytest

from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade, PartOutcome
from rft.core.graders import (
    EndpointGrader,
    GraderSpec,
    JudgeMessage,
    LabelModelGrader,
    LeafGrader,
    MultiGrader,
    PythonGrader,
    RulerGrader,
    ScoreModelGrader,
    StringCheckGrader,
    TextSimilarityGrader,
)
from rft.grader_gateway.builtin.python_code import PythonCode
from rft.grader_gateway.grader import close_grader
from rft.grader_gateway.judge import CUT_OFF, REFUSED
from rft.grader_gateway.judge_answer import UNREADABLE
from rft.platform.dry_runs.error_flags import GraderErrors
from rft.platform.dry_runs.objects import to_run_object
from tests.shared.finished import finished

EXACT = StringCheckGrader(name="g", input="", reference="", operation="eq")
CLOSE = TextSimilarityGrader(name="g", input="", reference="", evaluation_metric="bleu")
ENDPOINT = EndpointGrader(name="g", url="http://127.0.0.1:9/")
ASKED = (JudgeMessage(role="user", content="x"),)
SCORE = ScoreModelGrader(name="g", model="judge-1", input=ASKED)
LABEL = LabelModelGrader(name="g", model="judge-1", input=ASKED, labels=("a",), passing_labels=("a",))
CODE = PythonGrader(name="g", source="def grade(sample, item): return 1")
RULER = RulerGrader(name="g", model="judge-1")
MULTI = MultiGrader(name="g", graders={"a": EXACT}, calculate_output="1 / a")
NEVER = {"truncated_observation_error", "unresponsive_reward_error"}
"""A dry run's one answer is whole, and it is there."""

Kind = FailureCode
CASES: list[tuple[GraderSpec, FailureCode, str | None, str, dict[str, Any]]] = [
    (EXACT, Kind.INVALID_VARIABLE, "invalid_variable_error", "invalid_variable_error", {"has_details": True}),
    (CLOSE, Kind.INVALID_VARIABLE, "invalid_variable_error", "invalid_variable_error", {"has_details": True}),
    (SCORE, Kind.INVALID_VARIABLE, "invalid_variable_error", "invalid_variable_error", {"has_details": True}),
    (EXACT, Kind.INTERNAL_ERROR, None, "other_error", {}),
    (MULTI, Kind.GRADER_ERROR, "formula_parse_error", "formula_parse_error", {}),
    (MULTI, Kind.INTERNAL_ERROR, None, "other_error", {}),
    (CODE, Kind.GRADER_ERROR, "python_grader_runtime_error", "python_grader_runtime_error", {"has_details": True}),
    (CODE, Kind.INTERNAL_ERROR, None, "python_grader_server_error", {"type": "internal_error"}),
    (ENDPOINT, Kind.BLOCKED_ADDRESS, None, "endpoint_grader_safety_check_error", {}),
    (ENDPOINT, Kind.INTERNAL_ERROR, None, "endpoint_grader_internal_error", {"has_details": True}),
    *(
        (ENDPOINT, code, None, "endpoint_grader_server_error", {"has_details": True})
        for code in (Kind.TIMEOUT, Kind.SERVER_ERROR, Kind.REJECTED, Kind.INVALID_REPLY, Kind.INVALID_SCORE)
    ),
    *(
        (judge, code, detail, flag, {"has_details": has_details})
        for judge in (SCORE, LABEL, RULER)
        for code, detail, flag, has_details in (
            (Kind.INVALID_SCORE, REFUSED, "model_grader_refusal_error", True),
            (Kind.INVALID_SCORE, UNREADABLE, "model_grader_parse_error", True),
            (Kind.INVALID_SCORE, CUT_OFF, "model_grader_exceeded_max_tokens_error", False),
            (Kind.SERVER_ERROR, None, "model_grader_server_error", True),
            (Kind.CONNECT_ERROR, None, "model_grader_server_error", True),
            (Kind.INTERNAL_ERROR, None, "model_grader_server_error", True),
        )
    ),
]  # fmt: skip


def flags(errors: GraderErrors) -> set[str]:
    return {name for name, value in errors.model_dump().items() if value is True}


def told(spec: GraderSpec, outcome: Grade | Failure) -> GraderErrors:
    return to_run_object(spec, outcome, execution_s=0.1).metadata.errors


def failed(code: FailureCode, detail: str | None = None) -> Failure:
    return Failure(stage=Stage.GRADER, code=code, message="what went wrong", endpoint="g", detail=detail)


@pytest.mark.parametrize(("spec", "code", "detail", "flag", "more"), CASES)
def test_a_failure_has_one_flag_and_its_words_where_there_is_a_place_for_them(
    spec: GraderSpec, code: FailureCode, detail: str | None, flag: str, more: dict[str, Any]
) -> None:
    errors = told(spec, failed(code, detail))

    assert flags(errors) == {flag}
    texts = {name: value for name, value in errors.model_dump().items() if isinstance(value, str)}
    expected = {f"{flag}_details": "what went wrong"} if more.get("has_details") else {}
    assert texts == expected | ({f"{flag}_type": more["type"]} if "type" in more else {})


@pytest.mark.parametrize(("spec", "code", "detail", "flag", "more"), CASES)
def test_a_part_has_the_same_flag_as_the_grader_alone(
    spec: GraderSpec, code: FailureCode, detail: str | None, flag: str, more: dict[str, Any]
) -> None:
    del more
    if isinstance(spec, MultiGrader | RulerGrader):
        return
    graders: dict[str, LeafGrader] = {"a": EXACT, "b": spec}
    whole = MultiGrader(name="whole", graders=graders, calculate_output="a + b")
    outcome = failed(code, detail)
    parts = {
        "a": PartOutcome(score=0.0, model_errors=("sample_parse_error",)),
        "b": PartOutcome(failure_code=code.value, failure_detail=detail, failure_message=outcome.message),
    }

    reply = to_run_object(whole, outcome.model_copy(update={"parts": parts}), execution_s=0.1)

    assert reply.metadata.part_errors["b"] == told(spec, outcome)
    assert flags(reply.metadata.part_errors["a"]) == {"sample_parse_error"}
    assert flags(reply.metadata.errors) == {"sample_parse_error", flag}
    assert (reply.sub_rewards, reply.metadata.scores) == ({"a": 0.0, "b": None}, {"a": 0.0})


def test_what_is_no_graders_failure_is_another_error() -> None:
    failure = Failure(stage=Stage.PLATFORM, code=FailureCode.INTERNAL_ERROR, message="ours")
    assert flags(told(CODE, failure)) == {"other_error"}


def test_an_answer_that_lacks_a_variable_has_a_grade_and_a_flag() -> None:
    grade = Grade(reward=0.0, grader="g", model_errors=("sample_parse_error",))
    assert flags(told(EXACT, grade)) == {"sample_parse_error"}
    assert flags(told(EXACT, Grade(reward=0.0, grader="g"))) == set()


def test_every_error_of_the_contract_is_set_by_something_but_those_that_a_dry_run_never_has() -> None:
    every = {name for name, field in GraderErrors.model_fields.items() if field.annotation is bool}
    seen = {flag for _, _, _, flag, _ in CASES} | {"sample_parse_error"}
    assert every - seen == NEVER
    assert seen <= every


async def test_a_machine_that_cannot_run_code_is_the_servers_error() -> None:
    grader = PythonCode(CODE, memory_bytes=2**80, processes=1)
    try:
        failure = await grader.grade(finished("4"), item={}, trace_id="trace_1")
    finally:
        await close_grader(grader)
    errors = told(CODE, failure)
    assert flags(errors) == {"python_grader_server_error"}
    assert errors.python_grader_server_error_type == "internal_error"
