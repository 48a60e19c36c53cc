"""The failure ledger on the wire. Ours: the contract has no such objects."""

from typing import Literal

from pydantic import BaseModel

from rft.core.failure import FailureCode, Stage
from rft.core.refused_calls import refusal_advice, refused_status
from rft.platform.api.pagination import Listed
from rft.platform.rollouts.ledger_repository import AttemptRow, HealthRow


class AttemptObject(Listed):
    """One try of one call to a customer's endpoint."""

    object: Literal["fine_tuning.job.attempt"] = "fine_tuning.job.attempt"
    at: float
    """Unix time in seconds when it ended."""
    step: int
    trace_id: str
    stage: Stage
    endpoint: str
    """Tool or grader name."""
    call_id: str
    attempt: int
    """Number of the try within its call, from 1."""
    code: FailureCode | None
    """None: a usable reply."""
    status: int | None
    """HTTP status, when there was one."""
    latency_ms: float
    queued_ms: float
    """Waited on our side before it was sent."""
    sent_bytes: int
    received_bytes: int


class CodeShare(BaseModel):
    """How often attempts ended in one way."""

    count: int
    share: float
    """Of all attempts at the endpoint."""


class EndpointHealth(Listed):
    """One endpoint over a window of steps; its id is its stage and name."""

    object: Literal["fine_tuning.job.endpoint"] = "fine_tuning.job.endpoint"
    stage: Stage
    endpoint: str
    """Tool or grader name."""
    from_step: int
    to_step: int
    attempts: int
    errors: int
    error_share: float
    errors_by_code: dict[FailureCode, CodeShare]
    latency_p50_ms: float
    latency_p95_ms: float
    queued_p95_ms: float
    last_failure: AttemptObject | None
    """Within the window."""
    client_errors: int
    """Attempts that were answered with a 4xx and count as answered: the model read it. Not among `errors`."""
    client_error_share: float
    client_errors_by_status: dict[str, CodeShare]
    last_client_error: AttemptObject | None
    """Within the window."""
    warning: str | None
    """What is wrong, and what to check, where a tool answered 4xx to nearly every call."""


def to_attempt_object(row: AttemptRow) -> AttemptObject:
    """The row on the wire."""
    return AttemptObject.model_validate(row.model_dump() | {"id": str(row.id), "at": row.at.timestamp()})


def to_endpoint_health(row: HealthRow, *, from_step: int, to_step: int) -> EndpointHealth:
    """The sums on the wire, with their shares."""
    # What we gave up ourselves is listed by its code, but held against nobody.
    errors = sum(count for code, count in row.errors_by_code.items() if code != FailureCode.CANCELLED)
    client_errors = sum(row.client_errors_by_status.values())
    refused = {int(status): count for status, count in row.client_errors_by_status.items()}
    status = refused_status(refused, row.attempts)
    return EndpointHealth(
        id=f"{row.stage}:{row.endpoint}",
        stage=row.stage,
        endpoint=row.endpoint,
        from_step=from_step,
        to_step=to_step,
        attempts=row.attempts,
        errors=errors,
        error_share=errors / row.attempts,
        errors_by_code={
            FailureCode(code): CodeShare(count=count, share=count / row.attempts)
            for code, count in sorted(row.errors_by_code.items())
        },
        latency_p50_ms=row.latency_p50_ms,
        latency_p95_ms=row.latency_p95_ms,
        queued_p95_ms=row.queued_p95_ms,
        last_failure=None if row.last_failure is None else to_attempt_object(row.last_failure),
        client_errors=client_errors,
        client_error_share=client_errors / row.attempts,
        client_errors_by_status={
            status: CodeShare(count=count, share=count / row.attempts)
            for status, count in sorted(row.client_errors_by_status.items())
        },
        warning=None if status is None else f"{refusal_advice(row.endpoint, status)}.",
        last_client_error=None if row.last_client_error is None else to_attempt_object(row.last_client_error),
    )
