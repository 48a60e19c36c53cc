"""The two ids of a tool call: the one that customers are sent, and the one that a chat template may print.

Customers keep state by what they are sent, so it follows from the public id, which is new whenever a conversation
begins anew. The model must read the same tokens whenever a rollout is done again, so what it reads follows from the
sampling seed. Everything but the token buffer holds the first kind.
"""

from collections.abc import Sequence

from rft.core.messages import ToolCall, ToolResult


def wire_call_id(trace_id: str, *, turn: int, position: int) -> str:
    """`call_`, the hexadecimal digits of the public id, turn and position in the turn, both from 0."""
    return f"call_{trace_id.removeprefix('trace_').replace('-', '')}_{turn}_{position}"


def to_wire(shown: Sequence[ToolCall], *, trace_id: str, turn: int) -> tuple[ToolCall, ...]:
    """A turn's calls as customers, graders and records get them."""
    return tuple(
        call.model_copy(update={"call_id": wire_call_id(trace_id, turn=turn, position=position)})
        for position, call in enumerate(shown)
    )


def to_shown(results: Sequence[ToolResult], shown: Sequence[ToolCall]) -> list[ToolResult]:
    """The results of a turn's calls, in their order, as the chat template gets them."""
    return [result.model_copy(update={"call_id": call.call_id}) for result, call in zip(results, shown, strict=True)]
