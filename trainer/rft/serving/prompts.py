"""From messages to the ids that a policy is asked with: those that it has seen and sampled before, where they are
remembered here or were kept by the client."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from rft.chat.errors import ChatTemplateError
from rft.chat.template_format import TemplateChatFormat
from rft.core.messages import Message, Role, ToolCall, ToolResult, ToolSchema, unknown_tool_output
from rft.serving.refusals import bad_request
from rft.serving.remembered import (
    RememberedConversations,
    RememberedTurn,
    fingerprint,
    has_these_thoughts,
    prompt_digest,
    said_digest,
)
from rft.serving_wire.records import SampledTurn, WithheldTurn


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """A conversation, ready for the policy to go on."""

    token_ids: tuple[int, ...]
    remembered_tokens: int
    is_rendered_again: bool
    """An assistant's turn was encoded anew from its text."""
    sampled_since: int = 0
    """Index of the first message behind which no turn was encoded anew."""
    withheld: tuple[WithheldTurn, ...] = ()
    """Turns that the client has kept, and that are not there as they were sampled."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a request goes on from."""

    policy: str
    """What the ids depend on beside tools and messages: model, adapter, effort."""
    tools: tuple[ToolSchema, ...]
    messages: tuple[Message, ...]
    sampled_turns: Mapping[int, SampledTurn] = field(default_factory=dict[int, SampledTurn])
    """By the index of their message: what the client has kept."""

    def fingerprint(self, *more: Message) -> bytes:
        """Of the conversation with further messages."""
        return fingerprint(self.policy, self.tools, (*self.messages, *more))

    @property
    def thoughts(self) -> tuple[str, ...]:
        """Of each assistant's turn, as the client has sent them."""
        return tuple(message.reasoning_content for message in self.messages if message.role is Role.ASSISTANT)


def read_prompt(
    conversation: Conversation, chat_format: TemplateChatFormat, remembered: RememberedConversations
) -> ReadPrompt:
    """The ids of the rollout that went the same way, where its last turn is known. Raises RequestRefused."""
    try:
        return _read(conversation, chat_format, remembered)
    except ChatTemplateError as error:
        message = f"The model's chat template refuses these messages: {error}"
        raise bad_request(message, code="invalid_value", param="messages") from error


def _read(
    conversation: Conversation, chat_format: TemplateChatFormat, remembered: RememberedConversations
) -> ReadPrompt:
    messages = conversation.messages
    turns = [index for index, message in enumerate(messages) if message.role is Role.ASSISTANT]
    first = _first_since_a_user(messages)
    known: RememberedTurn | None = None
    if turns and _is_answered_by_tools(messages[turns[-1] + 1 :]):
        known = _remembered(conversation, turns[-1], remembered)
        if known is None:
            known = _rebuilt(conversation, [turn for turn in turns if turn >= first], chat_format)
    if known is None:
        token_ids, since = _rendered(messages, conversation.tools, chat_format), len(messages)
    else:
        token_ids, since = (
            _answered(known, messages[turns[-1] + 1 :], conversation.tools, chat_format),
            known.sampled_since,
        )
    return ReadPrompt(
        token_ids,
        remembered_tokens=0 if known is None else len(known.token_ids),
        is_rendered_again=bool(turns) and known is None,
        sampled_since=since,
        withheld=tuple(
            WithheldTurn(message=turn, reason="turn_boundary" if turn < first else "prefix_mismatch")
            for turn in sorted(conversation.sampled_turns)
            if turn < since
        ),
    )


def _first_since_a_user(messages: Sequence[Message]) -> int:
    """Where the messages begin that only the policy and its tools have written."""
    others = (Role.ASSISTANT, Role.TOOL)
    return 1 + max((index for index, message in enumerate(messages) if message.role not in others), default=-1)


def _is_answered_by_tools(behind: Sequence[Message]) -> bool:
    return bool(behind) and all(map(_is_answer, behind))


def _remembered(conversation: Conversation, turn: int, remembered: RememberedConversations) -> RememberedTurn | None:
    begun = conversation.messages[: turn + 1]
    known = remembered.get(fingerprint(conversation.policy, conversation.tools, begun))
    return known if known is not None and has_these_thoughts(begun, known.thoughts) else None


def _rebuilt(
    conversation: Conversation, turns: Sequence[int], chat_format: TemplateChatFormat
) -> RememberedTurn | None:
    """The conversation up to the end of the last of these turns, from what the client has kept.

    A turn fits where the ids in front of it are those that it answered: one that does not would show the policy
    something else than the messages say.
    """
    messages, known, last = conversation.messages, None, -1
    for turn in turns:
        kept, before, behind = conversation.sampled_turns.get(turn), known, messages[last + 1 : turn]
        known, last = None, turn
        if kept is None:
            continue
        if before is not None and _is_answered_by_tools(behind):
            prompt_ids, since = _answered(before, behind, conversation.tools, chat_format), before.sampled_since
        else:
            prompt_ids, since = _rendered(messages[:turn], conversation.tools, chat_format), turn
        if prompt_digest(prompt_ids) == kept.prompt_sha256 and _is_unchanged(messages[turn], kept):
            token_ids = (*prompt_ids, *kept.token_ids)
            known = RememberedTurn(token_ids, kept.shown_calls, kept.wire_ids, sampled_since=since)
    return known


def _rendered(
    messages: Sequence[Message], tools: Sequence[ToolSchema], chat_format: TemplateChatFormat
) -> tuple[int, ...]:
    """Anew, from the text. A policy may call in parallel what its template can only write one after the other."""
    shown = messages if chat_format.takes_parallel_calls else [*_one_call_each(messages)]
    return tuple(chat_format.prompt_ids(shown, tools))


def _one_call_each(messages: Sequence[Message]) -> Iterator[Message]:
    """Each call in a message of its own, and its answer, one of those right behind, behind it."""
    place = 0
    while place < len(messages):
        message, calls = messages[place], messages[place].tool_calls
        place += 1
        if len(calls) < 2:
            yield message
            continue
        behind = [*takewhile(_is_answer, messages[place:])]
        answers = {answer.tool_call_id: answer for answer in behind}
        place += len(behind)
        for number, call in enumerate(calls):
            said = {} if number == 0 else {"content": "", "reasoning_content": ""}
            yield message.model_copy(update={**said, "tool_calls": (call,)})
            if call.call_id in answers:
                yield answers[call.call_id]


def _is_answer(message: Message) -> bool:
    return message.role is Role.TOOL


def _is_unchanged(message: Message, kept: SampledTurn) -> bool:
    return said_digest(message) == kept.said_sha256 and message.reasoning_content in ("", kept.reasoning)


def _answered(
    known: RememberedTurn, answers: Sequence[Message], tools: Sequence[ToolSchema], chat_format: TemplateChatFormat
) -> tuple[int, ...]:
    """With the answers to its calls, in their order; those that no client got are answered as in a rollout."""
    outputs = {answer.tool_call_id: answer.content for answer in answers}
    results = [
        answer_of_ours(call, tools, chat_format) if wire_id is None else _result_of(call, outputs[wire_id])
        for call, wire_id in zip(known.shown_calls, known.wire_ids, strict=True)
    ]
    return (*known.token_ids, *chat_format.suffix_ids(results, known.token_ids[-1]))


def answer_of_ours(call: ToolCall, tools: Sequence[ToolSchema], chat_format: TemplateChatFormat) -> ToolResult:
    """As in a rollout, what the model reads of a call that no client can make: unreadable, or of none of `tools`."""
    output = unknown_tool_output(call.name, tools) if call.name else chat_format.unreadable_call_output
    return _result_of(call, output)


def _result_of(call: ToolCall, output: str) -> ToolResult:
    """An answer as the chat format gets it."""
    return ToolResult(call_id=call.call_id, name=call.name, output=output)
