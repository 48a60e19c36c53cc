"""Failure: an unscorable end, attributed once, at the boundary where it happened."""

from enum import StrEnum

from rft.core.base import Record


class Stage(StrEnum):
    """Where it happened."""

    TOOL = "tool"
    GRADER = "grader"
    SAMPLER = "sampler"
    PLATFORM = "platform"


class Fault(StrEnum):
    """Whose doing it was; decides the treatment (design, section 3)."""

    ENDPOINT = "endpoint"
    """The customer's endpoint: retried within one budget, then the rollout is excluded."""
    PLATFORM = "platform"
    """Ours: retried, then the job stops loudly."""


class FailureCode(StrEnum):
    """What exactly happened. Every code has one fault (`FAULTS`)."""

    CONNECT_ERROR = "connect_error"
    """Refused, unreachable, or the name did not resolve."""
    TLS_ERROR = "tls_error"
    CONNECTION_RESET = "connection_reset"
    """The connection broke after it was made, before a whole reply was read."""
    TIMEOUT = "timeout"
    """No whole reply within the call's deadline."""
    RATE_LIMITED = "rate_limited"
    """HTTP 429."""
    SERVER_ERROR = "server_error"
    """HTTP 5xx."""
    UNEXPECTED_STATUS = "unexpected_status"
    """1xx, 3xx or anything else that is not an answer."""
    REJECTED = "rejected"
    """HTTP 4xx from a grader (from a tool it is shown to the model instead)."""
    INVALID_REPLY = "invalid_reply"
    """Not JSON, or JSON of another shape than the contract's."""
    INVALID_SCORE = "invalid_score"
    """The grader answered NaN, infinity, text or nothing."""
    GRADER_ERROR = "grader_error"
    """The customer's grader code raised, ran out of time or memory, or its formula has no value."""
    INVALID_VARIABLE = "invalid_variable"
    """A grader's template names something the dataset row does not have."""
    OVERSIZE_REPLY = "oversize_reply"
    """A grader's reply beyond the size cap (a tool's is shown to the model as 413)."""
    OVERSIZE_REQUEST = "oversize_request"
    """Our call would exceed the size cap: the dataset row or the trace is too large. Never sent."""
    BLOCKED_ADDRESS = "blocked_address"
    """The address guard refuses this endpoint; never retried."""
    DEADLINE_EXCEEDED = "deadline_exceeded"
    """The rollout's own deadline ran out while the endpoint held it."""
    SAMPLER_ERROR = "sampler_error"
    PLATFORM_DEADLINE = "platform_deadline"
    """The rollout's own deadline ran out while our sampler held it."""
    INTERNAL_ERROR = "internal_error"
    """An exception of ours."""


FAULTS: dict[FailureCode, Fault] = {
    code: Fault.PLATFORM
    if code in {FailureCode.SAMPLER_ERROR, FailureCode.PLATFORM_DEADLINE, FailureCode.INTERNAL_ERROR}
    else Fault.ENDPOINT
    for code in FailureCode
}


class Failure(Record):
    """Why a rollout could not be scored."""

    stage: Stage
    code: FailureCode
    message: str
    """One sentence a customer can act on; no secrets."""
    endpoint: str | None = None
    """Tool or grader name; None when no endpoint was involved."""
    status: int | None = None
    """HTTP status, when there was one."""
    detail: str | None = None
    """Finer than the code where a grader's reply has a name for it, e.g. `model_grader_refusal_error`."""
    attempts: int = 1
    elapsed_s: float = 0.0

    @property
    def fault(self) -> Fault:
        """Whose doing, by the code."""
        return FAULTS[self.code]
