"""FailedCall: what an endpoint was asked and what it answered, where that was no usable answer."""

from dataclasses import dataclass

from rft.core.failure import FailureCode, Stage

SHOWN_CHARS = 4096
"""What is kept of a request, and of a reply."""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """One attempt that failed, or that was answered with a 4xx. Texts are cut, and without the secrets of the call."""

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
    """None: the model read the 4xx."""
    status: int | None
    message: str | None
    """What happened, as the end of a sentence that begins with the endpoint's name; None for a 4xx that was read."""
    request: str
    """The body that was sent."""
    reply: str | None
    """The body that came; None where none did."""
