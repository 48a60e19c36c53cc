"""From a run's specification to its connections: client, gateways, host, hold, and who is blamed for what.

A training run and a rehearsal are put together here alike.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rft.chat.chat_format import ChatFormat
from rft.core.attempt import Attempt
from rft.core.errors import RunFailed
from rft.core.events import HoldBegan, HoldEnded, RolloutBegan, RoundRedone
from rft.core.failure import Stage
from rft.core.graders import EndpointGrader, MultiGrader, RulerGrader
from rft.core.secret_urls import has_redacted
from rft.core.spec import RunSecrets, RunSpec
from rft.egress.breaker import BreakerSettings
from rft.egress.endpoint import endpoint_key, redact_secrets_of
from rft.egress.endpoint_client import EndpointClient
from rft.egress.limits import BreakerChange, Limits
from rft.egress.signing import Signer
from rft.grader_gateway.build import open_any_grader, refuse_bad_sources
from rft.grader_gateway.grader import Grader, GroupGrader, close_grader
from rft.grader_gateway.remote import RemoteGraderGateway
from rft.rollouts.deadlines import Deadlines
from rft.rollouts.gateways import ToolGateway
from rft.rollouts.hold import FailingEndpoint, Hold
from rft.rollouts.sampler import Sampler
from rft.rollouts.setup import RolloutSetup
from rft.tool_gateway.callbacks import RolloutCallbacks
from rft.tool_gateway.gateway import HttpToolGateway
from rft.tool_gateway.remote import RemoteToolGateway
from rft.tool_gateway.rollout_ends import OpenRollouts

_MARGIN_S = 60.0
"""A hold gives up before the calls that wait for the same endpoint do."""
_LEFT_OPEN_S = 60.0
"""How long a run that was taken up again waits until what was left open is told."""

OnAttempt = Callable[[Attempt], None]
OnChange = Callable[[BreakerChange], None]


@dataclass(frozen=True, slots=True)
class CustomerConnections:
    """A run's connections to the customer's servers. Made inside the loop that uses them, closed in it."""

    client: EndpointClient
    tools: ToolGateway
    grader: Grader | None
    group_grader: GroupGrader | None
    host: RolloutCallbacks | RemoteToolGateway | None

    async def tell_left_open(self, trace_ids: Sequence[str]) -> None:
        """Tell the ends that a process before this one left untold, before others need what they hold."""
        if self.host is not None:
            for trace_id in trace_ids:
                self.host.ended(trace_id=trace_id, outcome=None)
            await self.host.all_told(_LEFT_OPEN_S)

    async def aclose(self, hurry: asyncio.Event | None = None) -> None:
        """Tell the last ends of rollouts, then close everything. Once `hurry` is set, it takes only seconds."""
        if self.host is not None:
            await self.host.aclose(hurry)
        for grader in (self.grader, self.group_grader):
            if grader is not None:
                await close_grader(grader)
        if isinstance(self.tools, RemoteToolGateway) and self.tools is not self.host:
            await self.tools.aclose(hurry)
        await self.client.aclose()


async def open_connections(
    spec: RunSpec,
    secrets: RunSecrets,
    *,
    on_attempt: OnAttempt | None = None,
    on_change: OnChange | None = None,
    launch: int = 1,
    open_rollouts: OpenRollouts | None = None,
    limits: Limits | None = None,
) -> CustomerConnections:
    """`on_attempt` gets every line of the ledger, `on_change` what breakers do. Raises RunFailed.

    `limits`: others than those that follow from the specification.
    """
    _refuse_redacted_urls(spec, Stage.GRADER)
    to_tools = await open_tool_connections(
        spec,
        secrets,
        on_attempt=on_attempt,
        on_change=on_change,
        launch=launch,
        open_rollouts=open_rollouts,
        limits=limits,
    )
    grader, group_grader = _graders(spec, secrets, to_tools.client, on_attempt, on_change, launch)
    return replace(to_tools, grader=grader, group_grader=group_grader)


async def open_tool_connections(
    spec: RunSpec,
    secrets: RunSecrets,
    *,
    on_attempt: OnAttempt | None = None,
    on_change: OnChange | None = None,
    launch: int = 1,
    open_rollouts: OpenRollouts | None = None,
    limits: Limits | None = None,
) -> CustomerConnections:
    """The same without graders: for whoever grades nothing."""
    _refuse_redacted_urls(spec, Stage.TOOL)
    client = open_client(spec, secrets, on_attempt=on_attempt, on_change=on_change, limits=limits)
    tools = _tools(spec, secrets, client, on_attempt, on_change, launch, open_rollouts)
    # Where a service makes the calls, it tells the beginnings and ends, too.
    host = (
        tools
        if isinstance(tools, RemoteToolGateway)
        else RolloutCallbacks(
            client, spec.tools, headers=secrets.tool_headers, job_id=spec.job_id, open_rollouts=open_rollouts
        )
    )
    return CustomerConnections(
        client=client, tools=tools, grader=None, group_grader=None, host=host if host.has_hosts else None
    )


def _refuse_redacted_urls(spec: RunSpec, stage: Stage) -> None:
    """A URL whose secret did not come along leads elsewhere than the customer meant: never to be called."""
    known = known_endpoints(spec, RunSecrets()).values()
    if any(has_redacted(url) for endpoint in known if endpoint.stage is stage for url in endpoint.urls):
        raise RunFailed("secret_url_missing", f"The secret in the URL of a {stage.value} did not come with the run.")


def open_client(
    spec: RunSpec,
    secrets: RunSecrets,
    *,
    on_attempt: OnAttempt | None = None,
    on_change: OnChange | None = None,
    limits: Limits | None = None,
) -> EndpointClient:
    """The run's own connections and limits."""
    breaker = BreakerSettings() if spec.hold is None else BreakerSettings(max_open_s=spec.hold.max_s + _MARGIN_S)
    return EndpointClient.open(
        spec.egress,
        retry=spec.retry,
        limits=limits or Limits.of(spec.egress, breaker=breaker, on_change=on_change),
        signer=Signer(secrets.signing_secrets) if secrets.signing_secrets else None,
        on_attempt=on_attempt,
    )


def _tools(
    spec: RunSpec,
    secrets: RunSecrets,
    client: EndpointClient,
    on_attempt: OnAttempt | None,
    on_change: OnChange | None,
    launch: int,
    open_rollouts: OpenRollouts | None,
) -> ToolGateway:
    if spec.tool_gateway_url is None:
        return HttpToolGateway(client, spec.tools, headers=secrets.tool_headers, job_id=spec.job_id)
    return RemoteToolGateway.open(
        spec.tool_gateway_url,
        tools=spec.tools,
        secrets=secrets,
        job_id=spec.job_id,
        retry=spec.retry,
        on_attempt=on_attempt,
        on_change=on_change,
        launch=launch,
        open_rollouts=open_rollouts,
    )


def _graders(
    spec: RunSpec,
    secrets: RunSecrets,
    client: EndpointClient,
    on_attempt: OnAttempt | None,
    on_change: OnChange | None,
    launch: int,
) -> tuple[Grader | None, GroupGrader | None]:
    """One of the two: who judges rollouts alone, or who judges whole groups."""
    if spec.grader_gateway_url is not None:
        remote = RemoteGraderGateway.open(
            spec.grader_gateway_url,
            grader=spec.grader,
            secrets=secrets,
            judge=spec.judge,
            response_format=spec.response_format,
            job_id=spec.job_id,
            retry=spec.retry,
            on_attempt=on_attempt,
            on_change=on_change,
            launch=launch,
        )
        return (None, remote) if isinstance(spec.grader, RulerGrader) else (remote, None)
    try:
        refuse_bad_sources(spec.grader)
        opened = open_any_grader(
            spec.grader,
            client=client,
            secrets=secrets,
            judge=spec.judge,
            job_id=spec.job_id,
            response_format=spec.response_format,
        )
    except ValueError as error:
        raise RunFailed("unusable_grader", str(error), "method.reinforcement.grader") from error
    return opened.single, opened.group


def open_hold(
    spec: RunSpec, secrets: RunSecrets, deadlines: Deadlines, tell: Callable[[HoldBegan | HoldEnded], None]
) -> Hold | None:
    """None where the run uses its rounds as they come out."""
    if spec.hold is None:
        return None
    return Hold(
        spec.hold, tell=tell, blame=partial(_failing_endpoint, known_endpoints(spec, secrets)), deadlines=deadlines
    )


def rollout_setup(
    spec: RunSpec,
    connections: CustomerConnections,
    engine: Sampler,
    chat_format: ChatFormat,
    *,
    hold: Hold | None = None,
    deadlines: Deadlines | None = None,
    on_begun: Callable[[RolloutBegan], Awaitable[None]] | None = None,
    on_redo: Callable[[RoundRedone], None] | None = None,
) -> RolloutSetup:
    """What all rollouts of the run share; a hold needs the deadlines it lets stand still."""
    return RolloutSetup(
        sampler=engine,
        chat_format=chat_format,
        tools=connections.tools,
        grader=connections.grader,
        group_grader=connections.group_grader,
        host=connections.host,
        grader_name=spec.grader.name,
        budgets=spec.budgets,
        temperature=spec.temperature,
        model_name=spec.model_name,
        hold=hold,
        deadlines=deadlines or Deadlines(),
        on_begun=on_begun,
        platform_failure_share=spec.platform_failure_share,
        on_redo=on_redo,
    )


@dataclass(frozen=True, slots=True)
class KnownEndpoint:
    """Who is behind one endpoint key."""

    stage: Stage
    names: tuple[str, ...]
    """In label, e.g. `tool 'search'`."""
    secrets: dict[str, str]
    """Header values that no message may show."""
    urls: tuple[str, ...] = ()
    """Whole, with whatever secrets they hold."""


def known_endpoints(spec: RunSpec, secrets: RunSecrets) -> dict[str, KnownEndpoint]:
    """All endpoints of a run by endpoint key; what shares a key shares its health."""
    found: dict[str, KnownEndpoint] = {}

    def add(stage: Stage, url: str, label: str, headers: dict[str, str]) -> None:
        before = found.get(endpoint_key(url), KnownEndpoint(stage, (), {}))
        numbered = {f"{name}.{len(before.secrets)}": value for name, value in headers.items()}
        names = before.names if label in before.names else (*before.names, label)
        urls = (*before.urls, url)
        found[endpoint_key(url)] = KnownEndpoint(before.stage, names, before.secrets | numbered, urls)

    for tool in spec.tools:
        headers = secrets.tool_headers.get(tool.name, {})
        add(Stage.TOOL, tool.server_url, f"tool {tool.name!r}", headers)
        if tool.callback_url is not None:
            add(Stage.TOOL, tool.callback_url, f"the rollout callback of tool {tool.name!r}", headers)
    if isinstance(spec.grader, EndpointGrader):
        add(Stage.GRADER, spec.grader.url, f"grader {spec.grader.name!r}", secrets.grader_headers)
    if isinstance(spec.grader, MultiGrader):
        for name, part in spec.grader.graders.items():
            if isinstance(part, EndpointGrader):
                add(Stage.GRADER, part.url, f"grader {part.name!r}", secrets.part_headers.get(name, {}))
    if spec.judge is not None:
        key = {"Authorization": secrets.judge_api_key} if secrets.judge_api_key else {}
        add(Stage.GRADER, spec.judge.base_url.rstrip("/") + "/chat/completions", "the judge server", key)
    return found


def _failing_endpoint(known: dict[str, KnownEndpoint], change: BreakerChange) -> FailingEndpoint:
    endpoint = known.get(change.endpoint, KnownEndpoint(Stage.PLATFORM, (f"endpoint {change.endpoint}",), {}))
    names = " and ".join(endpoint.names)
    what = "does not answer" if change.last_failure is None else change.last_failure.message
    reason = redact_secrets_of(f"{names} at {change.endpoint} {what}", endpoint.secrets, *endpoint.urls)
    return FailingEndpoint(stage=endpoint.stage, endpoint=names, reason=reason)
