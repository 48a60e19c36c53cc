"""A turn that has to call a tool is as the policy writes it where it does, and sampled again where not."""

import asyncio
import json
from typing import Any

import pytest

from rft.chat.call_grammar import CallShape, call_shape
from rft.core.base import JsonObject
from rft.core.messages import Message, Role, ToolSchema
from rft.core.spec import Budgets
from rft.rollouts.sampler import SampleRequest
from rft.serving.forced_calls import forced_calls
from rft.serving_wire.records import Choice, Event, Text
from rft.testing.samplers import ScriptedSampler, tool_call_text
from tests.unit.chat.models import opened
from tests.unit.serving.conversing import (
    A_NUMBER,
    TOKENIZER,
    choice_of,
    completions,
    events_of,
    prompt_and_choices,
    request,
    said,
    told_text,
)
from tests.unit.serving.test_as_in_a_rollout import row

TOOLS = tuple(ToolSchema(name=name, description="d", parameters=A_NUMBER) for name in ("add", "drop"))
FITS = tool_call_text("add", '{"n": 7}')
AND_DROPS = FITS + tool_call_text("drop", '{"n": 1}')


class Policy:
    """Writes `turn`; held to rules, `held`."""

    def __init__(self, turn: str, held: str = FITS) -> None:
        self._turn, self._held = turn, held
        self.requests: list[SampleRequest] = []

    def __call__(self, asked: SampleRequest, prompt: str) -> str:
        del prompt
        self.requests.append(asked)
        if asked.constraint is None:
            return self._turn
        assert isinstance(asked.constraint.grammar, str)
        allowed = asked.constraint.allowed
        written = TOKENIZER.encode(self._held)
        for end, token in enumerate(written):
            bits = allowed(written[:end])
            assert bits[token // 8] >> token % 8 & 1, TOKENIZER.decode(written[: end + 1])
        return self._held


def answer(
    policy: Policy,
    forced: tuple[str, ...] = ("add",),
    *,
    tools: tuple[ToolSchema, ...] = TOOLS,
    stop: tuple[str, ...] = (),
    is_streamed: bool = False,
    has_parallel_calls: bool = True,
    max_tokens: int | None = None,
) -> list[Event]:
    served = completions(ScriptedSampler(TOKENIZER, policy, max_context_tokens=10_000))
    asked = request(
        row().messages, tools, stop=stop, is_streamed=is_streamed, max_tokens=max_tokens,
        has_parallel_calls=has_parallel_calls,
    )  # fmt: skip
    return asyncio.run(events_of(served, asked.model_copy(update={"forced_calls": forced, "has_logprobs": True})))


def calls_of(choice: Choice) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in choice.tool_calls]


@pytest.mark.parametrize("written", [FITS, f"<think>hm</think>I add.\n{FITS}", AND_DROPS])
def test_a_turn_that_calls_is_taken_as_it_was_sampled(written: str) -> None:
    policy = Policy(written)
    choice = choice_of(answer(policy, ("add", "drop")))
    assert (calls_of(choice)[0], choice.finish_reason, len(policy.requests)) == (("add", {"n": 7}), "tool_calls", 1)
    assert TOKENIZER.decode(choice.token_ids) == written + "<|im_end|>"


@pytest.mark.parametrize(
    "misfit",
    [
        "It is 7.",
        "",
        tool_call_text("drop", '{"n": 1}'),
        FITS + tool_call_text("drop", '{"n": 1}'),
        tool_call_text("add", '{"n": "seven"}'),
        "<tool_call>{broken</tool_call>",
    ],
)
@pytest.mark.parametrize("thought", ["", "<think>hm</think>\n"])
def test_what_does_not_call_is_sampled_again_behind_the_same_thought(misfit: str, thought: str) -> None:
    policy = Policy(thought + misfit)
    choice = choice_of(answer(policy))
    assert (calls_of(choice), choice.content, choice.finish_reason) == ([("add", {"n": 7})], "", "tool_calls")
    assert choice.reasoning == ("hm" if thought else "")
    first, second = policy.requests
    before = TOKENIZER.decode(second.prompt_ids[len(first.prompt_ids) :])
    assert before == thought.rstrip("\n")
    assert TOKENIZER.decode(choice.token_ids) == before + FITS + "<|im_end|>"
    assert first.seed != second.seed


def test_a_turn_that_ends_within_its_thought_calls_behind_it() -> None:
    policy = Policy("<think>I wonder")
    choice = choice_of(answer(policy))
    assert TOKENIZER.decode(choice.token_ids) == f"<think>I wonder</think>{FITS}<|im_end|>"
    assert (calls_of(choice), choice.reasoning) == ([("add", {"n": 7})], "I wonder")
    closing = len(TOKENIZER.encode("</think>"))
    assert choice.completion_tokens == len(choice.token_ids) - closing, "nobody sampled the closing mark"


@pytest.mark.parametrize("name", ["add", "drop"])
def test_of_several_tools_the_policy_takes_which_it_likes(name: str) -> None:
    held = tool_call_text(name, '{"n": 7}')
    assert calls_of(choice_of(answer(Policy("It is 7.", held), ("add", "drop")))) == [(name, {"n": 7})]


def test_one_call_where_no_parallel_ones_are_wanted() -> None:
    twice = Policy(FITS + tool_call_text("drop", '{"n": 1}'))
    assert len(choice_of(answer(twice, ("add", "drop"), has_parallel_calls=False)).tool_calls) == 1


@pytest.mark.parametrize("written", [f"I add. {FITS}", "It is 7."])
def test_a_stream_tells_what_stands_beside_the_call_and_nothing_that_was_thrown_away(written: str) -> None:
    events = answer(Policy(f"<think>hm</think>{written}"), is_streamed=True)
    assert told_text(events) == ("I add." if FITS in written else "")
    assert all(event.has_thought for event in events if isinstance(event, Text))


def test_a_call_that_is_cut_says_so() -> None:
    policies = (Policy("It is 7."), 2), (Policy(FITS), 1), (Policy("<think>I wonder"), 1)
    for policy, requests in policies:
        choice = choice_of(answer(policy, max_tokens=10))
        assert (choice.tool_calls, choice.finish_reason, choice.completion_tokens) == ((), "length", 10)
        assert len(policy.requests) == requests


def test_what_runs_on_without_a_call_is_sampled_again() -> None:
    choice = choice_of(answer(Policy("blah " * 50), max_tokens=70))
    assert (calls_of(choice), choice.finish_reason) == ([("add", {"n": 7})], "tool_calls")


def test_what_comes_after_a_forced_call_is_remembered_as_it_was_sampled() -> None:
    policy = Policy("It is 7.")
    served = completions(ScriptedSampler(TOKENIZER, policy, max_context_tokens=10_000))
    asked = request(row().messages, TOOLS).model_copy(update={"forced_calls": ("add",)})
    read, (choice,) = prompt_and_choices(asyncio.run(events_of(served, asked)))
    result = Message(role=Role.TOOL, content="9", tool_call_id=choice.tool_calls[0].call_id)
    follow_up = request((*row().messages, said(choice), result), TOOLS)
    then, (last,) = prompt_and_choices(asyncio.run(events_of(served, follow_up)))
    assert then.remembered_tokens == len(read.token_ids) + len(choice.token_ids)
    assert then.token_ids[: then.remembered_tokens] == read.token_ids + choice.token_ids
    assert last.content == "It is 7."


@pytest.mark.parametrize("written", ["It is 7.", tool_call_text("add", '{"n": "seven"}')])
def test_what_a_server_writes_that_keeps_to_nothing_is_no_call(written: str) -> None:
    class Careless(Policy):
        def __call__(self, asked: SampleRequest, prompt: str) -> str:
            return written

    refused = answer(Careless(""))[-1]
    assert "no call could be sampled as tool_choice asks for it" in refused.model_dump()["message"]


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "not": {"required": ["m"]}},
        {"type": "object", "propertyNames": {"pattern": "n"}},
        {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "array", "uniqueItems": True}}},
        {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"pattern": "(?=a)b"}}},
        {},
    ],
)
def test_what_nothing_can_be_held_to_is_left_out_of_one_tools_schema(parameters: JsonObject) -> None:
    """As much of it as can be is kept, and all of the other tools'."""
    tools = (ToolSchema(name="add", description="d", parameters=parameters), TOOLS[1])
    assert calls_of(choice_of(answer(Policy("It is 7."), ("add", "drop"), tools=tools))) == [("add", {"n": 7})]
    held = tool_call_text("drop", '{"n": "seven"}')
    with pytest.raises(AssertionError, match='"n": "'):
        answer(Policy("It is 7.", held), ("add", "drop"), tools=tools)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_stop_sequence_in_front_of_the_call_is_no_end_of_the_turn(is_streamed: bool) -> None:
    choice = choice_of(answer(Policy("Well.\nI add."), stop=("\n",), is_streamed=is_streamed))
    assert (calls_of(choice), choice.content, choice.finish_reason) == ([("add", {"n": 7})], "", "tool_calls")


def test_choices_share_what_they_are_held_to(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[CallShape]()

    def counted(*args: Any, **options: Any) -> CallShape:
        made.append(call_shape(*args, **options))
        return made[-1]

    monkeypatch.setattr("rft.serving.forced_calls.call_shape", counted)
    served = completions(ScriptedSampler(TOKENIZER, Policy("It is 7."), max_context_tokens=10_000))
    asked = request(row().messages, TOOLS, n=5).model_copy(update={"forced_calls": ("add",)})
    _, choices = prompt_and_choices(asyncio.run(events_of(served, asked)))
    assert [calls_of(choice) for choice in choices] == [[("add", {"n": 7})]] * 5
    assert len(made) == 1


def test_the_tokens_that_count_are_those_that_were_sampled_also_where_the_thought_was_too_long() -> None:
    policy = Policy("<think>I wonder and wonder and wonder</think>No.")
    served = completions(ScriptedSampler(TOKENIZER, policy, max_context_tokens=10_000))
    budgets = Budgets(max_reasoning_tokens=20)
    asked = request(row().messages, TOOLS, budgets=budgets)
    wanted = asked.model_copy(update={"forced_calls": ("add",), "has_logprobs": True})
    choice = choice_of(asyncio.run(events_of(served, wanted)))
    text = TOKENIZER.decode(choice.token_ids)
    thought, closing, _ = text.partition("</think>")
    assert closing
    assert choice.completion_tokens == len(TOKENIZER.encode(thought + FITS)) + 1
    assert calls_of(choice) == [("add", {"n": 7})]


def of_family(
    family: str, turn: str, held: str, behind: str = "", *, has_parallel_calls: bool = True
) -> tuple[Choice, str]:
    """The choice, and the text of its tokens. `behind`: what follows a call's beginning."""
    chat_format = opened(family).chat_format

    def script(asked: SampleRequest, prompt: str) -> str:
        if asked.constraint is not None:
            return held
        return behind if prompt.endswith(held) else turn

    sampler = ScriptedSampler(chat_format.tokenizer, script, max_context_tokens=10_000)
    served = completions(sampler, chat_format=chat_format)
    asked = request(row().messages, TOOLS, has_parallel_calls=has_parallel_calls)
    wanted = asked.model_copy(update={"forced_calls": ("add",), "has_logprobs": True})
    choice = choice_of(asyncio.run(events_of(served, wanted)))
    return choice, chat_format.tokenizer.decode(choice.token_ids)


XML = "<tool_call>\n<function={}>\n<parameter=n>\n{}\n</parameter>\n</function>\n</tool_call>"
OPENING = "<tool_call>\n<function=add>\n"


def test_a_call_that_ended_a_thought_is_thrown_away_and_the_thought_kept() -> None:
    wrong = "I call.\n" + XML.format("drop", 1)
    choice, text = of_family("qwen3_5_think", wrong, OPENING, XML.format("add", 7).removeprefix(OPENING))
    assert text == "I call.\n</think>" + XML.format("add", 7) + "<|im_end|>"
    assert (calls_of(choice), choice.reasoning) == ([("add", {"n": 7})], "I call.")


def test_a_further_call_that_was_not_asked_for_is_not_handed_out() -> None:
    rest = XML.format("add", 7).removeprefix(OPENING) + "\n" + XML.format("drop", 1) + "\n\nDone."
    for has_parallel_calls in (True, False):
        choice, _ = of_family("qwen3_5_nothink", "No.", OPENING, rest, has_parallel_calls=has_parallel_calls)
        assert (calls_of(choice), choice.content) == ([("add", {"n": 7})], "Done.")


def test_a_thought_behind_a_call_goes_with_it() -> None:
    opening, wrong = "<|tool_call>call:add{", "<|tool_call>call:drop{n:1}<tool_call|>"
    one, two = ("<|channel>thought\n" + thought + "\n<channel|>" for thought in ("one", "two"))
    choice, text = of_family("gemma4_v2", one + wrong + two, opening, "n:7}<tool_call|>")
    assert (calls_of(choice), choice.reasoning.strip()) == ([("add", {"n": 7})], "one")
    assert text.count("thought") == 1


def test_calls_of_one_conversation_have_ids_of_their_own() -> None:
    chat_format = opened("mistral_nemo").chat_format
    asked = request(row().messages, TOOLS)
    ids = {forced_calls(asked, chat_format, prompt_tokens).call_id for prompt_tokens in (10, 20)}
    assert len(ids) == 2
