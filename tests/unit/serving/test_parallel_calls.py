"""Parallel calls of a policy whose template writes one call a message: the conversation goes on all the same."""

from collections.abc import Callable

import pytest

from rft.chat.template_format import TemplateChatFormat
from rft.core.dataset import DatasetRow
from rft.core.messages import Message, Role, ToolCall, ToolSchema
from rft.rollouts.sampler import SampleRequest
from rft.rollouts.setup import Prompts
from rft.serving.completions import Completions
from rft.serving.policies import ServedPolicies
from rft.serving.prompts import Conversation, read_prompt
from rft.serving.remembered import RememberedConversations
from rft.serving_wire.records import AdapterRef, Choice, Prompt
from rft.testing.samplers import ScriptedSampler
from rft.testing.samplers_time import run_in_virtual_time
from tests.unit.chat.models import opened
from tests.unit.serving.conversing import events_of, prompt_and_choices, request, said

SEARCH = ToolSchema(name="search", description="Finds.", parameters={"type": "object", "properties": {}})
ASKED = Message(role=Role.USER, content="Which is larger?")
CALLS = '{"name": "search", "parameters": {"q": "one"}}; {"name": "search", "parameters": {"q": "two"}}'


def script(request: SampleRequest, prompt: str) -> str:
    del request
    return "The first." if "found" in prompt else CALLS


class Chat:
    """That of Llama 3.1."""

    def of(self, adapter: AdapterRef | None, reasoning_effort: str | None) -> TemplateChatFormat:
        del adapter, reasoning_effort
        return opened("llama3_1").chat_format


def asking(remembered_tokens: int) -> Callable[[list[Message]], tuple[Prompt, Choice]]:
    engine = ScriptedSampler(Chat().of(None, None).tokenizer, script)
    policies = ServedPolicies(engine, queue_s=5.0)
    served = Completions(engine, Chat(), policies, RememberedConversations(remembered_tokens))

    def ask(messages: list[Message]) -> tuple[Prompt, Choice]:
        wanted = request(messages, [SEARCH])
        prompt, (choice,) = prompt_and_choices(run_in_virtual_time(events_of(served, wanted)))
        return prompt, choice

    return ask


def answered(choice: Choice) -> list[Message]:
    """The second call first: each answer names its own."""
    outputs = [f"found {call.arguments}" for call in choice.tool_calls]
    results = [
        Message(role=Role.TOOL, content=output, tool_call_id=call.call_id)
        for call, output in zip(choice.tool_calls, outputs, strict=True)
    ]
    return [said(choice), *reversed(results)]


def test_a_user_who_speaks_again_is_answered() -> None:
    ask = asking(remembered_tokens=100_000)
    messages = [ASKED]
    _, called = ask(messages)
    assert len(called.tool_calls) == 2
    messages += answered(called)
    _, answer = ask(messages)
    messages += [said(answer), Message(role=Role.USER, content="Are you sure?")]
    prompt, choice = ask(messages)
    assert choice.content == "The first."
    text = Chat().of(None, None).tokenizer.decode(prompt.token_ids)
    places = [text.index(part) for part in ('"one"}', "one\\", '"two"}', "two\\", "The first.", "Are you sure?")]
    assert places == sorted(places), text


def test_so_is_a_conversation_that_nobody_remembers() -> None:
    ask = asking(remembered_tokens=0)
    _, called = ask([ASKED])
    prompt, choice = ask([ASKED, *answered(called)])
    assert (prompt.is_rendered_again, choice.content) == (True, "The first.")


@pytest.mark.parametrize("name", ["qwen3", "qwen2_5"])
def test_answers_that_come_in_another_order_are_shown_in_that_of_the_calls(name: str) -> None:
    """Most templates show no ids, and clients answer as their tools end. A row is shown in training as it is served."""
    calls = tuple(ToolCall(call_id=city, name="search", arguments=f'{{"q": "{city}"}}') for city in ("Paris", "Rome"))
    answers = [Message(role=Role.TOOL, content=f"In {call.call_id}", tool_call_id=call.call_id) for call in calls]
    begun = [ASKED, Message(role=Role.ASSISTANT, content="", tool_calls=calls)]
    rest = [Message(role=Role.USER, content="And now?")]
    chat_format = opened(name).chat_format

    def served(answered_as: list[Message]) -> tuple[int, ...]:
        conversation = Conversation("p", (SEARCH,), (*begun, *answered_as, *rest))
        return read_prompt(conversation, chat_format, RememberedConversations(0)).token_ids

    def trained(answered_as: list[Message]) -> tuple[int, ...]:
        row = DatasetRow(index=0, messages=(*begun, *answered_as, *rest), tools=(SEARCH,), item={})
        return Prompts().of(row, chat_format)

    assert served(answers[::-1]) == served(answers)
    assert trained(answers[::-1]) == served(answers[::-1])
    assert trained(answers) == served(answers)
