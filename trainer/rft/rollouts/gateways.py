"""What the agent loop asks of the outside world."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rft.core.base import JsonObject
from rft.core.failure import Failure
from rft.core.grade import Grade
from rft.core.messages import Message, ToolCall, ToolResult, ToolSchema


@dataclass(frozen=True, slots=True)
class FinishedTrace:
    """What a grader may judge."""

    messages: Sequence[Message]
    """The whole conversation: the row's messages, then the rollout's turns and tool outputs."""
    prompt_messages: int
    """How many of them are the row's own."""
    finish_reason: str
    """`stop` or `length`."""
    model: str


class ToolGateway(Protocol):
    """Calls one tool for one rollout."""

    async def call(self, call: ToolCall, *, tools: Sequence[ToolSchema], item: JsonObject, trace_id: str) -> ToolResult:
        """The result, or a result that carries a failure. Never raises but for cancellation."""
        ...


class GraderGateway(Protocol):
    """Grades one finished rollout."""

    async def grade(self, trace: FinishedTrace, *, item: JsonObject, trace_id: str) -> Grade | Failure:
        """The verdict, or why there is none. Never raises but for cancellation."""
        ...
