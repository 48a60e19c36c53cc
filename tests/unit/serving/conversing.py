"""A customer's agent loop over completions, without sockets: tools in their code, messages sent back as they came."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rft.chat.hermes import HermesChatFormat
from rft.chat.template_format import TemplateChatFormat
from rft.core.base import JsonObject
from rft.core.messages import Message, Role, ToolCall, ToolSchema
from rft.core.spec import Budgets
from rft.engines.base import Engine
from rft.serving.completions import Completions
from rft.serving.policies import ServedPolicies
from rft.serving.remembered import RememberedConversations
from rft.serving_wire.records import (
    AdapterRef,
    Choice,
    CompletionRequest,
    Done,
    Event,
    Prompt,
    Refused,
    SampledTurn,
    Text,
)
from rft.testing.samplers_tokenizer import ByteTokenizer

TOKENIZER = ByteTokenizer()
A_NUMBER: JsonObject = {
    "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False,
}  # fmt: skip
"""A schema that answers and arguments are held to."""
CHAT_FORMAT = HermesChatFormat(TOKENIZER)


@dataclass(frozen=True, slots=True)
class OneChat:
    """The same chat format for every policy."""

    chat_format: TemplateChatFormat = CHAT_FORMAT

    def of(self, adapter: AdapterRef | None, reasoning_effort: str | None) -> TemplateChatFormat:
        del adapter, reasoning_effort
        return self.chat_format


def completions(
    engine: Engine, *, remembered_tokens: int = 1_000_000, chat_format: TemplateChatFormat = CHAT_FORMAT
) -> Completions:
    """Over an engine that reads and writes the ids of the format's tokenizer."""
    policies = ServedPolicies(engine, queue_s=60.0)
    return Completions(engine, OneChat(chat_format), policies, RememberedConversations(remembered_tokens))


def request(
    messages: Sequence[Message],
    tools: Sequence[ToolSchema] = (),
    *,
    n: int = 1,
    stop: tuple[str, ...] = (),
    max_tokens: int | None = None,
    is_streamed: bool = False,
    has_parallel_calls: bool = True,
    sampled_turns: dict[int, SampledTurn] | None = None,
    budgets: Budgets | None = None,
) -> CompletionRequest:
    """A greedy one. `sampled_turns`: what the client has kept; None for one that keeps nothing."""
    return CompletionRequest(
        token="",
        model="m",
        messages=tuple(messages),
        tools=tuple(tools),
        n=n,
        seed=1,
        temperature=0.0,
        stop=stop,
        max_tokens=max_tokens,
        is_streamed=is_streamed,
        has_parallel_calls=has_parallel_calls,
        keeps_turns=sampled_turns is not None,
        sampled_turns=sampled_turns or {},
        budgets=budgets,
    )


async def events_of(served: Completions, wanted: CompletionRequest) -> list[Event]:
    """All of them."""
    events: list[Event] = []
    await served.answer(wanted, events.append)
    return events


def refusal(events: Sequence[Event]) -> Refused:
    """What the only event says."""
    (event,) = events
    assert isinstance(event, Refused)
    return event


def prompt_and_choices(events: Sequence[Event]) -> tuple[Prompt, list[Choice]]:
    """Of a request that was answered."""
    prompt, *rest, done = events
    assert isinstance(prompt, Prompt)
    assert isinstance(done, Done)
    return prompt, sorted((event for event in rest if isinstance(event, Choice)), key=lambda choice: choice.index)


def choice_of(events: Sequence[Event]) -> Choice:
    """The only one of a request that wanted its log-probabilities."""
    _, (choice,) = prompt_and_choices(events)
    assert len(choice.tokens) == choice.completion_tokens
    return choice


def told_text(events: Sequence[Event], index: int = 0) -> str:
    """What a streaming client reads of a choice."""
    return "".join(event.text for event in events if isinstance(event, Text) and event.index == index)


def said(choice: Choice, respelled: Callable[[str], str] = str) -> Message:
    """The choice as clients send it back: without its thoughts, and with the arguments of its calls as they write
    them."""
    calls = tuple(call.model_copy(update={"arguments": respelled(call.arguments)}) for call in choice.tool_calls)
    return Message(role=Role.ASSISTANT, content=choice.content, tool_calls=calls)


async def converse(
    served: Completions,
    prompt: Sequence[Message],
    tools: Sequence[ToolSchema],
    answer: Callable[[ToolCall], str],
    *,
    keeps_turns: bool = False,
    budgets: Budgets | None = None,
    respelled: Callable[[str], str] = str,
) -> list[tuple[Prompt, Choice]]:
    """Until the policy calls nothing more."""
    messages, seen = list(prompt), list[tuple[Prompt, Choice]]()
    kept = dict[int, SampledTurn]()
    while True:
        wanted = request(messages, tools, sampled_turns=kept if keeps_turns else None, budgets=budgets)
        read, (choice,) = prompt_and_choices(await events_of(served, wanted))
        seen.append((read, choice))
        if not choice.tool_calls:
            return seen
        if choice.turn is not None:
            kept[len(messages)] = choice.turn
        messages.append(said(choice, respelled))
        # In any order: each names the call that it answers.
        messages += reversed(
            [Message(role=Role.TOOL, content=answer(call), tool_call_id=call.call_id) for call in choice.tool_calls]
        )
