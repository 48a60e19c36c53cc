"""What one side writes the other side reads, whatever the customer's texts hold."""

import math
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.attempt import Attempt
from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.graders import EndpointGrader, MultiGrader, StringCheckGrader
from rft.core.messages import ToolCall, ToolResult, ToolSchema
from rft.core.spec import RunSecrets, ToolServer
from rft.egress.breaker import BreakerState
from rft.egress.limits import BreakerChange
from rft.egress.reply import AttemptFailure
from rft.gateway_service.wire import Breakers, OpenBreaker, Problem, Refusal, decode, encode, refusal_message
from rft.grader_gateway.service_wire import GradeReply, GraderJob, RankReply
from rft.tool_gateway.service_wire import ToolCallReply, ToolCallRequest, ToolJob

TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
"""Lone surrogates included: a model may write them."""
KEYS = st.text(max_size=20)
"""Without them: keys come from dataset rows, which are refused where they hold one."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)
ITEMS = cast("st.SearchStrategy[JsonObject]", st.dictionaries(KEYS, VALUES, max_size=4))
ATTEMPT = Attempt(1.5, "trace_a", Stage.TOOL, "echo", "call_1", 2, FailureCode.TIMEOUT, None, 0.1, 0.2, 3, 4)


@given(item=ITEMS, arguments=TEXTS)
def test_a_call_arrives_as_it_was_sent(item: JsonObject, arguments: str) -> None:
    call = ToolCall(call_id="call_1", name="echo", arguments=arguments)
    request = ToolCallRequest(
        call=call, tools=(ToolSchema(name="echo", parameters=item),), item=item, trace_id="trace_a"
    )
    assert decode(ToolCallRequest, encode(request)) == request


def test_a_number_that_is_none_arrives_as_one() -> None:
    call = ToolCall(call_id="call_1", name="echo", arguments="{}")
    request = ToolCallRequest(call=call, tools=(), item={"x": math.nan, "y": [-math.inf]}, trace_id="trace_a")
    item = decode(ToolCallRequest, encode(request)).item
    assert math.isnan(cast("float", item["x"]))
    assert item["y"] == [-math.inf]


@given(reward=st.floats(allow_nan=False, allow_infinity=False), message=TEXTS)
def test_verdicts_come_back_as_they_were_given(reward: float, message: str) -> None:
    grade = Grade(reward=reward, scores={"judge": reward}, grader="judge", model_errors=("sample_parse_error",))
    failure = Failure(stage=Stage.GRADER, code=FailureCode.TIMEOUT, message=message, endpoint="judge")
    for outcome in (grade, failure):
        reply = GradeReply(outcome=outcome, attempts=(ATTEMPT,))
        assert decode(GradeReply, encode(reply)) == reply
    for group in ((grade, grade), failure):
        ranking = RankReply(outcome=group)
        assert decode(RankReply, encode(ranking)) == ranking


def test_results_and_orders_come_through_with_everything_in_them() -> None:
    failure = Failure(stage=Stage.TOOL, code=FailureCode.SERVER_ERROR, message="it answered 503", status=503)
    result = ToolResult(call_id="call_1", name="echo", output=None, failure=failure, attempts=3)
    reply = ToolCallReply(result=result, attempts=(ATTEMPT, ATTEMPT))
    assert decode(ToolCallReply, encode(reply)) == reply

    secrets = RunSecrets(tool_headers={"echo": {"X-Key": "sesame-open"}}, signing_secrets=("whsec_abc",))
    schema = ToolSchema(name="echo", parameters={"type": "object"})
    tools = ToolJob(tools=(ToolServer(name="echo", server_url="http://x/", schema_of_job=schema),), secrets=secrets)
    assert decode(ToolJob, encode(tools)) == tools
    parts = {"a": EndpointGrader(name="a", url="http://x/"), "b": StringCheckGrader(name="b", input="", reference="",
                                                                                    operation="eq")}  # fmt: skip
    grader = GraderJob(grader=MultiGrader(name="both", graders=dict(parts), calculate_output="a + b"), secrets=secrets)
    assert decode(GraderJob, encode(grader)) == grader


def test_a_breakers_news_is_told_as_it_was_announced() -> None:
    last = AttemptFailure(FailureCode.SERVER_ERROR, "answered 503", status=503)
    for change in (
        BreakerChange("http://x/", BreakerState.OPEN, last),
        BreakerChange("u", BreakerState.HALF_OPEN, None),
    ):
        sent = Breakers(open=(OpenBreaker.of(change),))
        assert decode(Breakers, encode(sent)).open[0].to_change() == change


def test_a_refusal_is_told_from_other_replies() -> None:
    refusal = Refusal(error=Problem(code="unknown_job", message="never heard of it"))
    assert refusal_message(encode(refusal)) == ("unknown_job", "never heard of it")
    assert refusal_message(b"<html>404</html>") == ("", "")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b"[]", "should be a valid dictionary"),
        (b'{"result": 5}', "should be a valid dictionary"),
        (b'{"unheard": 1}', "Field required"),
        (b"\xff", "can't decode byte"),
    ],
)
def test_what_is_no_record_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(ToolCallReply, body)
