"""Failure: an unscorable end, attributed once, at the boundary where it happened."""

from collections.abc import Sequence
from enum import StrEnum
from http import HTTPStatus

from pydantic import Field

from rft.core.base import Record
from rft.core.grade import PartOutcome, TokenUsage


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
    """HTTP 5xx, and the 4xx that only ask for the call to be sent again: 408, 421, 425."""
    UNEXPECTED_STATUS = "unexpected_status"
    """1xx, 3xx or anything else that is not an answer."""
    UNAUTHORIZED = "unauthorized"
    """HTTP 401, 403 or 407, from a tool without an `output`: a wrong or expired key. Never sent again by itself."""
    ENDPOINT_NOT_FOUND = "endpoint_not_found"
    """A tool's URL answered 404, 405 or 410 without an `output` to nearly every call of a step."""
    REJECTED = "rejected"
    """Any other HTTP 4xx from a grader (from a tool it is shown to the model instead)."""
    INVALID_REPLY = "invalid_reply"
    """Not JSON, or JSON of another shape than the contract's."""
    INVALID_SCORE = "invalid_score"
    """The grader gave no number that can be a score: NaN, infinity, text, nothing, or one beyond `MAX_SCORE`."""
    GRADER_ERROR = "grader_error"
    """The customer's grader code cannot be compiled. What it raises on an answer is a grade (`Grade.is_invalid`)."""
    INVALID_VARIABLE = "invalid_variable"
    """A grader's template names something the dataset row does not have."""
    OVERSIZE_REPLY = "oversize_reply"
    """A grader's reply beyond the size cap (a tool's is shown to the model as 413)."""
    OVERSIZE_REQUEST = "oversize_request"
    """The dataset row or the trace is too large: for a call of ours (never sent), for templates, for a comparison."""
    BLOCKED_ADDRESS = "blocked_address"
    """The address guard refuses this endpoint; never retried."""
    DEADLINE_EXCEEDED = "deadline_exceeded"
    """The rollout's own deadline ran out while the endpoint held it."""
    CANCELLED = "cancelled"
    """We gave the attempt up before it ended: the rollout's deadline ran out, or the run stops. In the ledger only."""
    SAMPLER_ERROR = "sampler_error"
    PLATFORM_DEADLINE = "platform_deadline"
    """The rollout's own deadline ran out while our sampler held it."""
    INTERNAL_ERROR = "internal_error"
    """An exception of ours."""


FAULTS: dict[FailureCode, Fault] = {
    code: Fault.PLATFORM
    if code
    in {
        FailureCode.CANCELLED,
        FailureCode.SAMPLER_ERROR,
        FailureCode.PLATFORM_DEADLINE,
        FailureCode.INTERNAL_ERROR,
    }
    else Fault.ENDPOINT
    for code in FailureCode
}


NOT_FOUND_STATUSES = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.GONE})
"""Answers of a URL behind which perhaps nothing takes calls."""

SCORE_OUT_OF_BOUNDS = "score_out_of_bounds"
"""`Failure.detail` of a score that the order's own code or formula made too large: no waiting makes it smaller."""


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
    usage: dict[str, TokenUsage] = Field(default_factory=dict)
    """Tokens that judge models used in vain, by model name."""
    parts: dict[str, PartOutcome] = Field(default_factory=dict)
    """What each part of a multi grader came to; where none of them failed, the whole did, in its formula."""

    @property
    def fault(self) -> Fault:
        """Whose doing, by the code."""
        return FAULTS[self.code]

    def shared_by(self, rollouts: int) -> Sequence["Failure"]:
        """For each of the rollouts that one call was to judge: its tokens are told once, with the first."""
        others = self.model_copy(update={"usage": {}}) if self.usage else self
        return [self, *[others] * (rollouts - 1)][:rollouts]
