"""Answers that do not fit `response_format` get the contract's grade; endpoints are called for them all the same."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.graders import (
    EndpointGrader,
    GraderSpec,
    JudgeMessage,
    MultiGrader,
    PythonGrader,
    RulerGrader,
    ScoreModelGrader,
    StringCheckGrader,
)
from rft.core.messages import Message, Role
from rft.core.response_format import ResponseFormat
from rft.core.spec import RetryBudget, RunSecrets
from rft.egress.endpoint_client import EndpointClient
from rft.grader_gateway.answer_format import AnswerFormat, RanksWhatFits, as_graded, misfit_grade
from rft.grader_gateway.build import open_grader
from rft.grader_gateway.contract import answer_of, to_sample
from rft.grader_gateway.grader import HasStandingGrades, close_grader
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader
from rft.testing.faults import Fault, FaultKind, FaultSequence
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.finished import CALL, finished

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"f1": {"type": "number", "maximum": 1}},
    "required": ["f1"],
    "additionalProperties": False,
}
OF_SCHEMA = ResponseFormat(type="json_schema", json_schema=SCHEMA)
ANY_OBJECT = ResponseFormat(type="json_object")
CHECK = StringCheckGrader(name="check", input="{{ sample.output_text }}", reference="no", operation="ne")


@pytest.mark.parametrize("answer", ['{"f1": 0.5}', ' {"f1": 1}\n', '{"f1": -1e3}'])
def test_json_that_fits_the_schema_fits(answer: str) -> None:
    assert AnswerFormat(OF_SCHEMA).problem(answer) is None


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("half", "not JSON"),
        ('{"f1": 0.5', "not JSON"),
        ('```json\n{"f1": 0.5}\n```', "not JSON"),
        ('Here it is: {"f1": 0.5}', "not JSON"),
        ('{"f1": 0.5} {"f1": 0.5}', "not JSON"),
        ('{"f1": NaN}', "not JSON"),
        ('{"f1": 1e999}', "not JSON"),
        ("null", "schema"),
        ("0.5", "schema"),
        ('[{"f1": 0.5}]', "schema"),
        ("{}", "f1"),
        ('{"f1": "0.5"}', "at f1"),
        ('{"f1": 1.5}', "at f1"),
        ('{"f1": 0.5, "why": ""}', "why"),
        ("[" * 100_000, "nested"),
    ],
)
def test_anything_else_does_not(answer: str, message: str) -> None:
    problem = AnswerFormat(OF_SCHEMA).problem(answer)
    assert problem is not None
    assert message in problem
    assert len(problem) < 500


def test_any_object_is_one() -> None:
    assert AnswerFormat(ANY_OBJECT).problem('{"a": []}') is None
    assert AnswerFormat(ANY_OBJECT).problem("[1]") == "the answer is JSON, but no object"
    assert AnswerFormat(ANY_OBJECT).problem("null") == "the answer is JSON, but no object"


def test_a_schema_that_is_none_is_told() -> None:
    with pytest.raises(ValueError, match="response_format"):
        AnswerFormat(ResponseFormat(type="json_schema", json_schema={"type": "nothing"}))


async def judged(spec: GraderSpec, trace: FinishedTrace, wanted: ResponseFormat | None = OF_SCHEMA) -> Grade | Failure:
    async with EndpointClient.open(retry=RetryBudget(max_retries=0)) as client:
        grader = open_grader(spec, client=client, secrets=RunSecrets(), judge=None, job_id="j", response_format=wanted)
        try:
            return await grader.grade(trace, item={}, trace_id="trace_1")
        finally:
            await close_grader(grader)


@pytest.mark.parametrize("invalid_grade", [0.0, -1.0])
async def test_a_built_in_grader_is_not_asked_about_a_misfit(invalid_grade: float) -> None:
    spec = CHECK.model_copy(update={"invalid_grade": invalid_grade})
    grade = await judged(spec, finished("anything but JSON"))
    assert isinstance(grade, Grade)
    assert (grade.reward, grade.is_invalid, grade.scores) == (invalid_grade, True, {"check": invalid_grade})
    assert grade.model_errors == ("sample_parse_error",)
    assert "not JSON" in (grade.error_details or "")


def test_a_judge_that_takes_points_off_is_not_asked_of_a_misfit_which_gets_its_worst() -> None:
    """The contract's 0 would be the best that there is, and the policy would learn to break the format."""
    message = JudgeMessage(role="user", content="{{ sample.output_text }}")
    spec = ScoreModelGrader(name="judge", model="m", input=(message,), range=(-10.0, 0.0))
    assert misfit_grade(spec, "not JSON").reward == -10.0
    assert misfit_grade(spec.model_copy(update={"invalid_grade": -3.0}), "not JSON").reward == -3.0
    assert misfit_grade(spec.model_copy(update={"range": (1.0, 5.0)}), "not JSON").reward == 0.0


async def test_a_fitting_answer_is_judged_by_the_grader_itself() -> None:
    source = "def grade(sample, item):\n    return sample['output_json']['f1']"
    grade = await judged(PythonGrader(name="code", source=source), finished('{"f1": 0.25}'))
    assert isinstance(grade, Grade)
    assert (grade.reward, grade.is_invalid, grade.model_errors) == (0.25, False, ())


@pytest.mark.parametrize(
    ("wanted", "answer", "told"),
    [(None, '{"f1": 1}', None), (OF_SCHEMA, '{"f1": 1}', {"f1": 1}), (OF_SCHEMA, '{"f1": 7}', None)],
)
async def test_graders_are_told_json_that_was_asked_for(
    wanted: ResponseFormat | None, answer: str, told: JsonValue
) -> None:
    trace = replace(finished(answer), has_json=False)
    endpoint = ScriptedEndpoint(grader=ScriptedGrader(0.75))
    async with LoopbackEndpoint(endpoint) as server:
        await judged(EndpointGrader(name="remote", url=f"{server.base_url}/grade"), trace, wanted)
    [call] = endpoint.calls
    assert json.loads(call.body)["sample"]["output_json"] == told
    assert to_sample(as_graded(trace, wanted))["output_json"] == told


async def test_a_rollout_that_ended_on_a_tool_call_has_no_answer_that_fits() -> None:
    messages = (Message(role=Role.USER, content="?"), Message(role=Role.ASSISTANT, content="", tool_calls=(CALL,)))
    grade = await judged(CHECK, FinishedTrace(messages, prompt_messages=1, finish_reason="stop", model="m"))
    assert isinstance(grade, Grade)
    assert (grade.reward, grade.error_details) == (0.0, "the answer is empty")


async def test_an_endpoint_is_called_for_a_misfit_and_its_score_recorded_but_not_used() -> None:
    endpoint = ScriptedEndpoint(grader=ScriptedGrader(0.75))
    async with LoopbackEndpoint(endpoint) as server:
        spec = EndpointGrader(name="remote", url=f"{server.base_url}/grade", invalid_grade=-1.0)
        grade = await judged(spec, finished('{"f1": 7}'))
        parts: dict[str, Any] = {"remote": spec, "check": CHECK}
        formula = MultiGrader(name="both", graders=parts, calculate_output="2 - remote - check", invalid_grade=-2.0)
        whole = await judged(formula, finished('{"f1": 7}'))
    assert isinstance(grade, Grade)
    assert (grade.reward, grade.scores, grade.model_errors) == (-1.0, {"remote": 0.75}, ("sample_parse_error",))
    assert isinstance(whole, Grade)
    assert (whole.reward, whole.scores, whole.model_errors) == (-2.0, {"remote": 0.75}, ("sample_parse_error",))
    assert (whole.parts["remote"].score, whole.parts["check"].score) == (0.75, None)
    assert whole.parts["check"].model_errors == ("sample_parse_error",)
    bodies = [cast("dict[str, Any]", json.loads(call.body)) for call in endpoint.calls]
    assert [(body["trace_id"], body["sample"]["output_json"]) for body in bodies] == [("trace_1", None)] * 2
    assert all(body["sample"]["output_text"] == '{"f1": 7}' for body in bodies)


async def test_an_endpoint_that_fails_takes_no_misfit_out_of_training() -> None:
    spec = EndpointGrader(name="remote", url="http://127.0.0.1:9/grade")
    grade = await judged(spec, finished("no JSON"))
    assert isinstance(grade, Grade)
    assert (grade.reward, grade.is_invalid) == (0.0, True)
    assert "grader 'remote'" in (grade.error_details or "")


async def test_an_endpoint_that_hangs_over_a_misfit_is_waited_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rft.grader_gateway.gateway.TOLD_WITHIN_S", 0.1)
    endpoint = ScriptedEndpoint(
        grader=ScriptedGrader(0.75), faults=FaultSequence([Fault(FaultKind.HANG)], last_stays=True)
    )
    async with LoopbackEndpoint(endpoint) as server:
        spec = EndpointGrader(name="remote", url=f"{server.base_url}/grade", timeout_s=5, invalid_grade=-1.0)
        alone = await judged(spec, finished("no JSON"))
        whole = await judged(MultiGrader(name="all", graders={"remote": spec}, calculate_output="remote"), finished(""))
    assert isinstance(alone, Grade)
    assert (alone.reward, alone.is_invalid) == (-1.0, True)
    assert "grader 'remote' said nothing within 0.1 s" in (alone.error_details or "")
    assert isinstance(whole, Grade)
    assert (whole.reward, whole.is_invalid) == (0.0, True)
    assert "within 0.1 s" in (whole.parts["remote"].failure_message or "")


@pytest.mark.parametrize("name", ["remote", "both"])
async def test_the_grade_of_a_misfit_stands_before_anybody_is_told_of_it(name: str) -> None:
    remote = EndpointGrader(name="remote", url="http://127.0.0.1:9/grade", invalid_grade=-1.0)
    both = MultiGrader(name="both", graders={"a": remote, "b": CHECK}, calculate_output="a", invalid_grade=-2.0)
    spec = {"remote": remote, "both": both}[name]
    async with EndpointClient.open() as client:
        grader = open_grader(
            spec, client=client, secrets=RunSecrets(), judge=None, job_id="j", response_format=OF_SCHEMA
        )
        assert isinstance(grader, HasStandingGrades)
        assert grader.standing_grade(finished('{"f1": 1}')) is None
        standing = grader.standing_grade(finished("no JSON"))
    assert standing is not None
    assert (standing.reward, standing.is_invalid) == (spec.grade_of_invalid, True)
    assert standing.scores == ({"remote": -1.0} if spec is remote else {})
    assert set(standing.parts) == (set() if spec is remote else {"a", "b"})


class Ranks:
    """Ranks by length, and remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[list[str]] = []

    async def rank(
        self, traces: Sequence[FinishedTrace], *, item: JsonObject, trace_ids: Sequence[str]
    ) -> list[Grade] | Failure:
        self.shown.append([answer_of(trace) for trace in traces])
        if len(set(trace_ids)) != len(traces):
            return Failure(stage=Stage.GRADER, code=FailureCode.INTERNAL_ERROR, message="ids and traces differ")
        return [Grade(reward=place / 10, grader="ruler") for place in range(1, len(traces) + 1)]


async def test_a_ruler_ranks_what_fits_and_the_rest_gets_the_contracts_grade() -> None:
    ruler = Ranks()
    grader = RanksWhatFits(ruler, RulerGrader(name="ruler", model="m", invalid_grade=-1.0), ANY_OBJECT)
    answers = ["{}", "no", '{"a": 1}', "[]"]
    grades = await grader.rank([finished(one) for one in answers], item={}, trace_ids=["a", "b", "c", "d"])
    assert not isinstance(grades, Failure)
    assert [grade.reward for grade in grades] == [0.1, -1.0, 0.2, -1.0]
    assert [grade.is_invalid for grade in grades] == [False, True, False, True]
    assert ruler.shown == [["{}", '{"a": 1}']]
