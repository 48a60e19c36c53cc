"""Grades over a real socket: a finite number, or no grade at all.

One contract, held by both forms of the gateway: the library in the trainer's process, and the service.
"""

import inspect
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Protocol, cast

import pytest
from pydantic import SecretStr

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import MAX_REPLY_CHARS, MAX_REQUEST_CHARS, Grade
from rft.core.graders import EndpointGrader
from rft.core.messages import ToolCall
from rft.core.spec import RetryBudget, RunSecrets
from rft.egress.breaker import DOWN_CODES
from rft.egress.client import HttpClient
from rft.egress.endpoint_client import EndpointClient
from rft.egress.limits import Limits
from rft.egress.reply import SizeCaps
from rft.gateway_service.settings import ServiceSettings
from rft.gateway_service.shared_egress import SharedEgress
from rft.grader_gateway import contract, gateway
from rft.grader_gateway.app import create_app
from rft.grader_gateway.gateway import HttpGraderGateway
from rft.grader_gateway.grader import Grader
from rft.grader_gateway.remote import RemoteGraderGateway
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader
from rft.testing.faults import Fault, FaultKind, FaultSequence
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.running_service import RunningService

from .traces import ITEM, finished


class Scene:
    def __init__(self, endpoint: ScriptedEndpoint, gateway: Grader) -> None:
        self.endpoint, self.gateway = endpoint, gateway

    async def grade(self, trace: FinishedTrace | None = None) -> Grade | Failure:
        return await self.gateway.grade(trace or finished(), item=ITEM, trace_id="trace_abc")


class SetScene(Protocol):
    async def __call__(
        self, *faults: Fault, score: object = 0.5, rate_limit: float | None = None, caps: SizeCaps | None = None
    ) -> Scene: ...


BUDGET = RetryBudget(max_retries=2, first_wait_s=0.001)
SECRETS = RunSecrets(grader_headers={"X-Key": "sesame-open"}, gateway_token="gate-token")


async def in_process(stack: AsyncExitStack, grader: EndpointGrader, caps: SizeCaps | None) -> Grader:
    client = EndpointClient(HttpClient(caps=caps), limits=Limits.fixed(8), retry=BUDGET)
    await stack.enter_async_context(client)
    return HttpGraderGateway(client, grader, headers=SECRETS.grader_headers)


async def behind_a_service(stack: AsyncExitStack, grader: EndpointGrader, caps: SizeCaps | None) -> Grader:
    token = SecretStr("gate-token")
    settings = ServiceSettings(gateway_token=token, has_adaptive_limits=False, max_calls_in_flight=8)
    app = create_app(settings, shared=SharedEgress(settings, caps=caps))
    service = stack.enter_context(RunningService(app))
    remote = RemoteGraderGateway.open(service.url, grader=grader, secrets=SECRETS, job_id="ftjob-1", retry=BUDGET)
    return await stack.enter_async_context(remote)


FORMS = {"in process": in_process, "service": behind_a_service}


@pytest.fixture(params=FORMS)
async def set_scene(request: pytest.FixtureRequest) -> AsyncIterator[SetScene]:
    async with AsyncExitStack() as stack:

        async def make(
            *faults: Fault, score: object = 0.5, rate_limit: float | None = None, caps: SizeCaps | None = None
        ) -> Scene:
            grader = ScriptedGrader(lambda sample, item: cast("float", score))
            endpoint = ScriptedEndpoint(grader=grader, faults=FaultSequence(faults, last_stays=True))
            server = await stack.enter_async_context(LoopbackEndpoint(endpoint))
            spec = EndpointGrader(
                name="judge", url=server.grader_url, timeout_s=5.0, rate_limit=rate_limit, invalid_grade=-1
            )
            return Scene(endpoint, await FORMS[request.param](stack, spec, caps))

        yield make


@pytest.mark.parametrize("form", [HttpGraderGateway, RemoteGraderGateway])
def test_it_is_what_the_agent_loop_asks_for(form: type[HttpGraderGateway | RemoteGraderGateway]) -> None:
    asked, offered = inspect.signature(Grader.grade), inspect.signature(form.grade)
    assert list(asked.parameters) == list(offered.parameters)


async def test_a_grade(set_scene: SetScene) -> None:
    scene = await set_scene(score=0.75)
    gateway: Grader = scene.gateway
    grade = await gateway.grade(finished(), item=ITEM, trace_id="trace_abc")
    assert isinstance(grade, Grade)
    assert (grade.reward, grade.scores, grade.grader, grade.attempts) == (0.75, {"judge": 0.75}, "judge", 1)
    [received] = scene.endpoint.calls
    body = json.loads(received.body)
    assert set(body) == {"sample", "item", "trace_id"}
    assert (body["item"], body["trace_id"]) == (
        {"messages": [{"role": "user", "content": "2+2?", "name": None}], "answer": "4", "tools": None},
        "trace_abc",
    )
    assert received.headers["idempotency-key"] == "trace_abc/grade"
    assert grade.request is not None
    kept = json.loads(grade.request)
    assert kept["sample"]["trace"].pop("messages") == "[4 messages, see the record]"
    body["sample"]["trace"].pop("messages")
    assert kept == body, "people can read what it was asked"


async def test_what_the_grader_said_is_kept_shortened_and_without_our_keys(set_scene: SetScene) -> None:
    said = b'\xef\xbb\xbf{"score": 0.5, "why": "sesame-open ' + b"x" * 3000 + b'"}'
    grade = await (await set_scene(Fault(FaultKind.STATUS, status=200, body=said))).grade()
    assert isinstance(grade, Grade)
    assert grade.reply is not None
    assert grade.reply.startswith('{"score": 0.5, "why": "*** xxx')
    assert (len(grade.reply), grade.reply[-4:]) == (MAX_REPLY_CHARS + 3, "x...")


async def test_of_a_long_request_both_ends_are_kept_and_none_of_our_keys(set_scene: SetScene) -> None:
    scene = await set_scene()
    grade = await scene.gateway.grade(
        finished("sesame-open " + "x" * 9000), item={**ITEM, "note": "the end, sesame-open"}, trace_id="t"
    )
    assert isinstance(grade, Grade)
    assert grade.request is not None
    assert len(grade.request) < MAX_REQUEST_CHARS + 40
    assert "sesame-open" not in grade.request
    assert '"content":"*** xxx' in grade.request
    assert '"note":"the end, ***"' in grade.request
    assert "\n[cut: " in grade.request


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"x" * 70 + b" sesame-open"),
        (200, b'["' + b"x" * 70 + b' sesame-open"]'),
        (200, b'{"score": "' + b"x" * 70 + b' sesame-open"}'),
        (200, b'{"score": "' + b"x" * 70 + b' \\u0073esame-open"}'),
        (401, b"x" * 193 + b" sesame-open"),
        (500, b"x" * 193 + b" sesame-open"),
    ],
)
async def test_the_key_that_a_grader_repeats_is_redacted_before_its_message_is_cut(
    set_scene: SetScene, status: int, body: bytes
) -> None:
    outcome = await (await set_scene(Fault(FaultKind.STATUS, status=status, body=body))).grade()
    assert isinstance(outcome, Failure)
    assert "xxx *" in outcome.message
    assert "sesa" not in outcome.message


@pytest.mark.parametrize("score", [1e154, -1.1e15, 1e308, 10**400])
async def test_a_number_beyond_all_scores_is_none(set_scene: SetScene, score: float) -> None:
    failure = await (await set_scene(score=score)).grade()
    assert isinstance(failure, Failure)
    assert failure.code is FailureCode.INVALID_SCORE
    assert "which lies beyond 1e+15" in failure.message


@pytest.mark.parametrize("score", [0, 0.0, 1, -3.5, 5, 1e15, -1e15])
async def test_any_finite_number_is_a_grade_zero_and_out_of_range_included(set_scene: SetScene, score: float) -> None:
    grade = await (await set_scene(score=score)).grade()
    assert isinstance(grade, Grade)
    assert grade.reward == score


NO_SCORES = [FaultKind.NAN_SCORE, FaultKind.INFINITE_SCORE, FaultKind.TEXT_SCORE, FaultKind.BOOLEAN_SCORE,
             FaultKind.SHAPELESS]  # fmt: skip
NO_JSON = [FaultKind.EMPTY_BODY, FaultKind.NOT_JSON, FaultKind.WRONG_CONTENT_TYPE]


@pytest.mark.parametrize("kind", NO_SCORES)
async def test_no_number_is_no_grade_and_is_retried(set_scene: SetScene, kind: FaultKind) -> None:
    scene = await set_scene(Fault(kind))
    failure = await scene.grade()
    assert isinstance(failure, Failure)
    assert (failure.stage, failure.code, failure.attempts) == (Stage.GRADER, FailureCode.INVALID_SCORE, 3)
    assert failure.endpoint == "judge"


@pytest.mark.parametrize("kind", NO_JSON)
async def test_what_is_no_json_comes_from_a_grader_that_is_down(set_scene: SetScene, kind: FaultKind) -> None:
    """An error page with status 200, say: enough of them open the breaker."""
    failure = await (await set_scene(Fault(kind))).grade()
    assert isinstance(failure, Failure)
    assert (failure.stage, failure.code, failure.attempts) == (Stage.GRADER, FailureCode.INVALID_REPLY, 3)
    assert failure.code in DOWN_CODES


@pytest.mark.parametrize("status", [408, 421, 425])
async def test_a_4xx_that_only_asks_to_be_sent_again_is(set_scene: SetScene, status: int) -> None:
    failure = await (await set_scene(Fault(FaultKind.STATUS, status=status))).grade()
    assert isinstance(failure, Failure)
    assert (failure.code, failure.status, failure.attempts) == (FailureCode.SERVER_ERROR, status, 3)


async def test_a_4xx_of_a_grader_is_final(set_scene: SetScene) -> None:
    statuses = [status for status in range(400, 500) if status not in (408, 421, 425, 429)]
    body = b"key sesame-open is unknown"
    scene = await set_scene(*(Fault(FaultKind.STATUS, status=status, body=body) for status in statuses))
    for status in statuses:
        code = FailureCode.UNAUTHORIZED if status in (401, 403, 407) else FailureCode.REJECTED
        failure = await scene.grade()
        assert isinstance(failure, Failure)
        assert (failure.code, failure.status, failure.attempts) == (code, status, 1)
        assert "is unknown" in failure.message
        assert "sesame" not in failure.message
    assert len(scene.endpoint.calls) == len(statuses)


async def test_a_passing_failure_is_retried_and_graded(set_scene: SetScene) -> None:
    scene = await set_scene()
    scene.endpoint.faults = FaultSequence([Fault(FaultKind.STATUS), Fault(FaultKind.NAN_SCORE)])
    grade = await scene.grade()
    assert isinstance(grade, Grade)
    assert grade.attempts == 3


@pytest.mark.parametrize("kind", [FaultKind.OVERSIZE, FaultKind.BOMB])
async def test_an_oversize_reply_of_a_grader_is_a_failure(set_scene: SetScene, kind: FaultKind) -> None:
    failure = await (await set_scene(Fault(kind))).grade()
    assert isinstance(failure, Failure)
    assert failure.code is FailureCode.OVERSIZE_REPLY


async def test_a_trace_beyond_the_cap_is_sent_with_its_tool_outputs_cut(set_scene: SetScene) -> None:
    scene = await set_scene(caps=SizeCaps(request_bytes=5000))
    assert isinstance(await scene.grade(finished(tool_output="y" * 50_000)), Grade)
    trace = json.loads(scene.endpoint.calls[0].body)["sample"]["trace"]
    assert trace["is_shortened"] is True
    assert "[cut: 50,000 characters]" in trace["messages"][2]["content"]
    large: JsonObject = {"messages": [], "notes": "z" * 50_000}
    too_large = await scene.gateway.grade(finished(), item=large, trace_id="trace_abc")
    assert isinstance(too_large, Failure)
    assert too_large.code is FailureCode.OVERSIZE_REQUEST


async def test_a_long_answer_beside_a_large_row_is_sent_whole_and_the_trace_is_cut(set_scene: SetScene) -> None:
    scene = await set_scene(caps=SizeCaps(request_bytes=100_000))
    item: JsonObject = {"messages": [], "notes": "x" * 50_000}
    asked, called, *rest = finished(answer="z" * 16_000).messages
    call = ToolCall(call_id="call_1", name="add", arguments=json.dumps({"a": "y" * 10_000}))
    trace = replace(finished(), messages=(asked, called.model_copy(update={"tool_calls": (call,)}), *rest))
    assert isinstance(await scene.gateway.grade(trace, item=item, trace_id="trace_abc"), Grade)
    sample = json.loads(scene.endpoint.calls[0].body)["sample"]
    assert (len(sample["output_text"]), sample["trace"]["is_shortened"]) == (16_000, True)
    assert sample["output_tools"][0]["function"]["arguments"] == call.arguments
    assert len(sample["choices"][0]["message"]["content"]) == 16_000
    first, *_, last = sample["trace"]["messages"]
    assert last["content"].endswith("z\n[cut: 16,000 characters]")
    assert first["tool_calls"][0]["function"]["arguments"].endswith("y\n[cut: 10,009 characters]")


async def test_an_answer_that_does_not_fit_beside_its_row_gets_the_invalid_grade(set_scene: SetScene) -> None:
    """To leave it out of the training, as a failure of the endpoint, would reward its length."""
    scene = await set_scene(caps=SizeCaps(request_bytes=100_000))
    item: JsonObject = {"messages": [], "notes": "x" * 50_000}
    grade = await scene.gateway.grade(finished(answer="z" * 60_000), item=item, trace_id="trace_abc")
    assert isinstance(grade, Grade)
    assert (grade.reward, grade.is_invalid, grade.model_errors) == (-1.0, True, ("sample_parse_error",))
    assert "too long to be sent" in (grade.error_details or "")
    assert not scene.endpoint.calls


async def test_a_short_answer_that_does_not_fit_beside_its_row_is_not_at_fault(set_scene: SetScene) -> None:
    """The row and what tools put out leave too little room for any answer."""
    scene = await set_scene(caps=SizeCaps(request_bytes=100_000))
    for free in range(0, 4_000, 250):
        item: JsonObject = {"messages": [], "notes": "x" * (98_500 - free)}
        trace = finished(tool_output="木" * 1_000)
        outcome = await scene.gateway.grade(trace, item=item, trace_id="trace_abc")
        assert isinstance(outcome, Failure) or not outcome.is_invalid
    assert scene.endpoint.calls


@pytest.mark.parametrize(("caps", "cuts"), [(None, 0), (SizeCaps(request_bytes=25_000), 1)])
async def test_a_conversation_is_cut_no_more_often_than_it_takes_to_fit(
    set_scene: SetScene, monkeypatch: pytest.MonkeyPatch, caps: SizeCaps | None, cuts: int
) -> None:
    made = list[int]()

    def counted(body: JsonObject, *, max_chars: int) -> JsonObject:
        made.append(max_chars)
        return contract.shorten_outputs(body, max_chars=max_chars)

    monkeypatch.setattr(gateway, "shorten_outputs", counted)
    scene = await set_scene(caps=caps)
    trace = finished(tool_output="x" * 30_000)
    assert isinstance(await scene.gateway.grade(trace, item=ITEM, trace_id="trace_abc"), Grade)
    assert len(made) == cuts


async def test_nothing_of_what_tools_said_is_cut_where_the_row_alone_is_too_much(set_scene: SetScene) -> None:
    """The prompt is in the row: to leave it out of the trace costs the grader nothing."""
    scene = await set_scene(caps=SizeCaps(request_bytes=100_000))
    prompt, output = "x" * 60_000, "y" * 3_000 + " ANSWER=42"
    item: JsonObject = {"messages": [{"role": "user", "content": prompt}]}
    asked, *said = finished(tool_output=output).messages
    trace = replace(finished(), messages=(asked.model_copy(update={"content": prompt}), *said))
    assert isinstance(await scene.gateway.grade(trace, item=item, trace_id="trace_abc"), Grade)
    sent = json.loads(scene.endpoint.calls[0].body)["sample"]["trace"]
    assert sent["prompt_messages"] == 0
    assert [message["content"] for message in sent["messages"] if message["role"] == "tool"] == [output]


async def test_a_row_that_fits_once_and_not_twice_is_sent_once(set_scene: SetScene) -> None:
    scene = await set_scene(caps=SizeCaps(request_bytes=100_000))
    prompt = "x" * 60_000
    item: JsonObject = {"messages": [{"role": "user", "content": prompt}], "answer": "4"}
    asked, *said, last = finished(tool_output="y" * 1_000).messages
    thinking = last.model_copy(update={"reasoning_content": "hm " * 20_000})
    trace = replace(finished(), messages=(asked.model_copy(update={"content": prompt}), *said, thinking))
    grade = await scene.gateway.grade(trace, item=item, trace_id="trace_abc")
    assert isinstance(grade, Grade)
    body = json.loads(scene.endpoint.calls[0].body)
    assert body["item"]["messages"][0]["content"] == prompt
    sent = body["sample"]["trace"]
    assert (sent["is_shortened"], sent["prompt_messages"]) == (True, 0), "what the model said still begins there"
    assert [message["role"] for message in sent["messages"]] == ["assistant", "tool", "assistant"]
    message = body["sample"]["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"][-24:]) == ("4", "[cut: 60,000 characters]")
