"""What a grader is sent, and what of its answer counts: the wire's shape, without a socket."""

import json
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.failure import FailureCode
from rft.core.finished_trace import FinishedTrace
from rft.core.messages import Message, Role, ToolSchema
from rft.egress.reply import AttemptFailure, Reply
from rft.grader_gateway.contract import read_score, shorten_outputs, to_item, to_sample, to_wire, without_prompt

from .traces import CALL, ITEM, finished


@pytest.mark.parametrize("choices", [[], "none", [{"message": "text"}], [{"message": {"reasoning_content": 1}}]])
def test_choices_from_elsewhere_are_left_as_they_are(choices: JsonValue) -> None:
    body = to_wire(replace(finished(), given={"choices": choices}), item={}, trace_id="t")
    assert cast("JsonObject", without_prompt(body, max_chars=2)["sample"])["choices"] == choices


async def test_the_sample_has_the_shape_of_the_contract() -> None:
    sample = to_sample(replace(finished(answer='{"value": 4}'), has_json=True))
    call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 2}'}}
    trace = cast("JsonObject", sample.pop("trace"))
    assert sample == {
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": '{"value": 4}', "tool_calls": []},
            }
        ],
        "finish_reason": "stop",
        "output_text": '{"value": 4}',
        "output_json": {"value": 4},
        "output_tools": [call],
        "output_audio": None,
        "input_tools": [],
        "output_reasoning_summary": None,
        "model": "ft:starter",
    }
    messages = cast("list[JsonObject]", trace["messages"])
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[2] == {"role": "tool", "content": "4", "tool_call_id": "call_1", "name": "add"}
    assert trace["prompt_messages"] == 1


def test_thoughts_reach_the_grader_beside_what_was_said_and_are_cut_with_the_outputs() -> None:
    trace = finished(answer="4")
    thinking = tuple(
        message.model_copy(update={"reasoning_content": f"hm {number}"}) if message.role is Role.ASSISTANT else message
        for number, message in enumerate(trace.messages)
    )
    body = to_wire(replace(trace, messages=thinking), item={}, trace_id="t")
    sample = cast("dict[str, Any]", body["sample"])
    assert sample["choices"][0]["message"] == {
        "role": "assistant",
        "content": "4",
        "tool_calls": [],
        "reasoning_content": "hm 3",
    }
    assert sample["output_text"] == "4"
    told = [message.get("reasoning_content") for message in sample["trace"]["messages"]]
    assert told == [None, "hm 1", None, "hm 3"]
    cut = cast("dict[str, Any]", shorten_outputs(body, max_chars=2)["sample"])["trace"]["messages"]
    assert (cut[1]["reasoning_content"], cut[1]["content"]) == ("hm\n[cut: 4 characters]", "let me see")


@pytest.mark.parametrize(("finish_reason", "calls"), [("tool_calls", ["add"]), ("stop", []), ("length", [])])
def test_a_choice_holds_calls_where_they_are_what_is_judged(finish_reason: str, calls: list[str]) -> None:
    messages = (Message(role=Role.USER, content="2+2?"), Message(role=Role.ASSISTANT, content="", tool_calls=(CALL,)))
    sample = cast("Any", to_sample(FinishedTrace(messages, prompt_messages=1, finish_reason=finish_reason, model="m")))
    [choice] = sample["choices"]
    assert (sample["finish_reason"], choice["finish_reason"]) == (finish_reason, finish_reason)
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == calls
    assert [call["function"]["name"] for call in sample["output_tools"]] == ["add"]


def test_an_empty_answer_still_reaches_the_grader() -> None:
    messages = (Message(role=Role.USER, content="2+2?"), Message(role=Role.ASSISTANT, content="", tool_calls=(CALL,)))
    trace = FinishedTrace(messages=messages, prompt_messages=1, finish_reason="length", model="m", has_json=True)
    sample = to_sample(trace)
    assert (sample["output_text"], sample["output_json"]) == ("", None)
    assert to_sample(FinishedTrace(messages[:1], 1, "stop", "m"))["output_text"] == ""


@pytest.mark.parametrize(
    "text", ["null", "", " ", "{", '{"a": NaN}', "Infinity", "1e999", "[-1e999]", "[" * 100_000, "text {}", "9" * 5000]
)
def test_output_json_is_null_unless_the_answer_is_json(text: str) -> None:
    assert to_sample(replace(finished(answer=text), has_json=True))["output_json"] is None


@pytest.mark.parametrize("value", [42, -0.5, "a", True, [1, "b"], {"total": {"deep": None}}])
def test_an_answer_that_is_json_of_any_kind_is_told_as_json(value: JsonValue) -> None:
    assert to_sample(replace(finished(answer=f" {json.dumps(value)}\n"), has_json=True))["output_json"] == value


@pytest.mark.parametrize("text", ["41", '{"answer": 41}', "[41]", '"41"'])
def test_output_json_is_null_where_no_json_was_asked_for(text: str) -> None:
    sample = to_sample(finished(answer=text))
    assert (sample["output_text"], sample["output_json"]) == (text, None)


@given(st.text())
def test_whatever_the_answer_is_the_sample_is_json(text: str) -> None:
    assert json.loads(json.dumps(to_sample(finished(answer=text)), allow_nan=False))["output_text"] == text


def test_the_tools_that_the_model_knew_are_told() -> None:
    parameters: JsonObject = {"type": "object", "properties": {"a": {"type": "number"}}}
    tool = ToolSchema(name="add", description="Adds.", parameters=parameters)
    assert to_sample(replace(finished(), tools=(tool,)))["input_tools"] == [
        {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": parameters}}
    ]


def test_a_row_has_tools_and_names_even_where_they_are_null() -> None:
    row: JsonObject = {"messages": [{"role": "user", "content": "2+2?"}, {"role": "user", "name": "ann"}], "answer": 4}
    assert to_item(row) == {
        "messages": [{"role": "user", "content": "2+2?", "name": None}, {"role": "user", "name": "ann"}],
        "tools": None,
        "answer": 4,
    }
    assert to_item({**row, "tools": []})["tools"] == []
    assert row["messages"] == [{"role": "user", "content": "2+2?"}, {"role": "user", "name": "ann"}], "a copy"
    free: JsonObject = {"answer": 4}
    assert to_item(free) == free, "no row, nothing added"


def test_only_tool_outputs_are_cut() -> None:
    body = to_wire(finished(answer="a" * 100, tool_output="b" * 100), item=ITEM, trace_id="t")
    messages = cast("JsonObject", cast("JsonObject", shorten_outputs(body, max_chars=10)["sample"])["trace"])[
        "messages"
    ]
    contents = [str(cast("JsonObject", message)["content"]) for message in cast("list[object]", messages)]
    assert contents[3] == "a" * 100
    assert contents[2].startswith("b" * 10 + "\n[cut")


@given(st.binary(max_size=60) | st.floats().map(lambda x: json.dumps({"score": x}).encode()))
def test_whatever_a_grader_answers_is_a_finite_number_or_a_failure(body: bytes) -> None:
    score = read_score(Reply(200, {}, body, 0.0))
    assert isinstance(score, AttemptFailure) or abs(score) < float("inf")


@pytest.mark.parametrize("more", [b'"\\ud800"', b"9" * 5000, b"[" * 300 + b"]" * 300, b"NaN"])
def test_what_is_odd_beside_a_score_keeps_nobody_from_it(more: bytes) -> None:
    assert read_score(Reply(200, {}, b'{"score": 0.5, "why": ' + more + b"}", 0.0)) == 0.5


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_number_beyond_all_floats_is_no_grade(digits: int) -> None:
    score = read_score(Reply(200, {}, b'{"score": -1' + b"0" * digits + b"}", 0.0))
    assert isinstance(score, AttemptFailure)
    assert score.code is FailureCode.INVALID_SCORE
