"""An answer that has to fit a format is as the policy writes it where that fits, and sampled again where not."""

import asyncio
import json

import pytest

from rft.core.base import JsonObject
from rft.core.messages import ToolSchema
from rft.core.response_format import ResponseFormat
from rft.rollouts.sampler import SampleRequest
from rft.serving_wire.records import Event, Text
from rft.testing.samplers import tool_call_text
from tests.shared.telling_sampler import TellingSampler
from tests.unit.chat.models import opened
from tests.unit.serving.conversing import (
    A_NUMBER,
    TOKENIZER,
    choice_of,
    completions,
    events_of,
    prompt_and_choices,
    refusal,
    request,
    told_text,
)
from tests.unit.serving.test_as_in_a_rollout import row

WANTED = ResponseFormat(type="json_schema", json_schema=A_NUMBER)
FITS = '{"n": 7}'


class Policy:
    """Writes `turns`; held to a constraint, `held`."""

    def __init__(self, *turns: str, held: str = FITS) -> None:
        self._turns, self._held = turns, held
        self.requests: list[SampleRequest] = []
        self.sampler = TellingSampler(TOKENIZER, self, max_context_tokens=10_000)

    def __call__(self, asked: SampleRequest, prompt: str) -> str:
        self.requests.append(asked)
        if asked.constraint is not None:
            assert asked.constraint.grammar in (A_NUMBER, {"type": "object"})
            return self._held
        return self._turns[min(prompt.count("<|im_start|>assistant") - 1, len(self._turns) - 1)]


def answer(
    policy: Policy,
    wanted: ResponseFormat = WANTED,
    *,
    tools: tuple[ToolSchema, ...] = (),
    stop: tuple[str, ...] = (),
    is_streamed: bool = False,
    max_tokens: int | None = None,
) -> list[Event]:
    served = completions(policy.sampler)
    asked = request(row().messages, tools, stop=stop, is_streamed=is_streamed, max_tokens=max_tokens)
    return asyncio.run(events_of(served, asked.model_copy(update={"response_format": wanted, "has_logprobs": True})))


@pytest.mark.parametrize("written", [FITS, f"<think>hm</think>\n{FITS}\n"])
def test_what_fits_is_taken_as_it_was_sampled(written: str) -> None:
    policy = Policy(written)
    choice = choice_of(answer(policy))
    assert (choice.content, choice.finish_reason, len(policy.requests)) == (FITS, "stop", 1)
    assert TOKENIZER.decode(choice.token_ids) == written + "<|im_end|>"


@pytest.mark.parametrize("misfit", ["It is 7.", "```json\n{}\n```", '{"n": "7"}', '{"n": 7, "m": 8}', ""])
@pytest.mark.parametrize("thought", ["", "<think>hm</think>\n"])
def test_what_does_not_fit_is_sampled_again_behind_the_same_thought(misfit: str, thought: str) -> None:
    policy = Policy(thought + misfit)
    choice = choice_of(answer(policy))
    assert (choice.content, choice.reasoning, choice.finish_reason) == (FITS, "hm" if thought else "", "stop")
    first, second = policy.requests
    before = TOKENIZER.decode(second.prompt_ids[len(first.prompt_ids) :])
    assert before == thought.rstrip("\n")
    assert TOKENIZER.decode(choice.token_ids) == before + FITS + "<|im_end|>"
    assert first.seed != second.seed


@pytest.mark.parametrize("thought", ["", "<think>It is {</think>\n"])
@pytest.mark.parametrize("wanted", [WANTED, ResponseFormat(type="json_object")])
def test_an_answer_that_begins_as_no_json_is_not_sampled_to_its_end(wanted: ResponseFormat, thought: str) -> None:
    policy = Policy(f"{thought}\n\nThe answer is {'very ' * 100}long.")
    assert choice_of(answer(policy, wanted)).content == FITS
    assert policy.sampler.told <= len(TOKENIZER.encode(f"{thought}\n\nThe{FITS}<|im_end|>"))
    beside_tools = Policy(f"I look. {tool_call_text('search', '{}')}")
    assert choice_of(answer(beside_tools, wanted, tools=row().tools)).tool_calls, "a call may follow what is said"


def test_calls_are_not_held_to_it_and_what_is_said_beside_unreadable_ones_is_no_part_of_the_answer() -> None:
    calling = Policy(f"I look. {tool_call_text('search', '{}')}")
    assert [call.name for call in choice_of(answer(calling, tools=row().tools)).tool_calls] == ["search"]
    clumsy = Policy("I look. <tool_call>{broken</tool_call>", FITS)
    assert choice_of(answer(clumsy, tools=row().tools)).content == FITS


@pytest.mark.parametrize("written", [FITS, "It is 7."])
def test_a_stream_tells_nothing_but_the_answer_that_fits(written: str) -> None:
    events = answer(Policy(f"<think>hm</think>{written}"), is_streamed=True)
    assert told_text(events) == FITS
    assert [event.has_thought for event in events if isinstance(event, Text)] == [True]


@pytest.mark.parametrize("written", [FITS, "It is not."])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_stop_sequence_cuts_an_answer_that_was_sampled_again_as_any_other(written: str, is_streamed: bool) -> None:
    events = answer(Policy(written), stop=("7",), is_streamed=is_streamed)
    _, (choice,) = prompt_and_choices(events)
    assert (choice.content, choice.finish_reason) == ('{"n": ', "stop")
    assert told_text(events) == ('{"n": ' if is_streamed else "")


@pytest.mark.parametrize(
    ("family", "thought"),
    [
        ("qwen3", "<think>\nhm\n</think>"),
        ("mistral_nemo", ""),
        ("gptoss", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>"),
        ("gptoss", "<|channel|>final<|message|>"),
    ],
)
def test_what_stands_before_an_answer_is_kept_whatever_the_marks(family: str, thought: str) -> None:
    chat_format = opened(family).chat_format
    encode = chat_format.tokenizer.encode
    turn = [*encode(thought), *encode("It is 7."), chat_format.stop_token_ids[0]]
    assert chat_format.before_answer(turn, ()) == encode(thought)


def test_a_schema_that_says_nothing_takes_any_json() -> None:
    policy = Policy("7")
    choice = choice_of(answer(policy, ResponseFormat(type="json_schema", json_schema={})))
    assert (choice.content, len(policy.requests)) == ("7", 1)


def test_any_object_will_do() -> None:
    policy = Policy("7", held="{}")
    assert choice_of(answer(policy, ResponseFormat(type="json_object"))).content == "{}"


def test_one_that_is_cut_says_so() -> None:
    long = json.dumps({"n": 10**9})
    for policy, requests in ((Policy("It is 7.", held=long), 2), (Policy(long), 1), (Policy(f"\n\n{long}"), 1)):
        choice = choice_of(answer(policy, max_tokens=9))
        assert long.startswith(choice.content)
        assert (choice.finish_reason, choice.completion_tokens) == ("length", 9)
        assert len(policy.requests) == requests, "what may become an answer that fits is not sampled again"


@pytest.mark.parametrize("cut", ["<think>I wonder", f"<think>hm</think>{tool_call_text('search', '{}')}"])
def test_what_is_cut_within_a_thought_or_a_call_has_no_answer(cut: str) -> None:
    policy = Policy(cut)
    choice = choice_of(answer(policy, tools=row().tools, max_tokens=len(TOKENIZER.encode(cut)) - 2))
    assert (choice.content, choice.finish_reason, len(policy.requests)) == ("", "length", 1)


def test_what_runs_on_without_an_answer_is_sampled_again() -> None:
    choice = choice_of(answer(Policy("blah " * 50), max_tokens=20))
    assert (choice.content, choice.finish_reason) == (FITS, "stop")


def test_one_that_does_not_fit_all_the_same_is_no_answer() -> None:
    """A server that does not keep what it was asked for."""
    refused = answer(Policy("It is 7.", held="It is 7."))[-1]
    assert "no answer could be sampled that fits" in refused.model_dump()["message"]


@pytest.mark.parametrize("schema", [{"not": {}}, {"type": "object", "minProperties": "x"}])
def test_a_schema_that_cannot_be_kept_is_refused_before_anything_is_sampled(schema: JsonObject) -> None:
    policy = Policy("It is 7.")
    refused = refusal(answer(policy, ResponseFormat(type="json_schema", json_schema=schema)))
    assert (refused.kind, refused.param, policy.requests) == ("bad_request", "response_format", [])
