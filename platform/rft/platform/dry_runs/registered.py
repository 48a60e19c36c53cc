"""Test calls: one call to a registered tool, one grade of a registered grader, exactly as a job would make them."""

import json
import time
import uuid
from collections.abc import Sequence

from rft.core.attempt import Attempt
from rft.core.failure import Failure
from rft.core.messages import ToolCall, ToolSchema
from rft.core.spec import RunSecrets
from rft.platform.api.dependencies import Services
from rft.platform.dry_runs.service import grade_once, open_client, trace_of
from rft.platform.jobs.run_spec import to_tool_server
from rft.platform.orders.grader_specification import secrets_of_grader, to_grader_spec
from rft.platform.orders.tool_schemas import Tool
from rft.platform.registry.redaction import whole_body
from rft.platform.registry.repository import Kind, LastTest, Registration, RegistrationRepository
from rft.platform.registry.resolution import validated
from rft.platform.registry.schemas import GraderCreate, GraderTested, GraderTry, ToolTested, ToolTry, TriedAttempt
from rft.platform.registry.service import found
from rft.tool_gateway.gateway import HttpToolGateway

_TEST = "test"
_CALL_ID = "call_test"


async def try_tool(services: Services, tool_id: str, wanted: ToolTry) -> ToolTested:
    """What the model would read, or what would end the rollout. Raises NotFound."""
    tool = validated(Tool, whole_body(await _find(services, "tool", tool_id), services.secret_box))
    server = to_tool_server(tool, services.settings)
    schema = server.schema_of_job or ToolSchema(name=tool.name, parameters={"type": "object"})
    call = ToolCall(call_id=_CALL_ID, name=tool.name, arguments=json.dumps(wanted.arguments))
    trace_id, made = _new_trace_id(), list[Attempt]()
    async with open_client(services, RunSecrets(), on_attempt=made.append) as (client, _):
        gateway = HttpToolGateway(client, (server,), headers={tool.name: tool.headers or {}}, job_id=_TEST)
        result = await gateway.call(call, tools=(schema,), item=wanted.item, trace_id=trace_id)
    tested = ToolTested(
        tool_id=tool_id,
        trace_id=trace_id,
        is_ok=result.failure is None and not result.is_model_error,
        output=result.output,
        error_code=result.error_code,
        failure=result.failure,
        latency_s=result.latency_s,
        attempts=_attempts(made),
    )
    # A call that was never sent says nothing about the tool; neither does its complaint about bad arguments.
    if made:
        failure = tested.failure or result.suspected_failure
        await _keep(services, tool_id, None if failure is None else failure.message, tested.latency_s)
    return tested


async def try_grader(services: Services, grader_id: str, wanted: GraderTry, *, key_id: str) -> GraderTested:
    """The grade, or why there is none. Raises NotFound."""
    body = whole_body(await _find(services, "grader", grader_id), services.secret_box)
    grader = validated(GraderCreate, {"grader": body}).grader
    spec = to_grader_spec(grader, services.settings)
    trace_id, made, started_s = _new_trace_id(), list[Attempt](), time.monotonic()
    async with open_client(services, secrets_of_grader(grader), on_attempt=made.append) as (client, secrets):
        outcome = await grade_once(
            spec,
            trace_of(wanted.model_sample, wanted.item),
            item=wanted.item,
            trace_id=trace_id,
            client=client,
            secrets=secrets,
            settings=services.settings,
            key_id=key_id,
        )
    latency_s = time.monotonic() - started_s
    failure = outcome if isinstance(outcome, Failure) else None
    invalid = None if isinstance(outcome, Failure) or not outcome.is_invalid else outcome.error_details
    problem = invalid if failure is None else failure.message
    await _keep(services, grader_id, problem, latency_s)
    return GraderTested(
        grader_id=grader_id,
        trace_id=trace_id,
        is_ok=problem is None,
        reward=None if isinstance(outcome, Failure) else outcome.reward,
        scores={} if isinstance(outcome, Failure) else dict(outcome.scores),
        failure=failure,
        error_details=invalid,
        latency_s=latency_s,
        attempts=_attempts(made),
    )


async def _find(services: Services, kind: Kind, registration_id: str) -> Registration:
    async with services.database.transaction() as connection:
        return found(await RegistrationRepository(connection).get(kind, registration_id), kind, registration_id)


async def _keep(services: Services, registration_id: str, problem: str | None, latency_s: float) -> None:
    test = LastTest(at=time.time(), is_ok=problem is None, latency_s=latency_s, message=problem)
    async with services.database.transaction() as connection:
        await RegistrationRepository(connection).keep_test(registration_id, test)


def _attempts(made: Sequence[Attempt]) -> list[TriedAttempt]:
    return [
        TriedAttempt(
            attempt=attempt.attempt,
            status=attempt.status,
            code=None if attempt.code is None else str(attempt.code),
            latency_ms=attempt.latency_s * 1000,
        )
        for attempt in made
    ]


def _new_trace_id() -> str:
    return f"trace_{uuid.uuid4()}"
