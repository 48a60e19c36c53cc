"""The tool gateway as a service: the same library, one process for the limits and secrets of many trainers."""

import asyncio
import json
from collections.abc import Sequence

from fastapi import FastAPI

from rft.core.messages import ToolSchema
from rft.egress.endpoint_client import EndpointClient
from rft.gateway_service.app import ServiceDefinition, create_service
from rft.gateway_service.jobs import TAKE_OVER_S
from rft.gateway_service.settings import ServiceSettings
from rft.gateway_service.shared_egress import SharedEgress
from rft.gateway_service.wire import ServiceReply, decode
from rft.tool_gateway.callbacks import RolloutCallbacks
from rft.tool_gateway.gateway import HttpToolGateway
from rft.tool_gateway.service_wire import (
    CALLS,
    ENDED,
    ENDED_TOLD,
    STARTED,
    RolloutEnded,
    RolloutEndedReply,
    RolloutStarted,
    RolloutStartedReply,
    ToolCallReply,
    ToolCallRequest,
    ToolJob,
)

_REMEMBERED_SCHEMAS = 5_000


class _ToolHandlers:
    """One job's tools in the service."""

    def __init__(self, gateway: HttpToolGateway, callbacks: RolloutCallbacks) -> None:
        self._gateway, self._callbacks = gateway, callbacks
        self._schemas: dict[str, ToolSchema] = {}
        self._open: set[str] = set()
        """Rollouts whose beginning was told and whose end did not come in; a successor has the same."""
        self._is_successor = False
        """Whether rollouts of predecessors may still be open."""
        self._predecessors_ending: asyncio.Task[None] | None = None

    async def call(self, body: bytes) -> ToolCallReply:
        """One call as it came in."""
        request = decode(ToolCallRequest, body)
        result = await self._gateway.call(
            request.call, tools=self._same(request.tools), item=request.item, trace_id=request.trace_id
        )
        return ToolCallReply(result=result)

    async def started(self, body: bytes) -> RolloutStartedReply:
        """A rollout begins, once what predecessors left open has ended: it may need what they hold."""
        request = decode(RolloutStarted, body)
        await self._end_predecessors()
        self._open.add(request.trace_id)
        return RolloutStartedReply(failure=await self._callbacks.started(item=request.item, trace_id=request.trace_id))

    async def ended(self, body: bytes) -> ServiceReply:
        """A rollout is over; the customer is told in the background."""
        request = decode(RolloutEnded, body)
        self._open.discard(request.trace_id)
        self._callbacks.ended(trace_id=request.trace_id, outcome=request.outcome)
        return ServiceReply()

    async def ended_told(self, body: bytes) -> RolloutEndedReply:
        """A rollout is over; the customer is told first. Whoever hangs up before has not told it."""
        request = decode(RolloutEnded, body)
        self._open.discard(request.trace_id)
        is_told = await self._callbacks.tell_end(trace_id=request.trace_id, outcome=request.outcome)
        return RolloutEndedReply(is_told=is_told)

    async def aclose(self) -> None:
        """Tell what was not told yet, also of rollouts whose trainer is gone."""
        self._cancel_open()
        await self._callbacks.aclose()

    async def stop(self) -> None:
        """Tell what came in; open rollouts go on, and their trainer or its successor tells their ends."""
        await self._callbacks.aclose()

    def hand_over(self, successor: "_ToolHandlers") -> None:
        """Let its trainer say how the open rollouts ended, before it begins any."""
        self._open |= successor._open  # Of another predecessor, where two registered at once.
        successor._open, successor._is_successor = self._open, True

    async def _end_predecessors(self) -> None:
        """A trainer names the ends that it knows of before it begins a rollout: no others will come."""
        if self._is_successor:
            self._is_successor = False
            self._cancel_open()
            self._predecessors_ending = asyncio.create_task(self._callbacks.all_told(TAKE_OVER_S))
        if self._predecessors_ending is not None:
            await asyncio.wait((self._predecessors_ending,))

    def _cancel_open(self) -> None:
        for trace_id in self._open:
            self._callbacks.ended(trace_id=trace_id, outcome=None)
        self._open.clear()

    def _same(self, tools: Sequence[ToolSchema]) -> list[ToolSchema]:
        """Equal schemas as one object each: the gateway compiles a schema once per object."""
        if len(self._schemas) > _REMEMBERED_SCHEMAS:
            self._schemas.clear()
        return [self._schemas.setdefault(json.dumps(tool.model_dump()), tool) for tool in tools]


def create_app(settings: ServiceSettings | None = None, *, shared: SharedEgress | None = None) -> FastAPI:
    """The service; settings from the environment by default."""
    settings = settings or ServiceSettings()
    return create_service(_SERVICE, settings, shared or SharedEgress(settings))


def _open(job_id: str, registration: ToolJob, client: EndpointClient) -> _ToolHandlers:
    headers = registration.secrets.tool_headers
    return _ToolHandlers(
        HttpToolGateway(client, registration.tools, headers=headers, job_id=job_id),
        RolloutCallbacks(client, registration.tools, headers=headers, job_id=job_id),
    )


_SERVICE = ServiceDefinition(
    title="Tool gateway",
    registration=ToolJob,
    open_gateway=_open,
    close_gateway=_ToolHandlers.aclose,
    stop_gateway=_ToolHandlers.stop,
    hand_over=_ToolHandlers.hand_over,
    handlers={
        CALLS: _ToolHandlers.call,
        STARTED: _ToolHandlers.started,
        ENDED: _ToolHandlers.ended,
        ENDED_TOLD: _ToolHandlers.ended_told,
    },
)
