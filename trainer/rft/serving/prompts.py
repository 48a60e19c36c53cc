"""From messages to the ids that a policy is asked with: those it was asked with before, where they are remembered."""

from collections.abc import Sequence
from dataclasses import dataclass

from rft.chat.chat_format import ChatFormat
from rft.chat.errors import ChatTemplateError
from rft.core.messages import Message, Role, ToolCall, ToolResult, ToolSchema
from rft.serving.refusals import bad_request
from rft.serving.remembered import RememberedConversations, RememberedTurn, fingerprint


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """A conversation, ready for the policy to go on."""

    token_ids: tuple[int, ...]
    remembered_tokens: int
    is_rendered_again: bool
    """An assistant's turn was encoded anew from its text."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a request goes on from."""

    policy: str
    """What the ids depend on beside tools and messages: model, adapter, effort."""
    tools: tuple[ToolSchema, ...]
    messages: tuple[Message, ...]

    def fingerprint(self, *more: Message) -> bytes:
        """Of the conversation with further messages."""
        return fingerprint(self.policy, self.tools, (*self.messages, *more))


def read_prompt(conversation: Conversation, chat_format: ChatFormat, remembered: RememberedConversations) -> ReadPrompt:
    """The ids of the rollout that went the same way, where its last turn is remembered. Raises RequestRefused."""
    messages = conversation.messages
    last = max((i for i, message in enumerate(messages) if message.role is Role.ASSISTANT), default=None)
    try:
        if last is not None and last + 1 < len(messages) and all(m.role is Role.TOOL for m in messages[last + 1 :]):
            known = remembered.get(fingerprint(conversation.policy, conversation.tools, messages[: last + 1]))
            if known is not None:
                suffix = chat_format.suffix_ids(_results(known, messages[last + 1 :], chat_format))
                return ReadPrompt((*known.token_ids, *suffix), len(known.token_ids), is_rendered_again=False)
        token_ids = tuple(chat_format.prompt_ids(messages, conversation.tools))
    except ChatTemplateError as error:
        message = f"The model's chat template refuses these messages: {error}"
        raise bad_request(message, code="invalid_value", param="messages") from error
    return ReadPrompt(token_ids, 0, is_rendered_again=last is not None)


def _results(known: RememberedTurn, answers: Sequence[Message], chat_format: ChatFormat) -> list[ToolResult]:
    """In the order of the calls, as in a rollout; calls that cannot be read are answered as there."""
    outputs = {answer.tool_call_id: answer.content for answer in answers}
    unreadable = chat_format.unreadable_call_output
    return [
        result_of(call, unreadable if wire_id is None else outputs[wire_id])
        for call, wire_id in zip(known.shown_calls, known.wire_ids, strict=True)
    ]


def result_of(call: ToolCall, output: str) -> ToolResult:
    """An answer as the chat format gets it."""
    return ToolResult(call_id=call.call_id, name=call.name, output=output)
