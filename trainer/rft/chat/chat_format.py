"""What the agent loop asks of a chat format."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rft.core.messages import Message, ToolCall, ToolResult, ToolSchema


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """What the model wrote, read."""

    content: str
    """Text outside tool calls."""
    raw_text: str
    tool_calls: tuple[ToolCall, ...]
    """In order, with ids as the model reads them; customers are sent others, see `rft.rollouts.call_ids`.

    A call that cannot be read has an empty name and the raw text as arguments: the model's mistake.
    """
    reasoning: str = ""
    """Its thoughts, without their marks."""
    reasoning_tokens: int = 0
    """Those of the turn's tokens that stand between the marks."""


class ChatFormat(Protocol):
    """Turns messages into token ids once, and tool results into the ids that follow a sampled turn."""

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a turn."""
        ...

    @property
    def unreadable_call_output(self) -> str:
        """What the model reads of a call of its that cannot be read."""
        ...

    def prompt_ids(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[int]:
        """The whole prompt, ready for the policy to answer."""
        ...

    def suffix_ids(self, results: Sequence[ToolResult], turn_end: int | None = None) -> list[int]:
        """What follows a turn that ended in a stop token: template glue, tool outputs, the next turn's opening.

        `turn_end`: the stop token. Some formats have one that opens the results, which policies do not always take.
        """
        ...

    def parse(
        self,
        token_ids: Sequence[int],
        *,
        call_id_seed: int,
        tools: Sequence[ToolSchema] = (),
        context_ids: Sequence[int] = (),
    ) -> ParsedTurn:
        """Decode and read one sampled turn. `tools` tell strings from numbers where a syntax writes both alike.

        `context_ids`: what it stands behind, which may have opened its thought.

        Call ids are in the shape that the template prints, and follow from `call_id_seed` and the call's position in
        the turn where the model did not write them itself: whoever reads them back in `suffix_ids` is the model.
        """
        ...

    def thought_limit(self, context_ids: Sequence[int], max_reasoning_tokens: int) -> int | None:
        """How many tokens of a turn behind `context_ids` may be sampled before its thought is too long.

        None where there is nothing to limit: the syntax has no thoughts, or the context has closed the turn's.
        """
        ...

    def thought_closing(self, context_ids: Sequence[int], token_ids: Sequence[int]) -> list[int]:
        """What closes the thought that a turn so far is within; empty where it is in none."""
        ...

    def count_tokens(self, text: str) -> int:
        """Length of a text in policy tokens."""
        ...
