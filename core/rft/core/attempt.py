"""Attempt: one try of one call to a customer endpoint, as the failure ledger keeps it."""

from dataclasses import dataclass

from rft.core.failure import FailureCode, Stage


@dataclass(frozen=True, slots=True)
class Attempt:
    """One line of the ledger. A dataclass and not a Record: thousands are made in every step."""

    at: float
    """Unix time in seconds when it ended."""
    trace_id: str
    stage: Stage
    endpoint: str
    """Tool or grader name."""
    call_id: str
    attempt: int
    """Number of the try within its call, from 1."""
    code: FailureCode | None
    """None for a usable reply."""
    status: int | None
    latency_s: float
    queued_s: float
    """Waited in our own queue before it was sent."""
    sent_bytes: int
    received_bytes: int
