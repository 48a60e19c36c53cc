"""The tool gateway as a trainer sees it when a service makes the calls. The same duck type as `gateway`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import TypeVar

from rft.core.attempt import Attempt
from rft.core.base import JsonObject
from rft.core.endpoint_load import EndpointLoad
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.messages import ToolCall, ToolResult, ToolSchema
from rft.core.spec import RetryBudget, RunSecrets, ToolServer
from rft.egress.failed_calls import FailedCalls
from rft.egress.limits import BreakerChange
from rft.gateway_service.connection import Listener, ServiceConnection
from rft.gateway_service.wire import ServiceReply
from rft.tool_gateway.rollout_ends import OpenRollouts, RolloutEnds, may_have_been_taken
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

R = TypeVar("R", bound=ServiceReply)
_log = logging.getLogger(__name__)


class RemoteToolGateway:
    """Has the tools of one job called, and their rollout callbacks told, by a tool gateway service.

    Close it when the job is done.
    """

    def __init__(
        self,
        connection: ServiceConnection,
        tools: Sequence[ToolServer],
        *,
        open_rollouts: OpenRollouts | None = None,
        are_ends_awaited: bool = False,
    ) -> None:
        """`are_ends_awaited`: an end is told when the tool servers took it, and not when the service did."""
        self._connection, self._ends, self._are_ends_awaited = connection, RolloutEnds(open_rollouts), are_ends_awaited
        self.has_hosts = any(tool.callback_url for tool in tools)
        """Whether any tool wants to be told of rollouts."""
        self._unsafe = {tool.name for tool in tools if tool.retry == "unsafe"}
        self._are_hosts_safe = not any(tool.callback_url and tool.name in self._unsafe for tool in tools)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        tools: Sequence[ToolServer],
        secrets: RunSecrets,
        job_id: str,
        retry: RetryBudget | None = None,
        on_attempt: Callable[[Attempt], None] | None = None,
        on_change: Callable[[BreakerChange], None] | None = None,
        failed_calls: FailedCalls | None = None,
        launch: int = 1,
        open_rollouts: OpenRollouts | None = None,
        are_ends_awaited: bool = False,
    ) -> "RemoteToolGateway":
        """A job's gateway at the service with this base URL; it is asked for the first time by the first call."""
        needed = RunSecrets(tool_headers=secrets.tool_headers, signing_secrets=secrets.signing_secrets)
        registration = ToolJob(tools=tuple(tools), retry=retry or RetryBudget(), secrets=needed, launch=launch)
        connection = ServiceConnection(
            "tool gateway",
            url,
            token=secrets.gateway_token,
            job_id=job_id,
            registration=registration,
            listener=Listener(on_attempt, on_change, failed_calls),
        )
        return cls(connection, tools, open_rollouts=open_rollouts, are_ends_awaited=are_ends_awaited)

    @property
    def loads(self) -> Mapping[str, EndpointLoad]:
        """By endpoint key, as the service told last: of all jobs together."""
        return self._connection.loads

    async def keep_registered(self) -> Failure | None:
        """Let the service know the job, for calls that other processes make; a failure where it cannot be reached."""
        return await self._connection.keep_registered()

    async def __aenter__(self) -> "RemoteToolGateway":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def all_told(self, timeout_s: float) -> None:
        """Wait until every end so far is told to the service, at most so long."""
        await self._ends.all_told(timeout_s)

    async def aclose(self, hurry: asyncio.Event | None = None) -> None:
        """Tell what was not told yet, and that the job is done; close all connections. In seconds once hurried."""
        await self._ends.aclose(hurry)
        await self._connection.aclose(hurry)

    async def call(self, call: ToolCall, *, tools: Sequence[ToolSchema], item: JsonObject, trace_id: str) -> ToolResult:
        """One call's result: an output, an error message to the model, or a failure. Raises only on cancellation."""
        is_safe = call.name not in self._unsafe
        try:
            request = ToolCallRequest(call=call, tools=tuple(tools), item=item, trace_id=trace_id)
            reply = await self._connection.call(CALLS, request, ToolCallReply, is_safe=is_safe)
        except Exception as error:
            _log.exception("tool call %s of %s broke on our side", call.call_id, trace_id)
            reply = _broken(f"tool {call.name!r} could not be called", call.name, error)
        if isinstance(reply, ToolCallReply):
            return reply.result
        return ToolResult(call_id=call.call_id, name=call.name, output=None, failure=reply)

    async def started(self, *, item: JsonObject, trace_id: str) -> Failure | None:
        """Tell the tool servers that a rollout begins, before the first sample. Raises only on cancellation."""
        if not self.has_hosts:
            return None
        self._ends.expect(trace_id)
        try:
            request = RolloutStarted(item=item, trace_id=trace_id)
            reply = await self._connection.call(STARTED, request, RolloutStartedReply, is_safe=self._are_hosts_safe)
        except Exception as error:
            _log.exception("the start of %s broke on our side", trace_id)
            return _broken("the start of a rollout could not be told", None, error)
        return reply.failure if isinstance(reply, RolloutStartedReply) else reply

    def ended(self, *, trace_id: str, outcome: Grade | Failure | None) -> None:
        """Tell them in the background that it is over; None for a cancelled rollout."""
        if self.has_hosts:
            self._ends.tell(trace_id, outcome, self._telling_of(trace_id, outcome))

    def was_left_open(self, *, trace_id: str, outcome: Grade | Failure | None) -> None:
        """The same for a rollout of an earlier process: behind others of its kind, a few at once."""
        if self.has_hosts:
            self._ends.tell(trace_id, outcome, self._telling_of(trace_id, outcome), is_left=True)

    def _telling_of(self, trace_id: str, outcome: Grade | Failure | None) -> Callable[[], Awaitable[bool]]:
        return partial(self._tell_end, RolloutEnded(trace_id=trace_id, outcome=outcome))

    async def _tell_end(self, request: RolloutEnded) -> bool:
        """Whether nothing more is to be told."""
        if self._are_ends_awaited:
            told = await self._send_end(ENDED_TOLD, request, RolloutEndedReply)
            if isinstance(told, RolloutEndedReply):
                return told.is_told
            if told.status != HTTPStatus.NOT_FOUND:  # As of a service of an earlier release, which has no such call.
                return self._is_over(told, request)
        reply = await self._send_end(ENDED, request, ServiceReply)
        return self._is_over(reply, request)

    def _is_over(self, reply: ServiceReply | Failure, request: RolloutEnded) -> bool:
        if not isinstance(reply, Failure):
            return True
        _log.warning("the end of rollout %s could not be told: %s", request.trace_id, reply.message)
        return not self._are_hosts_safe and may_have_been_taken(reply)

    async def _send_end(self, operation: str, request: RolloutEnded, kind: type[R]) -> R | Failure:
        # Nobody else knows of this end while the process lives; closing it bounds the wait.
        return await self._connection.call(operation, request, kind, is_safe=self._are_hosts_safe, is_lasting=True)


def _broken(what: str, name: str | None, error: Exception) -> Failure:
    message = f"{what} by us ({type(error).__name__}: {error})"
    return Failure(stage=Stage.TOOL, code=FailureCode.INTERNAL_ERROR, message=message, endpoint=name, attempts=0)
