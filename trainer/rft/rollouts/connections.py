"""A run's connections to the customer's servers: by calls of its own, or through gateway services."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from types import MappingProxyType

from rft.core.attempt import Attempt
from rft.core.endpoint_load import NamedLoad
from rft.core.errors import RunFailed
from rft.core.failure import Failure, Stage
from rft.core.grade import Grade
from rft.core.graders import RulerGrader
from rft.core.spec import RunSecrets, RunSpec
from rft.egress.breaker import BreakerSettings
from rft.egress.endpoint_client import EndpointClient
from rft.egress.failed_calls import FailedCalls
from rft.egress.limits import BreakerChange, Limits
from rft.egress.signing import Signer
from rft.grader_gateway.build import OpenGrader, open_any_grader, refuse_bad_sources
from rft.grader_gateway.grader import Grader, GroupGrader, close_grader
from rft.grader_gateway.remote import RemoteGraderGateway
from rft.rollouts.gateways import ToolGateway
from rft.rollouts.known_endpoints import endpoint_keys, refuse_redacted_urls
from rft.tool_gateway.callbacks import RolloutCallbacks
from rft.tool_gateway.gateway import HttpToolGateway
from rft.tool_gateway.remote import RemoteToolGateway
from rft.tool_gateway.rollout_ends import OpenRollouts

_MARGIN_S = 60.0
"""A hold gives up before the calls that wait for the same endpoint do."""
_LEFT_OPEN_S = 60.0
"""How long a run that was taken up again waits until what was left open is told."""


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """What a process adds to the specification of the run it connects."""

    on_attempt: Callable[[Attempt], None] | None = None
    """Gets every line of the ledger."""
    on_change: Callable[[BreakerChange], None] | None = None
    """Gets what breakers do."""
    failed_calls: FailedCalls | None = None
    """Gets what went wrong, with request and reply."""
    launch: int = 1
    """How many processes took the run over so far, this one included."""
    open_rollouts: OpenRollouts | None = None
    """Keeps over the process's death which rollouts' ends are still to be told."""
    are_ends_awaited: bool = False
    """Whether an end that a gateway service tells counts as told only once customers' servers took it."""
    limits: Limits | None = None
    """Others than those that follow from the specification."""


DEFAULTS = ConnectionOptions()


@dataclass(frozen=True, slots=True)
class CustomerConnections:
    """A run's connections to the customer's servers. Made inside the loop that uses them, closed in it."""

    client: EndpointClient
    tools: ToolGateway
    host: RolloutCallbacks | RemoteToolGateway | None
    grader: Grader | None = None
    group_grader: GroupGrader | None = None
    endpoints: Sequence[tuple[Stage, str, str]] = ()
    """Stage, name and endpoint key of what is called."""

    def loads(self) -> tuple[NamedLoad, ...]:
        """What each endpoint is given to bear now, of those that were called."""
        shared = {Stage.TOOL: self.tools, Stage.GRADER: self.grader or self.group_grader}
        found: list[NamedLoad] = []
        for stage, name, key in self.endpoints:
            service = shared[stage]
            is_shared = isinstance(service, RemoteToolGateway | RemoteGraderGateway)
            load = service.loads.get(key) if is_shared else self.client.limits.load_of(key)
            if load is not None:
                found.append(NamedLoad(stage=stage, endpoint=name, is_shared=is_shared, load=load))
        return tuple(found)

    def queued(self) -> Mapping[str, int]:
        """Tool calls that wait on our side now, by tool; gateway services keep that to themselves."""
        return self.tools.queued() if isinstance(self.tools, HttpToolGateway) else {}

    async def tell_left_open(
        self, trace_ids: Sequence[str], outcomes: Mapping[str, Grade | Failure] = MappingProxyType({})
    ) -> None:
        """Tell the ends that a process before this one left untold, before others need what they hold.

        `outcomes` of those that had ended.
        """
        if self.host is not None:
            for trace_id in trace_ids:
                self.host.was_left_open(trace_id=trace_id, outcome=outcomes.get(trace_id))
            await self.host.all_told(_LEFT_OPEN_S)

    async def aclose(self, hurry: asyncio.Event | None = None) -> None:
        """Tell the last ends of rollouts, then close everything. Once `hurry` is set, it takes only seconds."""
        async with AsyncExitStack() as stack:  # From the last to the first, each whatever became of those before.
            stack.push_async_callback(self.client.aclose)
            if isinstance(self.tools, RemoteToolGateway) and self.tools is not self.host:
                stack.push_async_callback(self.tools.aclose, hurry)
            for grader in (self.group_grader, self.grader):
                if grader is not None:
                    stack.push_async_callback(close_grader, grader)
            if self.host is not None:
                stack.push_async_callback(self.host.aclose, hurry)


async def open_connections(
    spec: RunSpec, secrets: RunSecrets, options: ConnectionOptions = DEFAULTS
) -> CustomerConnections:
    """Raises RunFailed."""
    refuse_redacted_urls(spec, Stage.GRADER)
    to_tools = await open_tool_connections(spec, secrets, options)
    opened = _open_grader(spec, secrets, to_tools.client, options)
    return replace(to_tools, grader=opened.single, group_grader=opened.group)


async def open_tool_connections(
    spec: RunSpec, secrets: RunSecrets, options: ConnectionOptions = DEFAULTS
) -> CustomerConnections:
    """The same without graders: for whoever grades nothing."""
    refuse_redacted_urls(spec, Stage.TOOL)
    client = open_client(spec, secrets, options)
    tools = _open_tools(spec, secrets, client, options)
    # Where a service makes the calls, it tells the beginnings and ends, too.
    host = (
        tools
        if isinstance(tools, RemoteToolGateway)
        else RolloutCallbacks(
            client, spec.tools, headers=secrets.tool_headers, job_id=spec.job_id, open_rollouts=options.open_rollouts
        )
    )
    return CustomerConnections(client, tools, host if host.has_hosts else None, endpoints=endpoint_keys(spec))


def open_client(spec: RunSpec, secrets: RunSecrets, options: ConnectionOptions = DEFAULTS) -> EndpointClient:
    """The run's own connections and limits."""
    breaker = BreakerSettings() if spec.hold is None else BreakerSettings(max_open_s=spec.hold.max_s + _MARGIN_S)
    return EndpointClient.open(
        spec.egress,
        retry=spec.retry,
        limits=options.limits or Limits.of(spec.egress, breaker=breaker, on_change=options.on_change),
        signer=Signer(secrets.signing_secrets) if secrets.signing_secrets else None,
        on_attempt=options.on_attempt,
        failed_calls=options.failed_calls,
    )


def _open_tools(
    spec: RunSpec, secrets: RunSecrets, client: EndpointClient, options: ConnectionOptions
) -> HttpToolGateway | RemoteToolGateway:
    if spec.tool_gateway_url is None:
        return HttpToolGateway(client, spec.tools, headers=secrets.tool_headers, job_id=spec.job_id)
    return RemoteToolGateway.open(
        spec.tool_gateway_url,
        tools=spec.tools,
        secrets=secrets,
        job_id=spec.job_id,
        retry=spec.retry,
        on_attempt=options.on_attempt,
        on_change=options.on_change,
        failed_calls=options.failed_calls,
        launch=options.launch,
        open_rollouts=options.open_rollouts,
        are_ends_awaited=options.are_ends_awaited,
    )


def _open_grader(spec: RunSpec, secrets: RunSecrets, client: EndpointClient, options: ConnectionOptions) -> OpenGrader:
    if spec.grader_gateway_url is not None:
        remote = RemoteGraderGateway.open(
            spec.grader_gateway_url,
            grader=spec.grader,
            secrets=secrets,
            judge=spec.judge,
            response_format=spec.response_format,
            job_id=spec.job_id,
            retry=spec.retry,
            on_attempt=options.on_attempt,
            on_change=options.on_change,
            failed_calls=options.failed_calls,
            launch=options.launch,
        )
        return OpenGrader(group=remote) if isinstance(spec.grader, RulerGrader) else OpenGrader(remote)
    try:
        refuse_bad_sources(spec.grader)
        return open_any_grader(
            spec.grader,
            client=client,
            secrets=secrets,
            judge=spec.judge,
            job_id=spec.job_id,
            response_format=spec.response_format,
        )
    except ValueError as error:
        raise RunFailed("unusable_grader", str(error), "method.reinforcement.grader") from error
