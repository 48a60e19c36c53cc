"""From rows of the registry to what a customer is shown."""

from typing import Literal

from rft.platform.orders.tool_schemas import Tool
from rft.platform.registry.redaction import shown_body
from rft.platform.registry.repository import Registration, Seen
from rft.platform.registry.schemas import GraderObject, HealthObject, ToolObject

DEGRADED_SHARE, FAILING_SHARE = 0.05, 0.5
REFUSING_SHARE = 0.9
_KNOWN = frozenset(ToolObject.model_fields) | {"url"}


def to_tool_object(row: Registration, seen: Seen | None) -> ToolObject:
    """As registered, redacted; the defaults of what was left out."""
    body = shown_body(row.body)
    tool = Tool.model_validate(body)
    known = ToolObject(
        id=row.id,
        created_at=int(row.created_at.timestamp()),
        updated_at=int(row.updated_at.timestamp()),
        name=tool.name,
        server_url=tool.server_url,
        headers=tool.headers,
        description=tool.description,
        parameters=tool.parameters,
        timeout_s=tool.timeout_s,
        max_output_chars=tool.max_output_chars,
        max_concurrency=tool.max_concurrency,
        rate_limit=tool.rate_limit,
        retry=tool.retry or "safe",
        callback_url=tool.callback_url,
        health=to_health(row, seen),
    )
    echoed = {key: value for key, value in body.items() if key not in _KNOWN}
    return known.model_copy(update=echoed) if echoed else known


def to_grader_object(row: Registration, seen: Seen | None) -> GraderObject:
    """As registered, redacted."""
    return GraderObject(
        id=row.id,
        created_at=int(row.created_at.timestamp()),
        updated_at=int(row.updated_at.timestamp()),
        name=str(row.body["name"]),
        type=str(row.body["type"]),
        grader=shown_body(row.body),
        health=to_health(row, seen),
    )


def to_health(row: Registration, seen: Seen | None) -> HealthObject:
    """Whichever is newer counts: the ledger of the last job, or the last test."""
    test = row.last_test
    seen_at = None if seen is None else seen.last_seen.timestamp()
    times = [at for at in (seen_at, None if test is None else test.at) if at is not None]
    share = None if seen is None else seen.failures / seen.attempts
    refused = None if seen is None else seen.client_errors / seen.attempts
    status: Literal["unknown", "healthy", "degraded", "failing"] = "unknown"
    last_failure = None if seen is None else seen.last_failure
    if test is not None and (seen_at is None or test.at >= seen_at):
        status = "healthy" if test.is_ok else "failing"
        last_failure = test.message
    elif share is not None and refused is not None:
        is_degraded = share > DEGRADED_SHARE or refused > REFUSING_SHARE
        status = "failing" if share > FAILING_SHARE else "degraded" if is_degraded else "healthy"
    return HealthObject(
        status=status,
        last_seen=int(max(times)) if times else None,
        error_share=share,
        client_error_share=refused,
        attempts=0 if seen is None else seen.attempts,
        last_failure=last_failure,
    )
