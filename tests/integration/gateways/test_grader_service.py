"""Every kind of grader behind the service: single verdicts, rankings of groups, and who pays for what."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from pydantic import SecretStr

from rft.core.attempt import Attempt
from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.failure import Fault as Blame
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.graders import (
    EndpointGrader,
    GraderSpec,
    JudgeServer,
    MultiGrader,
    PythonGrader,
    RulerGrader,
    StringCheckGrader,
)
from rft.core.messages import Message, Role
from rft.core.response_format import ResponseFormat
from rft.core.spec import RetryBudget, RunSecrets
from rft.gateway_service.settings import ServiceSettings
from rft.grader_gateway.app import create_app
from rft.grader_gateway.grader import Grader, GroupGrader
from rft.grader_gateway.remote import RemoteGraderGateway
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader
from rft.testing.faults import Fault, FaultKind, FaultSequence
from rft.testing.judge import ScriptedJudge
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.running_service import RunningService

ITEM: JsonObject = {"messages": [{"role": "user", "content": "2+2?"}], "answer": "4"}
SECRETS = RunSecrets(
    grader_headers={"X-Key": "sesame-open"},
    part_headers={"asked": {"X-Key": "sesame-part"}},
    judge_api_key="judge-key",
    gateway_token="gate-token",
)
EQUALS = StringCheckGrader(name="equals", input="{{sample.output_text}}", reference="{{item.answer}}", operation="eq")


def finished(answer: str = "4") -> FinishedTrace:
    messages = (Message(role=Role.USER, content="2+2?"), Message(role=Role.ASSISTANT, content=answer))
    return FinishedTrace(messages=messages, prompt_messages=1, finish_reason="stop", model="ft:starter")


class Bench:
    """A grader service, and whatever endpoints a test needs."""

    def __init__(self, stack: AsyncExitStack, service: RunningService) -> None:
        self._stack, self._service = stack, service
        self.attempts: list[Attempt] = []

    async def serve(self, endpoint: ScriptedEndpoint) -> LoopbackEndpoint:
        return await self._stack.enter_async_context(LoopbackEndpoint(endpoint))

    async def open(
        self,
        grader: GraderSpec,
        *,
        judge: JudgeServer | None = None,
        response_format: ResponseFormat | None = None,
    ) -> RemoteGraderGateway:
        remote = RemoteGraderGateway.open(
            self._service.url,
            grader=grader,
            secrets=SECRETS,
            judge=judge,
            response_format=response_format,
            job_id="ftjob-1",
            retry=RetryBudget(max_retries=2, first_wait_s=0.001),
            on_attempt=self.attempts.append,
        )
        return await self._stack.enter_async_context(remote)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        service = RunningService(create_app(ServiceSettings(gateway_token=SecretStr("gate-token"))))
        yield Bench(stack, stack.enter_context(service))


async def test_a_built_in_grader_needs_no_endpoint(bench: Bench) -> None:
    grader: Grader = await bench.open(EQUALS)
    right = await grader.grade(finished("4"), item=ITEM, trace_id="trace_a")
    wrong = await grader.grade(finished("5"), item=ITEM, trace_id="trace_b")
    assert isinstance(right, Grade)
    assert isinstance(wrong, Grade)
    assert (right.reward, wrong.reward) == (1.0, 0.0)
    assert not bench.attempts


async def test_the_parts_of_a_multi_grader_get_their_own_secrets_and_all_attempts_come_back(bench: Bench) -> None:
    endpoint = ScriptedEndpoint(grader=ScriptedGrader(0.25), faults=FaultSequence([Fault(FaultKind.STATUS)]))
    server = await bench.serve(endpoint)
    asked = EndpointGrader(name="asked", url=server.grader_url)
    grader = await bench.open(
        MultiGrader(name="both", graders={"asked": asked, "equals": EQUALS}, calculate_output="asked + equals")
    )
    grade = await grader.grade(finished(), item=ITEM, trace_id="trace_a")
    assert isinstance(grade, Grade)
    assert grade.reward == 1.25
    assert endpoint.calls[0].headers["x-key"] == "sesame-part"
    assert [(made.endpoint, made.attempt, made.code) for made in bench.attempts] == [
        ("asked", 1, FailureCode.SERVER_ERROR),
        ("asked", 2, None),
    ]


async def test_a_python_grader_runs_and_is_ended_with_its_job(bench: Bench) -> None:
    source = "def grade(sample, item):\n    return float(sample['output_text'] == item['answer'])\n"
    grader = await bench.open(PythonGrader(name="code", source=source))
    grades = await asyncio.gather(
        *(grader.grade(finished(answer), item=ITEM, trace_id=f"trace_{answer}") for answer in ("4", "5"))
    )
    assert [grade.reward for grade in grades if isinstance(grade, Grade)] == [1.0, 0.0]
    await grader.aclose()


async def test_answers_that_do_not_fit_the_jobs_format_are_graded_by_the_contracts_rule(bench: Bench) -> None:
    endpoint = ScriptedEndpoint(grader=ScriptedGrader(0.75))
    server = await bench.serve(endpoint)
    code = PythonGrader(name="code", source="def grade(sample, item):\n    return sample['output_json']['n']\n")
    both = MultiGrader(
        name="both",
        graders={"code": code, "remote": EndpointGrader(name="remote", url=server.grader_url)},
        calculate_output="code + remote",
        invalid_grade=-1.0,
    )
    grader = await bench.open(both, response_format=ResponseFormat(type="json_object"))
    answers = ['{"n": 2}', "2", '{"m": 2}']
    grades = [await grader.grade(finished(answer), item=ITEM, trace_id=f"trace_{answer}") for answer in answers]
    assert [grade.reward for grade in grades if isinstance(grade, Grade)] == [2.75, -1.0, -1.0]
    errors = [grade.model_errors for grade in grades if isinstance(grade, Grade)]
    assert errors == [(), ("sample_parse_error",), ("python_grader_runtime_error",)]
    told = [json.loads(call.body)["sample"]["output_json"] for call in endpoint.calls]
    assert told == [{"n": 2}, None, {"m": 2}]


async def test_a_group_is_ranked(bench: Bench) -> None:
    scores = [{"trajectory_id": str(place + 1), "explanation": "so", "score": place / 2} for place in range(3)]
    judge = await bench.serve(ScriptedJudge(json.dumps({"scores": scores}), api_key="judge-key"))
    grader: GroupGrader = await bench.open(
        RulerGrader(name="ruler", model="judge-1"), judge=JudgeServer(base_url=judge.base_url + "/v1")
    )
    group = [finished(answer) for answer in "345"]
    grades = await grader.rank(group, item=ITEM, trace_ids=["trace_a", "trace_b", "trace_c"])
    assert isinstance(grades, list)
    assert [grade.reward for grade in grades] == [0.0, 0.5, 1.0]
    assert sum(grade.usage["judge-1"].prompt_tokens for grade in grades if grade.usage) == 100


async def test_the_failure_of_a_grader_stays_its_own(bench: Bench) -> None:
    endpoint = ScriptedEndpoint(faults=FaultSequence([Fault(FaultKind.NAN_SCORE)], last_stays=True))
    server = await bench.serve(endpoint)
    grader = await bench.open(EndpointGrader(name="asked", url=server.grader_url))
    failure = await grader.grade(finished(), item=ITEM, trace_id="trace_a")
    assert isinstance(failure, Failure)
    assert (failure.stage, failure.code, failure.attempts) == (Stage.GRADER, FailureCode.INVALID_SCORE, 3)


async def test_a_grader_that_cannot_be_opened_is_said_so(bench: Bench) -> None:
    grader = await bench.open(RulerGrader(name="ruler", model="judge-1"))
    failure = await grader.rank([finished()], item=ITEM, trace_ids=["trace_a"])
    assert isinstance(failure, Failure)
    assert failure.fault is Blame.PLATFORM
    assert "needs a judge server" in failure.message


async def test_code_whose_packages_the_services_machine_lacks_grades_nothing(bench: Bench) -> None:
    source = "import not_on_this_machine\n\ndef grade(sample, item):\n    return 1.0\n"
    code = PythonGrader(name="code", source=source)
    both = MultiGrader(name="both", graders={"code": code, "exact": EQUALS}, calculate_output="code + exact")
    for spec in (code, both):
        grader = await bench.open(spec)
        failure = await grader.grade(finished("4"), item=ITEM, trace_id="trace_a")
        assert isinstance(failure, Failure), "no grade of 0"
        assert failure.fault is Blame.PLATFORM
        assert "it imports 'not_on_this_machine', which is not installed here" in failure.message


async def test_the_wrong_kind_of_question_is_refused(bench: Bench) -> None:
    grader = await bench.open(EQUALS)
    failure = await grader.rank([finished()], item=ITEM, trace_ids=["trace_a"])
    assert isinstance(failure, Failure)
    assert "judges single rollouts" in failure.message


async def test_a_large_trace_passes_and_is_cut_for_the_customer_only(bench: Bench) -> None:
    endpoint = ScriptedEndpoint(grader=ScriptedGrader(0.5))
    server = await bench.serve(endpoint)
    grader = await bench.open(EndpointGrader(name="asked", url=server.grader_url))
    tool = Message(role=Role.TOOL, content="y" * 3_000_000, tool_call_id="call_1", name="echo")
    trace = FinishedTrace((*finished().messages[:1], tool, finished().messages[1]), 1, "stop", "ft:starter")
    assert isinstance(await grader.grade(trace, item=ITEM, trace_id="trace_a"), Grade)
    assert b"[cut: 3,000,000 characters]" in endpoint.calls[0].body
