"""Which token ids a conversation had when it was sampled: its text alone cannot give them back."""

import hashlib
import json
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from rft.core.messages import Message, Role, ToolCall, ToolSchema


@dataclass(frozen=True, slots=True)
class RememberedTurn:
    """A conversation up to the end of a turn that calls tools."""

    token_ids: tuple[int, ...]
    shown_calls: tuple[ToolCall, ...]
    """As the chat template gets them, in order; those that cannot be read have no name."""
    wire_ids: tuple[str | None, ...]
    """The id of each call as the client got it; None where it got none: the call cannot be read."""
    thoughts: tuple[str, ...] = ()
    """Of each assistant's turn up to this one, as clients know them."""
    sampled_since: int = 0
    """Index of the first message behind which no turn was encoded anew."""


class RememberedConversations:
    """By fingerprint, the least recently used forgotten first."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._turns: OrderedDict[bytes, RememberedTurn] = OrderedDict()
        self.tokens = 0
        """Of all that is remembered."""

    def put(self, fingerprint: bytes, turn: RememberedTurn) -> None:
        """Remember it, if there is room for it at all."""
        self._forget(fingerprint)
        if len(turn.token_ids) > self._max_tokens:
            return
        self._turns[fingerprint] = turn
        self.tokens += len(turn.token_ids)
        while self.tokens > self._max_tokens:
            self._forget(next(iter(self._turns)))

    def get(self, fingerprint: bytes) -> RememberedTurn | None:
        """None where it was never there, or is forgotten."""
        turn = self._turns.get(fingerprint)
        if turn is not None:
            self._turns.move_to_end(fingerprint)
        return turn

    def _forget(self, fingerprint: bytes) -> None:
        turn = self._turns.pop(fingerprint, None)
        if turn is not None:
            self.tokens -= len(turn.token_ids)


def fingerprint(policy: str, tools: Sequence[ToolSchema], messages: Sequence[Message]) -> bytes:
    """Of a conversation's beginning. `policy`: everything else that its token ids depend on.

    Thoughts do not count: clients do not send them back.
    """
    parts = [policy, *(tool.model_dump_json() for tool in tools), *(_canonical(message) for message in messages)]
    return hashlib.sha256(json.dumps(parts).encode()).digest()


def has_these_thoughts(messages: Sequence[Message], thoughts: Sequence[str]) -> bool:
    """Whether the thoughts that a client has sent back are these: it may leave them out, but not change them."""
    sent = [message.reasoning_content for message in messages if message.role is Role.ASSISTANT]
    return all(own in ("", known) for own, known in zip(sent, thoughts, strict=True))


def prompt_digest(token_ids: Sequence[int]) -> str:
    """Of the ids that a turn answers."""
    return hashlib.sha256(array("q", token_ids).tobytes()).hexdigest()


def said_digest(message: Message) -> str:
    """Of an assistant's message, without its thoughts."""
    return hashlib.sha256(_canonical(message).encode()).hexdigest()


def _canonical(message: Message) -> str:
    role = Role.SYSTEM if message.role is Role.DEVELOPER else message.role
    calls = [[call.call_id, call.name, _canonical_arguments(call.arguments)] for call in message.tool_calls]
    return json.dumps([role, message.content, calls, message.tool_call_id, message.name])


def _canonical_arguments(text: str) -> str:
    """A text that is the same however a client writes the same JSON: many read a call's arguments, and write them
    anew when they send the call back. What is no JSON is as it stands."""
    try:
        return json.dumps(json.loads(text, parse_float=_number), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _number(text: str) -> float | int:
    """JavaScript writes 1.0 as 1."""
    number = float(text)
    return int(number) if number.is_integer() else number
