"""What a trainer and the grader gateway service say to each other, beside `rft.gateway_service.wire`."""

from rft.core.base import JsonObject, Record
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.graders import GraderSpec, JudgeServer
from rft.core.response_format import ResponseFormat
from rft.gateway_service.wire import JobRegistration, ServiceReply

GRADES = "grades"
RANKS = "ranks"


class GraderJob(JobRegistration):
    """A job's grader."""

    grader: GraderSpec
    judge: JudgeServer | None = None
    response_format: ResponseFormat | None = None
    """What its answers must be."""


class GradeRequest(Record):
    """One finished rollout."""

    trace: FinishedTrace
    item: JsonObject
    trace_id: str


class GradeReply(ServiceReply):
    """Its verdict."""

    outcome: Grade | Failure


class RankRequest(Record):
    """The finished rollouts of a group."""

    traces: tuple[FinishedTrace, ...]
    item: JsonObject
    trace_ids: tuple[str, ...]


class RankReply(ServiceReply):
    """Their verdicts, in order, or why there is none."""

    outcome: tuple[Grade, ...] | Failure
