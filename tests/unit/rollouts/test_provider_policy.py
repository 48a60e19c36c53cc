"""A provider's model in rollouts of messages, over real sockets: what is sent, what is a turn, and who is blamed."""

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Fault, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.messages import Message, Role, ToolCall
from rft.core.response_format import ResponseFormat
from rft.core.rollout import StopReason
from rft.core.spec import Budgets
from rft.rollouts.chat_policy import ChatFinish, ChatTurn, ChatUsage
from rft.rollouts.message_rollout import MessageSetup, run_message_rollout
from rft.rollouts.provider_policy import ProviderPolicy
from rft.rollouts.provider_wire import CONTENT_FILTER
from rft.testing.chat_policies import chat_call
from rft.testing.faults import HttpAnswer
from rft.testing.provider import completion, provider_error
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from tests.unit.rollouts.providers import KEY, QUESTION, SEARCH, asked, policy_of, said_to, sent, turn_of


def message_setup(policy: ProviderPolicy, budgets: Budgets | None = None) -> MessageSetup:
    async def look_up(call: ToolCall, trace_id: str) -> str:
        return f"found {call.arguments}"

    async def one(trace: FinishedTrace, trace_id: str) -> float:
        return 1.0

    return MessageSetup(
        policy=policy,
        tools=FunctionTools(look_up),
        grader=FunctionGrader(one),
        grader_name="grader",
        budgets=budgets or Budgets(),
        model_name="acme/small",
    )


async def test_a_whole_conversation_with_tools_is_graded(row: DatasetRow) -> None:
    async with policy_of([SEARCH * 2, "Four."]) as (policy, provider):
        rollout = await run_message_rollout(row, message_setup(policy))
    assert isinstance(rollout.outcome, Grade)
    assert (rollout.stop_reason, rollout.messages[-1].content) == (StopReason.COMPLETED, "Four.")
    assert rollout.usage == ChatUsage(prompt_tokens=200, cached_tokens=80, completion_tokens=40, reasoning_tokens=10)
    assert rollout.models == ("small-2026",)
    system, user, called, *answers = sent(provider)["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert [call["id"] for call in called["tool_calls"]] == ["toolu_0", "toolu_1"]
    assert [call["function"]["arguments"] for call in called["tool_calls"]] == ['{"q": 1}'] * 2
    assert [(answer["tool_call_id"], answer["content"]) for answer in answers] == [
        ("toolu_0", 'found {"q": 1}'),
        ("toolu_1", 'found {"q": 1}'),
    ]


async def test_every_sampling_field_is_sent_and_the_key_in_its_header() -> None:
    schema: JsonObject = {"type": "object"}
    async with policy_of(["Four."], headers={"X-Team": "evals"}) as (policy, provider):
        await policy.complete(
            asked(
                temperature=0.5,
                top_p=0.9,
                seed=3,
                max_tokens=77,
                reasoning_effort="low",
                response_format=ResponseFormat(type="json_schema", json_schema=schema),
            )
        )
    body = sent(provider)
    assert (body["temperature"], body["top_p"], body["seed"], body["max_completion_tokens"]) == (0.5, 0.9, 3, 77)
    assert (body["model"], body["reasoning_effort"]) == ("small", "low")
    assert body["response_format"] == {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "search", "description": "Looks up.", "parameters": {"type": "object"}},
        }
    ]
    headers = provider.calls[-1].headers
    assert (headers["authorization"], headers["x-team"]) == (f"Bearer {KEY}", "evals")


async def test_fields_that_a_model_refuses_can_be_left_out() -> None:
    omitted = ("top_p", "seed")
    async with policy_of(["Four."], omit_fields=omitted, max_tokens_field="max_tokens") as (policy, provider):
        await policy.complete(asked(seed=3, max_tokens=5))
    body = sent(provider)
    assert (body["max_tokens"], body["temperature"]) == (5, 1.0)
    assert set(body).isdisjoint({*omitted, "max_completion_tokens"})


async def test_a_refused_field_is_named_with_what_to_do() -> None:
    refusal = provider_error(400, "Unsupported parameter: 'top_p'", code="unsupported_parameter", param="top_p")
    said = await said_to(lambda body: refusal)
    assert isinstance(said, Failure)
    assert "Unsupported parameter: 'top_p'" in said.message
    assert "`top_p` in the provider's `omit_fields`" in said.message


async def test_a_base_url_with_a_query_keeps_it() -> None:
    async with policy_of(["Four."]) as (policy, provider):
        settings = cast("Any", policy)._settings
        client = cast("Any", policy)._client
        versioned = replace(settings, base_url=f"{settings.base_url}/?api-version=preview")
        assert isinstance(await ProviderPolicy(client, versioned, "small").complete(asked()), ChatTurn)
    assert (provider.calls[-1].path, provider.calls[-1].query) == ("/v1/chat/completions", "api-version=preview")


def message(content: object = "x", **more: object) -> JsonObject:
    return cast("JsonObject", {"role": "assistant", "content": content, **more})


def choice(said: JsonObject, reason: str | None = "stop") -> JsonObject:
    return {"index": 0, "finish_reason": reason, "message": said}


async def test_thoughts_refusals_and_parts_are_read() -> None:
    parts = [{"type": "text", "text": "Fo"}, {"type": "text", "text": "ur."}]
    said = await turn_of(choice(message(parts, reasoning_content="two and two")))
    assert (said.content, said.reasoning, said.finish_reason) == ("Four.", "two and two", ChatFinish.STOP)
    refused = await turn_of(choice(message(None, refusal="I cannot.")))
    assert refused.content == "I cannot."
    in_parts = await turn_of(choice(message([{"type": "refusal", "refusal": "I cannot."}])))
    assert in_parts.content == "I cannot."


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<think>two and two</think>\n\nFour.", "two and two", "Four."),
        ("two and two\n</think>\nFour.", "two and two", "Four."),
        ("<think>two and", "two and", ""),
        ("Four.", "", "Four."),
    ],
)
async def test_thoughts_that_a_server_leaves_in_the_text_are_no_answer(text: str, thought: str, answer: str) -> None:
    said = await turn_of(choice(message(text)))
    assert (said.reasoning, said.content) == (thought, answer)


async def test_what_nobody_could_store_is_replaced() -> None:
    raw = [{"id": "\ud800", "function": {"name": "search", "arguments": '{"q": "\ud800"}'}}]
    said = await turn_of(choice(message("Four\udfff", tool_calls=raw), "tool_calls"))
    assert said.content == "Four\ufffd"
    assert said.tool_calls[0].arguments == '{"q": "\ufffd"}'
    assert said.tool_calls[0].call_id.encode()


@pytest.mark.parametrize("reason", ["length", "max_tokens"])
async def test_a_turn_cut_in_the_middle_of_a_call_is_cut(reason: str) -> None:
    half = {"id": "c", "type": "function", "function": {"name": "search", "arguments": '{"q": '}}
    said = await turn_of(choice(message(None, tool_calls=[half]), reason))
    assert said.finish_reason is ChatFinish.LENGTH
    assert said.tool_calls[0].arguments == '{"q": '


async def test_calls_in_any_shape_are_read_or_have_no_name() -> None:
    raw: list[object] = [
        {"id": "a", "function": {"name": "search", "arguments": "{no json"}},
        {"id": "a", "function": {"name": "search", "arguments": {"q": 1}}},
        {"function": {"name": "search"}},
        {"function": {"name": "search", "arguments": ""}},
        {"id": "", "function": {"name": 7, "arguments": "{}"}},
        "nonsense",
    ]
    said = await turn_of(choice(message(None, tool_calls=raw), "tool_calls"))
    assert [call.name for call in said.tool_calls] == ["search", "search", "search", "search", "", ""]
    assert [call.arguments for call in said.tool_calls[:4]] == ["{no json", '{"q": 1}', "{}", "{}"]
    assert len({call.call_id for call in said.tool_calls}) == 6
    assert said.tool_calls[0].call_id == "a"


async def test_calls_that_are_no_json_are_sent_back_wrapped() -> None:
    """Servers that read arguments would refuse the conversation, and the model's mistake would become a failure."""
    called = Message(role=Role.ASSISTANT, content="", tool_calls=(chat_call("search", "{no json", "a"),))
    answered = Message(role=Role.TOOL, content="Error", tool_call_id="a")
    async with policy_of(lambda body: "Four.") as (policy, provider):
        await policy.complete(asked(QUESTION, called, answered))
    (function,) = [call["function"] for call in sent(provider)["messages"][1]["tool_calls"]]
    assert json.loads(function["arguments"]) == {"unreadable_arguments": "{no json"}


async def test_answers_of_a_row_are_sent_in_the_order_of_their_calls() -> None:
    """Servers of open models show them to templates without ids."""
    called = Message(
        role=Role.ASSISTANT, content="", tool_calls=(chat_call("search", "{}", "a"), chat_call("search", "{}", "b"))
    )
    answers = [Message(role=Role.TOOL, content=call_id, tool_call_id=call_id) for call_id in "ba"]
    async with policy_of(lambda body: "Four.") as (policy, provider):
        await policy.complete(asked(QUESTION, called, *answers))
    assert [message.get("tool_call_id") for message in sent(provider)["messages"]] == [None, None, "a", "b"]


def body_of(said: JsonObject) -> HttpAnswer:
    return HttpAnswer(200, json.dumps(said).encode())


def changed(**fields: object) -> HttpAnswer:
    return body_of(cast("JsonObject", {**completion({"model": "small"}, "Four."), **fields}))


NO_TOKENS = {"prompt_tokens": 9, "completion_tokens": 0}
NO_TURNS: dict[str, HttpAnswer] = {
    "prose": HttpAnswer(200, b"The service is being updated."),
    "html": HttpAnswer(200, b"<html></html>", {"content-type": "text/html"}),
    "an empty body": HttpAnswer(200, b""),
    "a list": HttpAnswer(200, b"[]"),
    "an error with status 200": body_of({"error": {"message": "upstream down", "code": 502}}),
    "no choices": changed(choices=[]),
    "choices that are null": changed(choices=None),
    "a choice without a message": changed(choices=[{"finish_reason": "stop"}]),
    "a message that is null": changed(choices=[{"finish_reason": "stop", "message": None}]),
    "no finish reason": changed(choices=[choice(message(), None)]),
    "an unknown finish reason": changed(choices=[choice(message(), "error")]),
    "calls that are not there": changed(choices=[choice(message(None), "tool_calls")]),
    "not a single token": changed(choices=[choice(message(""))], usage=NO_TOKENS),
    "not a single token, and cut": changed(choices=[choice(message(""), "length")], usage=NO_TOKENS),
    "nothing, and no word of tokens": changed(choices=[choice(message(""))], usage=None),
}


@pytest.mark.parametrize("what", NO_TURNS)
async def test_what_is_no_turn_is_asked_for_again_and_then_a_failure(what: str) -> None:
    async with policy_of(lambda body: NO_TURNS[what]) as (policy, provider):
        said = await policy.complete(asked())
    assert isinstance(said, Failure)
    assert (said.stage, said.code, said.fault) == (Stage.SAMPLER, FailureCode.INVALID_REPLY, Fault.ENDPOINT)
    assert (said.endpoint, said.attempts, len(provider.requests), said.detail) == ("acme", 3, 3, None)


async def test_what_is_no_turn_once_is_answered_at_the_next_attempt() -> None:
    answers = [NO_TURNS["prose"], "Four."]
    said = await said_to(lambda body: answers.pop(0))
    assert isinstance(said, ChatTurn)
    assert (said.content, said.attempts) == ("Four.", 2)


TOKENS = {"prompt_tokens": 3000, "completion_tokens": 800}
TOOK = ChatUsage(prompt_tokens=3000, completion_tokens=800)


@pytest.mark.parametrize("reason", ["length", "max_tokens"])
async def test_an_empty_turn_that_ran_out_of_tokens_is_the_models(reason: str) -> None:
    """Its server drops the thoughts that took them all, and does not tell how many they were."""
    said = await said_to(lambda body: changed(choices=[choice(message(""), reason)], usage=None))
    assert isinstance(said, ChatTurn)
    assert (said.content, said.finish_reason, said.attempts) == ("", ChatFinish.LENGTH, 1)


CUT, UNKNOWN = [choice(message("Fo"), "content_filter")], [choice(message(), "error")]


@pytest.mark.parametrize(
    ("answers", "took", "untold"),
    [
        ([changed(choices=CUT, usage=TOKENS)], TOOK, 0),
        ([changed(choices=CUT, usage=None)], ChatUsage(), 1),
        ([changed(choices=UNKNOWN, usage=TOKENS)] * 3, TOOK + TOOK + TOOK, 0),
        ([changed(choices=UNKNOWN, usage=TOKENS), changed(choices=UNKNOWN, usage=None), "Four."], TOOK, 1),
        ([NO_TURNS["html"], NO_TURNS["an error with status 200"], "Four."], ChatUsage(), 0),
        ([body_of({"error": "upstream down", "usage": cast("JsonObject", TOKENS)}), "Four."], TOOK, 0),
    ],
)
async def test_what_answers_without_a_turn_took_is_in_the_rollouts_figures(
    row: DatasetRow, answers: list[Any], took: ChatUsage, untold: int
) -> None:
    left = list(answers)
    async with policy_of(lambda body: left.pop(0)) as (policy, _):
        rollout = await run_message_rollout(row, message_setup(policy))
    in_turns = ChatUsage(prompt_tokens=100, cached_tokens=40, completion_tokens=20, reasoning_tokens=5)
    assert rollout.usage == (took + in_turns if rollout.turns else took)
    assert (rollout.turns_without_usage, rollout.answers_without_turn) == (untold, len(answers) - len(rollout.turns))


@pytest.mark.lengthy
async def test_what_an_answer_without_a_turn_took_is_told_though_the_deadline_ends_the_rollout(row: DatasetRow) -> None:
    async with policy_of(lambda body: changed(choices=UNKNOWN, usage=TOKENS)) as (policy, provider):

        def latency_s(_in_flight: int) -> float:
            return 60.0 if len(provider.calls) > 1 else 0.0

        provider.latency_s = latency_s
        rollout = await run_message_rollout(row, message_setup(policy, Budgets(deadline_s=1.0)))
    assert isinstance(rollout.outcome, Failure)
    assert (rollout.outcome.code, rollout.usage) == (FailureCode.DEADLINE_EXCEEDED, TOOK)


@pytest.mark.parametrize("usage", [None, {}, "many", {"completion_tokens": "7"}])
async def test_missing_usage_is_told_as_missing_and_not_as_zero(usage: object) -> None:
    said = await said_to(lambda body: changed(usage=usage))
    assert isinstance(said, ChatTurn)
    assert (said.content, said.usage) == ("Four.", None)


@pytest.mark.parametrize(
    "answer",
    [
        changed(choices=[choice(message("Fo"), "content_filter")]),
        provider_error(400, "The response was filtered", code="content_filter"),
    ],
)
async def test_a_content_filter_is_a_failure_of_its_own_and_not_repeated(answer: HttpAnswer) -> None:
    async with policy_of(lambda body: answer) as (policy, provider):
        said = await policy.complete(asked())
    assert isinstance(said, Failure)
    assert (said.code, said.detail, len(provider.requests)) == (FailureCode.REJECTED, CONTENT_FILTER, 1)
