"""Dry runs: a grader on one answer, a tool on one call, exactly as a job would make them."""

import hashlib
import json
import secrets as random_source
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from rft.core.attempt import Attempt
from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow, parse_row
from rft.core.failure import Failure, FailureCode
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.graders import GraderSpec, LeafGrader, MultiGrader, PythonGrader, RulerGrader
from rft.core.messages import CallMistake, Message, Role, ToolCall, ToolResult, ToolSchema
from rft.core.response_format import ResponseFormat
from rft.core.spec import RetryBudget, RunSecrets, ToolServer
from rft.egress.endpoint_client import EndpointClient, encode_json
from rft.egress.limits import Limits
from rft.egress.signing import Signer
from rft.grader_gateway.build import open_any_grader
from rft.grader_gateway.builtin.sandbox.pool import AT_ONCE
from rft.grader_gateway.builtin.sandbox.slots import SlotShare
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import ApiError, BadRequest
from rft.platform.dry_runs.objects import (
    GraderRun,
    GraderRunObject,
    GraderValidate,
    GraderValidated,
    ToolRun,
    ToolRunObject,
    to_run_object,
)
from rft.platform.orders.grader_schemas import Grader
from rft.platform.orders.grader_sources import refuse_bad_sources
from rft.platform.orders.grader_specification import (
    refuse_unfillable_templates,
    refuse_without_judge,
    secrets_of_grader,
    to_grader_spec,
    to_judge,
    with_name,
)
from rft.platform.orders.redaction import redacted
from rft.platform.orders.references import GraderReference
from rft.platform.orders.response_format import to_response_format
from rft.platform.registry.resolution import resolve_grader
from rft.platform.settings import Settings
from rft.platform.signing.run_secrets import whole_run_secrets
from rft.tool_gateway.contract import item_id
from rft.tool_gateway.gateway import HttpToolGateway

MAX_TOTAL_S = 120.0
"""All attempts of one call of a dry run: somebody waits for the reply."""
_PARAM = "grader"
_DRY_RUN = "dry-run"


async def run_grader(services: Services, wanted: GraderRun, *, key_id: str) -> GraderRunObject:
    """The grade, or every reason why there is none. Raises BadRequest where no judge is configured."""
    resolved = await _resolved(services, wanted.grader)
    grader = with_name(resolved, _invented_name())
    refuse_without_judge(grader, services.settings, param=_PARAM)
    refuse_unfillable_templates(grader, param=_PARAM)
    await refuse_bad_sources(grader, param=_PARAM, share=SlotShare(key_id, most=1))
    spec = to_grader_spec(grader, services.settings)
    item = wanted.item or {}
    trace = trace_of(wanted.model_sample, item)
    scope = None if wanted.trace_id is None else _scope_of(wanted, to_grader_spec(resolved, services.settings))
    async with open_client(services, secrets_of_grader(grader), idempotency_scope=scope) as (client, secrets):
        started_s = time.monotonic()
        outcome = await grade_once(
            spec,
            trace,
            item=item,
            trace_id=wanted.trace_id or _new_trace_id(),
            client=client,
            secrets=secrets,
            settings=services.settings,
            key_id=key_id,
            response_format=to_response_format(wanted.response_format),
        )
        return to_run_object(spec, outcome, execution_s=time.monotonic() - started_s)


def _scope_of(wanted: GraderRun, spec: GraderSpec) -> str:
    """Whoever names the conversation may ask about several answers of it, and in several ways: each is a call of its
    own. `spec`: without an invented name, and without secrets, as ever."""
    asked = wanted.model_dump(mode="json", include={"model_sample", "item", "response_format"})
    return hashlib.sha256(encode_json({**asked, "grader": spec.model_dump(mode="json")})).hexdigest()[:16]


async def validate_grader(services: Services, wanted: GraderValidate, *, key_id: str) -> GraderValidated:
    """The grader with its name filled in. Raises BadRequest where no judge is configured."""
    grader = with_name(await _resolved(services, wanted.grader), _invented_name())
    refuse_without_judge(grader, services.settings, param=_PARAM)
    refuse_unfillable_templates(grader, param=_PARAM)
    await refuse_bad_sources(grader, param=_PARAM, share=SlotShare(key_id, most=1))
    shown = redacted(grader.model_dump(mode="json", exclude_unset=True))
    assert isinstance(shown, dict), "masking keeps the shape"
    return GraderValidated(grader=shown)


async def _resolved(services: Services, grader: Grader | GraderReference) -> Grader:
    async with services.database.transaction() as connection:
        return await resolve_grader(connection, services.secret_box, grader, param=_PARAM)


async def run_tool(services: Services, wanted: ToolRun) -> ToolRunObject:
    """What the tool answers. Raises BadRequest for what a model would be told, and for what would end a rollout."""
    tool = ToolServer(
        name=wanted.name,
        server_url=wanted.server_url,
        header_names=tuple(wanted.headers or ()),
        timeout_s=services.settings.tool_timeout_s,
    )
    call = ToolCall(call_id=wanted.call_id or _random_id("call_"), name=wanted.name, arguments=wanted.arguments)
    trace_id = wanted.trace_id or _new_trace_id()
    async with open_client(services, RunSecrets()) as (client, _):
        gateway = HttpToolGateway(client, (tool,), headers={wanted.name: wanted.headers or {}}, job_id=_DRY_RUN)
        schema = ToolSchema(name=wanted.name, parameters={"type": "object"})
        result = await gateway.call(call, tools=(schema,), item=wanted.item or {}, trace_id=trace_id)
    return _told(result, id_=wanted.id or item_id(trace_id, call.call_id))


def _told(result: ToolResult, *, id_: str) -> ToolRunObject:
    if result.failure is not None:
        if result.failure.code is FailureCode.INTERNAL_ERROR:
            raise ApiError(result.failure.message, code=str(result.failure.code))
        raise BadRequest(result.failure.message, param="server_url", code=str(result.failure.code))
    assert result.output is not None, "a call ends in an output or a failure"
    if result.is_model_error:
        param = "arguments" if result.error_code == CallMistake.INVALID_ARGUMENTS else None
        raise BadRequest(result.output, param=param, code=result.error_code)
    return ToolRunObject(
        id=id_, call_id=result.call_id, output=result.output, latency_s=result.latency_s, attempts=result.attempts
    )


@asynccontextmanager
async def open_client(
    services: Services,
    own: RunSecrets,
    *,
    on_attempt: Callable[[Attempt], None] | None = None,
    idempotency_scope: str | None = None,
    limits: Limits | None = None,
) -> AsyncGenerator[tuple[EndpointClient, RunSecrets]]:
    """Connections as a trainer has them, with patience for a dry run; `own` with what the platform adds.

    `limits`: for many calls; None: those of one.
    """
    settings = services.settings
    async with services.database.transaction() as connection:
        added = await whole_run_secrets(connection, None, services.secret_box, settings)
    secrets = added.model_copy(update={"grader_headers": own.grader_headers, "part_headers": own.part_headers})
    client = EndpointClient.open(
        settings.egress,
        retry=RetryBudget(
            max_retries=settings.max_retries,
            total_s=min(settings.retry_total_s, MAX_TOTAL_S),
            first_wait_s=settings.retry_first_wait_s,
        ),
        limits=limits or Limits.fixed(settings.max_calls_in_flight),
        signer=Signer(secrets.signing_secrets) if secrets.signing_secrets else None,
        on_attempt=on_attempt,
        idempotency_scope=idempotency_scope,
    )
    async with client:
        yield client, secrets


async def grade_once(
    spec: GraderSpec,
    trace: FinishedTrace,
    *,
    item: JsonObject,
    trace_id: str,
    client: EndpointClient,
    secrets: RunSecrets,
    settings: Settings,
    key_id: str,
    response_format: ResponseFormat | None = None,
) -> Grade | Failure:
    """One trace through any kind of grader; a ruler ranks a group of one.

    Code has a dry run's time, and one caller's code at most half of what this process runs at once.
    """
    grader = open_any_grader(
        _in_dry_run_time(spec, settings.dry_run_grade_s),
        client=client,
        secrets=secrets,
        judge=to_judge(settings),
        job_id=_DRY_RUN,
        response_format=response_format,
        share=SlotShare(key_id, most=AT_ONCE // 2),
    )
    try:
        [outcome] = await grader.grade_group([trace], item=item, trace_ids=[trace_id])
        return outcome
    finally:
        await grader.aclose()


def _in_dry_run_time(spec: GraderSpec, most_s: float) -> GraderSpec:
    """The same grader, its code with less patience."""
    match spec:
        case MultiGrader():
            parts = {name: _leaf_in_dry_run_time(part, most_s) for name, part in spec.graders.items()}
            return spec.model_copy(update={"graders": parts})
        case RulerGrader():
            return spec
        case _:
            return _leaf_in_dry_run_time(spec, most_s)


def _leaf_in_dry_run_time(spec: LeafGrader, most_s: float) -> LeafGrader:
    is_code = isinstance(spec, PythonGrader)
    return spec.model_copy(update={"timeout_s": min(spec.timeout_s, most_s)}) if is_code else spec


def trace_of(answer: str, item: JsonObject) -> FinishedTrace:
    """A conversation that ends in the answer; what comes before is the row's, where the item is a whole row.

    Graders get the answer as JSON where it is any, as if it had been asked for.
    """
    row = parse_row(json.dumps(item), line_number=1, index=0)
    prompt = row.messages if isinstance(row, DatasetRow) else ()
    messages = (*prompt, Message(role=Role.ASSISTANT, content=answer))
    tools = row.tools if isinstance(row, DatasetRow) else ()
    return FinishedTrace(
        messages, prompt_messages=len(prompt), finish_reason="stop", model=_DRY_RUN, tools=tools, has_json=True
    )


def _invented_name() -> str:
    return _random_id("grader-")


def _random_id(prefix: str) -> str:
    return prefix + random_source.token_hex(4)


def _new_trace_id() -> str:
    return f"trace_{uuid.uuid4()}"
