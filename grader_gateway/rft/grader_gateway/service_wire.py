"""What a trainer and the grader gateway service say to each other, beside `rft.gateway_service.wire`."""

from rft.core.base import JsonObject, Record
from rft.core.failure import Failure
from rft.core.grade import Grade
from rft.core.graders import GraderSpec, JudgeServer
from rft.core.messages import Message, ToolSchema
from rft.core.response_format import ResponseFormat
from rft.gateway_service.wire import JobRegistration, ServiceReply
from rft.grader_gateway.contract import GradedTrace

GRADES = "grades"
RANKS = "ranks"


class GraderJob(JobRegistration):
    """A job's grader."""

    grader: GraderSpec
    judge: JudgeServer | None = None
    response_format: ResponseFormat | None = None
    """What its answers must be."""


class SentTrace(Record):
    """A `GradedTrace` on its way."""

    messages: tuple[Message, ...]
    prompt_messages: int
    finish_reason: str
    model: str
    tools: tuple[ToolSchema, ...] = ()

    @classmethod
    def of(cls, trace: GradedTrace) -> "SentTrace":
        """As it is sent."""
        return cls(
            messages=tuple(trace.messages),
            prompt_messages=trace.prompt_messages,
            finish_reason=trace.finish_reason,
            model=trace.model,
            tools=tuple(trace.tools),
        )


class GradeRequest(Record):
    """One finished rollout."""

    trace: SentTrace
    item: JsonObject
    trace_id: str


class GradeReply(ServiceReply):
    """Its verdict."""

    outcome: Grade | Failure


class RankRequest(Record):
    """The finished rollouts of a group."""

    traces: tuple[SentTrace, ...]
    item: JsonObject
    trace_ids: tuple[str, ...]


class RankReply(ServiceReply):
    """Their verdicts, in order, or why there is none."""

    outcome: tuple[Grade, ...] | Failure
