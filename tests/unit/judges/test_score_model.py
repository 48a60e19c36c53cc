"""`score_model`: a number from a judge, or a failure; never a zero in place of an answer."""

import json

import pytest

from rft.core.failure import Failure, FailureCode
from rft.core.grade import Grade, TokenUsage
from rft.core.graders import JudgeMessage, SamplingParams, ScoreModelGrader
from rft.grader_gateway.builtin.score_model import ScoreModelJudge
from rft.grader_gateway.judge import CUT_OFF, REFUSED
from rft.grader_gateway.judge_answer import UNREADABLE
from rft.testing.faults import Fault, FaultKind, FaultSequence
from rft.testing.judge import Completion, ScriptedJudge
from tests.unit.judges.conftest import Court, answered, sent

ITEM = {"answer": "42"}
SPEC = ScoreModelGrader(
    name="close",
    model="judge-1",
    input=(
        JudgeMessage(role="developer", content="Compare with {{ item.answer }}."),
        JudgeMessage(role="user", content="Answer: {{sample.output_text}}"),
    ),
)


def verdict(result: object) -> str:
    return json.dumps({"steps": [{"description": "d", "conclusion": "c"}], "result": result})


async def grade(court: Court, judge: ScriptedJudge, spec: ScoreModelGrader = SPEC, text: str = "41") -> Grade | Failure:
    async with court(judge) as room:
        grader = ScoreModelJudge(room.client, spec, room.server, "sk-judge", "job")
        return await grader.grade(answered(text), item=dict(ITEM), trace_id="trace_1")


async def test_the_judge_reads_the_rendered_messages_and_its_number_is_the_reward(court: Court) -> None:
    judge = ScriptedJudge(Completion(verdict(0.75), cached_tokens=30), api_key="sk-judge")

    graded = await grade(court, judge)

    assert isinstance(graded, Grade)
    assert (graded.reward, graded.scores, graded.grader, graded.attempts) == (0.75, {"close": 0.75}, "close", 1)
    assert graded.usage == {"judge-1": TokenUsage(prompt_tokens=100, completion_tokens=20, cached_tokens=30)}
    assert graded.reply == verdict(0.75), "people can read why"
    assert graded.request is not None
    assert json.loads(graded.request) == sent(judge)[0], "and what was asked"
    system, user = sent(judge)[0]["messages"]
    assert system["role"] == "system", "few open models know a developer"
    assert system["content"].startswith("Compare with 42.")
    assert "from 0 to 1" in system["content"]
    assert user == {"role": "user", "content": "Answer: 41"}
    assert sent(judge)[0]["response_format"]["type"] == "json_schema"


async def test_the_sampling_parameters_go_along_and_absent_ones_are_left_to_the_server(court: Court) -> None:
    judge = ScriptedJudge(verdict(1))
    sampling = SamplingParams(temperature=0.0, seed=7, max_completion_tokens=300)

    await grade(court, judge, SPEC.model_copy(update={"sampling_params": sampling}))

    body = sent(judge)[0]
    assert (body["temperature"], body["seed"], body["max_completion_tokens"]) == (0.0, 7, 300)
    assert "top_p" not in body
    assert "reasoning_effort" not in body


async def test_numbers_beyond_the_range_are_clamped_to_it(court: Court) -> None:
    spec = SPEC.model_copy(update={"range": (1.0, 5.0)})

    low = await grade(court, ScriptedJudge(verdict(-3)), spec)
    high = await grade(court, ScriptedJudge(verdict(17)), spec)

    assert isinstance(low, Grade)
    assert isinstance(high, Grade)
    assert (low.reward, high.reward) == (1.0, 5.0)


@pytest.mark.parametrize(
    ("answer", "detail", "message"),
    [
        (Completion("I would say it is quite good."), UNREADABLE, "gave no number"),
        (Completion(verdict("high")), UNREADABLE, "gave no number"),
        (Completion(verdict(True)), UNREADABLE, "gave no number"),
        (Completion('{"result": NaN}'), UNREADABLE, "gave no number"),
        (Completion(""), UNREADABLE, "empty answer"),
        (Completion(None, refusal="I cannot judge this."), REFUSED, "refused to judge"),
        (Completion(None, finish_reason="content_filter"), REFUSED, "content filter"),
        (Completion('{"steps": [', finish_reason="length"), CUT_OFF, "ran out of tokens"),
    ],
)
async def test_an_answer_without_a_number_is_asked_for_again_and_then_a_failure(
    court: Court, answer: Completion, detail: str, message: str
) -> None:
    judge = ScriptedJudge(answer)

    failed = await grade(court, judge)

    assert isinstance(failed, Failure)
    assert (failed.code, failed.detail, failed.attempts) == (FailureCode.INVALID_SCORE, detail, 3)
    assert message in failed.message
    assert len(judge.calls) == 3
    assert failed.usage == {"judge-1": TokenUsage(prompt_tokens=300, completion_tokens=60)}, "each answer was paid for"


async def test_a_verdict_that_the_judge_only_thought_of_is_none(court: Court) -> None:
    thought = f"<think>Perhaps {verdict(1)}? No.</think>"

    graded = await grade(court, ScriptedJudge([f"{thought}It is good.", f"{thought}0.25"]))

    assert isinstance(graded, Grade)
    assert (graded.reward, graded.attempts) == (0.25, 2)


async def test_a_second_answer_that_can_be_read_counts_and_both_are_paid_for(court: Court) -> None:
    graded = await grade(court, ScriptedJudge(["well...", verdict(0.5)]))

    assert isinstance(graded, Grade)
    assert (graded.reward, graded.attempts) == (0.5, 2)
    assert graded.usage["judge-1"] == TokenUsage(prompt_tokens=200, completion_tokens=40)


async def test_a_judge_that_is_down_is_a_failure_and_not_a_zero(court: Court) -> None:
    down = FaultSequence([Fault(FaultKind.STATUS, status=503)], last_stays=True)

    failed = await grade(court, ScriptedJudge(verdict(1), faults=down))

    assert isinstance(failed, Failure)
    assert (failed.code, failed.detail, failed.status) == (FailureCode.SERVER_ERROR, None, 503)
    assert failed.usage == {}


async def test_tokens_of_an_unreadable_answer_are_counted_when_the_judge_goes_down_after_it(court: Court) -> None:
    down_later = FaultSequence([None, Fault(FaultKind.STATUS, status=503)], last_stays=True)

    failed = await grade(court, ScriptedJudge("well...", faults=down_later))

    assert isinstance(failed, Failure)
    assert failed.code is FailureCode.SERVER_ERROR
    assert failed.usage == {"judge-1": TokenUsage(prompt_tokens=100, completion_tokens=20)}


async def test_a_server_that_knows_no_schemas_is_asked_without_from_then_on(court: Court) -> None:
    judge = ScriptedJudge(f"Sure!\n```json\n{verdict(0.25)}\n```", takes_schema=False)
    async with court(judge) as room:
        grader = ScoreModelJudge(room.client, SPEC, room.server)
        first = await grader.grade(answered("41"), item=dict(ITEM), trace_id="trace_1")
        second = await grader.grade(answered("40"), item=dict(ITEM), trace_id="trace_2")

    assert isinstance(first, Grade)
    assert isinstance(second, Grade)
    assert ["response_format" in body for body in sent(judge)] == [True, False, False]


async def test_a_wrong_key_is_a_failure_that_does_not_repeat_the_key(court: Court) -> None:
    failed = await grade(court, ScriptedJudge(verdict(1), api_key="another"))

    assert isinstance(failed, Failure)
    assert (failed.code, failed.status) == (FailureCode.UNAUTHORIZED, 401)
    assert "sk-judge" not in failed.model_dump_json()


@pytest.mark.parametrize(("ordered", "worst"), [((1.0, 5.0), 0.0), ((-10.0, 0.0), -10.0), ((-1.0, 1.0), -1.0)])
async def test_an_answer_that_lacks_what_a_template_names_gets_no_more_than_the_worst_score_without_asking(
    court: Court, ordered: tuple[float, float], worst: float
) -> None:
    judge = ScriptedJudge(verdict(5))
    message = JudgeMessage(role="user", content="{{ sample.output_json.total }}")

    graded = await grade(court, judge, SPEC.model_copy(update={"input": (message,), "range": ordered}), "no JSON")

    assert isinstance(graded, Grade)
    assert (graded.reward, graded.model_errors, graded.is_invalid) == (worst, ("sample_parse_error",), True)
    assert judge.calls == []


@pytest.mark.parametrize("wanted", [-1.0, 0.0])
async def test_such_an_answer_gets_the_invalid_grade_that_was_ordered(court: Court, wanted: float) -> None:
    message = JudgeMessage(role="user", content="{{ sample.output_json.total }}")
    spec = SPEC.model_copy(update={"input": (message,), "range": (1.0, 5.0), "invalid_grade": wanted})

    graded = await grade(court, ScriptedJudge(verdict(5)), spec, "no JSON")

    assert isinstance(graded, Grade)
    assert (graded.reward, graded.is_invalid) == (wanted, True)


async def test_an_answer_longer_than_the_judges_context_is_graded_as_one_that_cannot_be_judged(court: Court) -> None:
    """Left out of the training, its length would cost nothing; held, the job would wait for what no wait can mend."""
    judge = ScriptedJudge(verdict(0.5), context_chars=8_000)
    spec = SPEC.model_copy(update={"range": (-1.0, 1.0)})

    graded = await grade(court, judge, spec, "word " * 3_000)

    assert isinstance(graded, Grade)
    assert (graded.reward, graded.model_errors, graded.is_invalid) == (-1.0, ("sample_parse_error",), True)
    assert "context_length_exceeded" in (graded.error_details or "")
    assert graded.usage == {"judge-1": TokenUsage(prompt_tokens=100, completion_tokens=20)}
    assert ["response_format" in body for body in sent(judge)] == [True, True], "asked for no other reason"
    assert isinstance(await grade(court, judge, spec, "short"), Grade)


async def test_whatever_a_template_takes_of_a_long_conversation_is_left_out_when_it_is_asked_of_the_rest(
    court: Court,
) -> None:
    """A judge that finds nothing to judge there has shown all the same that the rest fits."""
    judge = ScriptedJudge("There is nothing to rate.", context_chars=8_000)
    parts = "{{ sample.choices[0].message.content }}{{ sample.trace.messages[-1].content }}"
    message = JudgeMessage(role="user", content=parts)

    graded = await grade(court, judge, SPEC.model_copy(update={"input": (message,)}), "word " * 3_000)

    assert isinstance(graded, Grade)
    assert (graded.reward, graded.model_errors) == (0.0, ("sample_parse_error",))
    assert sent(judge)[1]["messages"][-1]["content"] == "......"


async def test_a_row_longer_than_the_judges_context_is_the_orders_failure(court: Court) -> None:
    judge = ScriptedJudge(verdict(0.5), context_chars=8_000)
    message = JudgeMessage(role="user", content="x" * 9_000 + "{{ sample.output_text }}")

    failed = await grade(court, judge, SPEC.model_copy(update={"input": (message,)}))

    assert isinstance(failed, Failure)
    assert failed.code is FailureCode.OVERSIZE_REQUEST
    assert "maximum context length" in failed.message


async def test_a_judge_that_breaks_while_it_is_asked_of_less_is_the_failure_that_it_is(court: Court) -> None:
    gone = Fault(FaultKind.STATUS, status=503)
    judge = ScriptedJudge(verdict(0.5), context_chars=8_000, faults=FaultSequence([None, gone], last_stays=True))

    failed = await grade(court, judge, text="word " * 3_000)

    assert isinstance(failed, Failure)
    assert failed.code is FailureCode.SERVER_ERROR


async def test_a_row_that_lacks_what_a_template_names_is_a_failure(court: Court) -> None:
    message = JudgeMessage(role="user", content="{{ sample.output_json.total }} {{ item.missing }}")

    failed = await grade(court, ScriptedJudge(verdict(1)), SPEC.model_copy(update={"input": (message,)}))

    assert isinstance(failed, Failure)
    assert failed.code is FailureCode.INVALID_VARIABLE


async def test_messages_that_become_megabytes_together_are_a_failure_without_asking(court: Court) -> None:
    message = JudgeMessage(role="user", content="{{ sample.output_text }}")
    judge = ScriptedJudge(verdict(1))

    failed = await grade(court, judge, SPEC.model_copy(update={"input": (message,) * 50}), "x" * 100_000)

    assert isinstance(failed, Failure)
    assert (failed.code, judge.calls) == (FailureCode.OVERSIZE_REQUEST, [])
    assert "more than 4,194,304 characters" in failed.message
