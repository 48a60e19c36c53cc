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
    tools: Sequence[ToolSchema] = ()
    """What the model was told of its tools."""


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


class GroupGrader(Protocol):
    """Grades all rollouts of a group in one verdict: rewards are relative to the group."""

    async def rank(
        self, traces: Sequence[FinishedTrace], *, item: JsonObject, trace_ids: Sequence[str]
    ) -> list[Grade] | Failure:
        """One grade per trace, in order, or why the whole group has none. Never raises but for cancellation."""
        ...


class RolloutHost(Protocol):
    """Tells the customer's servers that a rollout begins and ends, so that they can make and free what it needs."""

    async def started(self, *, item: JsonObject, trace_id: str) -> Failure | None:
        """Before the first sample; a failure ends the rollout. Never raises but for cancellation."""
        ...

    def ended(self, *, trace_id: str, outcome: Grade | Failure | None) -> None:
        """After the grade, the failure or the cancellation (None). Returns at once; it is told in the background."""
        ...
