"""The graders as a service: the same library, one process for the limits and secrets of many trainers."""

from dataclasses import dataclass

from fastapi import FastAPI

from rft.egress.endpoint_client import EndpointClient
from rft.gateway_service.app import ServiceDefinition, create_service
from rft.gateway_service.settings import ServiceSettings
from rft.gateway_service.shared_egress import SharedEgress
from rft.gateway_service.wire import decode
from rft.grader_gateway.build import OpenGrader, open_any_grader, refuse_bad_sources
from rft.grader_gateway.service_wire import (
    GRADES,
    RANKS,
    GradeReply,
    GradeRequest,
    GraderJob,
    RankReply,
    RankRequest,
)


@dataclass(frozen=True, slots=True)
class _GraderHandlers:
    """One job's grader in the service."""

    opened: OpenGrader

    async def grade(self, body: bytes) -> GradeReply:
        """One finished rollout as it came in."""
        request = decode(GradeRequest, body)
        if self.opened.single is None:
            raise ValueError("this job's grader ranks groups")
        outcome = await self.opened.single.grade(request.trace, item=request.item, trace_id=request.trace_id)
        return GradeReply(outcome=outcome)

    async def rank(self, body: bytes) -> RankReply:
        """One group as it came in."""
        request = decode(RankRequest, body)
        if self.opened.group is None:
            raise ValueError("this job's grader judges single rollouts")
        outcome = await self.opened.group.rank(request.traces, item=request.item, trace_ids=request.trace_ids)
        return RankReply(outcome=tuple(outcome) if isinstance(outcome, list) else outcome)

    def hand_over(self, successor: "_GraderHandlers") -> None:
        """Nothing: each trainer of a job asks for its verdicts anew."""

    async def aclose(self) -> None:
        """Free what the grader holds."""
        await self.opened.aclose()


def create_app(settings: ServiceSettings | None = None, *, shared: SharedEgress | None = None) -> FastAPI:
    """The service; settings from the environment by default."""
    settings = settings or ServiceSettings()
    return create_service(_SERVICE, settings, shared or SharedEgress(settings))


def _open(job_id: str, registration: GraderJob, client: EndpointClient) -> _GraderHandlers:
    opened = open_any_grader(
        registration.grader,
        client=client,
        secrets=registration.secrets,
        judge=registration.judge,
        job_id=job_id,
        response_format=registration.response_format,
    )
    return _GraderHandlers(opened)


def _check(registration: GraderJob) -> None:
    """A package that this machine lacks would otherwise be an error of the customer's code: a grade of 0."""
    refuse_bad_sources(registration.grader)


_SERVICE = ServiceDefinition(
    title="Grader gateway",
    registration=GraderJob,
    open_gateway=_open,
    close_gateway=_GraderHandlers.aclose,
    stop_gateway=_GraderHandlers.aclose,
    hand_over=_GraderHandlers.hand_over,
    handlers={GRADES: _GraderHandlers.grade, RANKS: _GraderHandlers.rank},
    check=_check,
)
