"""What a trainer and the tool gateway service say to each other, beside `rft.gateway_service.wire`."""

from rft.core.base import JsonObject, Record
from rft.core.failure import Failure
from rft.core.grade import Grade
from rft.core.messages import ToolCall, ToolResult, ToolSchema
from rft.core.spec import ToolServer
from rft.gateway_service.wire import JobRegistration, ServiceReply

CALLS = "calls"
STARTED = "rollouts/started"
ENDED = "rollouts/ended"
ENDED_TOLD = "rollouts/ended-told"
"""The same, answered only when the customer's servers were told, or could not be."""


class ToolJob(JobRegistration):
    """A job's tools."""

    tools: tuple[ToolServer, ...]


class ToolCallRequest(Record):
    """One call of the model's."""

    call: ToolCall
    tools: tuple[ToolSchema, ...]
    """What the row describes."""
    item: JsonObject
    trace_id: str


class ToolCallReply(ServiceReply):
    """What came of it."""

    result: ToolResult


class RolloutStarted(Record):
    """A rollout begins."""

    item: JsonObject
    trace_id: str


class RolloutStartedReply(ServiceReply):
    """Whether it may."""

    failure: Failure | None


class RolloutEnded(Record):
    """A rollout is over."""

    trace_id: str
    outcome: Grade | Failure | None
    """None for a cancelled one."""


class RolloutEndedReply(ServiceReply):
    """What came of telling it."""

    is_told: bool
    """Whether nothing more is to be told: false where a tool server may take it later."""
