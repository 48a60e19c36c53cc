"""A finished conversation as every grader sees it: in a trainer, behind a gateway service, graded again or tried."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.messages import Message, ToolSchema
from rft.core.rollout import StopReason

_CUT_OFF = (StopReason.MAX_TOKENS, StopReason.CONTEXT_FULL)


@dataclass(frozen=True, slots=True)
class FinishedTrace:
    """What a grader may judge."""

    messages: tuple[Message, ...]
    """The whole conversation: the row's messages, then the rollout's turns and tool outputs."""
    prompt_messages: int
    """How many of them are the row's own."""
    finish_reason: str
    """`stop`, `length`, or `tool_calls` where it ended with calls that nobody answers."""
    model: str
    """Name of the model that answered."""
    tools: tuple[ToolSchema, ...] = ()
    """What it was told of its tools."""
    has_json: bool = False
    """Whether graders get the answer as JSON, too, where it is any: not of a text that only looks like it."""
    given: JsonObject = field(default_factory=dict[str, JsonValue])
    """Fields of the sample that graders see in place of what follows from the messages: of a sample from elsewhere."""

    @classmethod
    def of(
        cls, row: DatasetRow, messages: Sequence[Message], stop_reason: StopReason | None, *, model: str
    ) -> "FinishedTrace":
        """Of a rollout of this row, which carries the tools that the model was told of."""
        return cls(
            messages=tuple(messages),
            prompt_messages=len(row.messages),
            finish_reason=_finish_reason(stop_reason),
            model=model,
            tools=row.tools,
        )


def _finish_reason(stop_reason: StopReason | None) -> str:
    if stop_reason is StopReason.TOOL_CALLS:
        return "tool_calls"
    return "length" if stop_reason in _CUT_OFF else "stop"
