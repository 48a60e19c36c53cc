"""From a run's specification and connections to its rollouts: what they share, their hold, and who is blamed for what.

A training run and a rehearsal are put together here alike.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from rft.chat.chat_format import ChatFormat
from rft.core.events import HoldBegan, HoldEnded, RolloutBegan, RoundRedone
from rft.core.failure import Stage
from rft.core.spec import RunSecrets, RunSpec
from rft.egress.limits import BreakerChange
from rft.egress.redaction import redact_secrets_of
from rft.rollouts.connections import CustomerConnections
from rft.rollouts.deadlines import Deadlines
from rft.rollouts.hold import FailingEndpoint, Hold
from rft.rollouts.known_endpoints import KnownEndpoint, known_endpoints
from rft.rollouts.live import LiveRollouts
from rft.rollouts.sampler import Sampler
from rft.rollouts.setup import RolloutSetup


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
    live: LiveRollouts | None = None,
) -> RolloutSetup:
    """What all rollouts of the run share; a hold needs the deadlines it lets stand still."""
    return RolloutSetup(
        sampler=engine,
        chat_format=chat_format,
        tools=connections.tools,
        has_tool_servers=bool(spec.tools),
        grader=connections.grader,
        group_grader=connections.group_grader,
        host=connections.host,
        grader_name=spec.grader.name,
        budgets=spec.budgets,
        temperature=spec.temperature,
        model_name=spec.model_name,
        hold=hold,
        deadlines=deadlines or Deadlines(),
        live=live or LiveRollouts(),
        on_begun=on_begun,
        platform_failure_share=spec.platform_failure_share,
        on_redo=on_redo,
        follows_policy=spec.hyperparameters.policy_pin == "turn",
    )


def _failing_endpoint(known: dict[str, KnownEndpoint], change: BreakerChange) -> FailingEndpoint:
    endpoint = known.get(change.endpoint, KnownEndpoint(Stage.PLATFORM, (f"endpoint {change.endpoint}",), {}))
    names = " and ".join(endpoint.names)
    what = "does not answer" if change.last_failure is None else change.last_failure.message
    reason = redact_secrets_of(f"{names} at {change.endpoint} {what}", endpoint.secrets, *endpoint.urls)
    return FailingEndpoint(stage=endpoint.stage, endpoint=names, reason=reason)
