"""What the agent loop asks of the outside world, beside graders (`rft.grader_gateway.grader`)."""

from collections.abc import Sequence
from typing import Protocol

from rft.core.base import JsonObject
from rft.core.failure import Failure
from rft.core.grade import Grade
from rft.core.messages import ToolCall, ToolResult, ToolSchema


class ToolGateway(Protocol):
    """Calls one tool for one rollout."""

    async def call(self, call: ToolCall, *, tools: Sequence[ToolSchema], item: JsonObject, trace_id: str) -> ToolResult:
        """The result, or a result that carries a failure. Never raises but for cancellation."""
        ...


class RolloutHost(Protocol):
    """Tells the customer's servers that a rollout begins and ends, so that they can make and free what it needs."""

    async def started(self, *, item: JsonObject, trace_id: str) -> Failure | None:
        """Before the first sample; a failure ends the rollout. Never raises but for cancellation."""
        ...

    def ended(self, *, trace_id: str, outcome: Grade | Failure | None) -> None:
        """After the grade, the failure or the cancellation (None). Returns at once; it is told in the background."""
        ...
