"""The graders as a service: the same library, one process for the limits and secrets of many trainers."""

from fastapi import FastAPI

from rft.core.graders import RulerGrader
from rft.egress.endpoint_client import EndpointClient
from rft.gateway_service.app import ServiceDefinition, create_service
from rft.gateway_service.settings import ServiceSettings
from rft.gateway_service.shared_egress import SharedEgress
from rft.gateway_service.wire import decode
from rft.grader_gateway.build import open_grader, open_group_grader
from rft.grader_gateway.grader import Grader, GroupGrader, close_grader
from rft.grader_gateway.service_wire import (
    GRADES,
    RANKS,
    GradeReply,
    GradeRequest,
    GraderJob,
    RankReply,
    RankRequest,
)


class _GraderHandlers:
    """One job's grader in the service: one that judges single rollouts, or one that ranks groups."""

    def __init__(self, *, single: Grader | None = None, group: GroupGrader | None = None) -> None:
        self._single, self._group = single, group

    async def grade(self, body: bytes) -> GradeReply:
        """One finished rollout as it came in."""
        request = decode(GradeRequest, body)
        if self._single is None:
            raise ValueError("this job's grader ranks groups")
        outcome = await self._single.grade(request.trace, item=request.item, trace_id=request.trace_id)
        return GradeReply(outcome=outcome)

    async def rank(self, body: bytes) -> RankReply:
        """One group as it came in."""
        request = decode(RankRequest, body)
        if self._group is None:
            raise ValueError("this job's grader judges single rollouts")
        outcome = await self._group.rank(request.traces, item=request.item, trace_ids=request.trace_ids)
        return RankReply(outcome=tuple(outcome) if isinstance(outcome, list) else outcome)

    async def aclose(self) -> None:
        """Free what the grader holds."""
        for grader in (self._single, self._group):
            if grader is not None:
                await close_grader(grader)


def create_app(settings: ServiceSettings | None = None, *, shared: SharedEgress | None = None) -> FastAPI:
    """The service; settings from the environment by default."""
    settings = settings or ServiceSettings()
    return create_service(_SERVICE, settings, shared or SharedEgress(settings))


def _open(job_id: str, registration: GraderJob, client: EndpointClient) -> _GraderHandlers:
    if isinstance(registration.grader, RulerGrader):
        ranking = open_group_grader(
            registration.grader,
            client=client,
            secrets=registration.secrets,
            judge=registration.judge,
            job_id=job_id,
            response_format=registration.response_format,
        )
        return _GraderHandlers(group=ranking)
    single = open_grader(
        registration.grader,
        client=client,
        secrets=registration.secrets,
        judge=registration.judge,
        job_id=job_id,
        response_format=registration.response_format,
    )
    return _GraderHandlers(single=single)


_SERVICE = ServiceDefinition(
    title="Grader gateway",
    registration=GraderJob,
    open_gateway=_open,
    close_gateway=_GraderHandlers.aclose,
    handlers={GRADES: _GraderHandlers.grade, RANKS: _GraderHandlers.rank},
)
