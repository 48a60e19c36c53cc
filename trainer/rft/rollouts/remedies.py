"""What a failed rollout calls for when too many of a round failed. One table over all codes."""

from enum import StrEnum

from rft.core.failure import SCORE_OUT_OF_BOUNDS, Failure, FailureCode


class Remedy(StrEnum):
    """What helps against a failure."""

    WAIT = "wait"
    """The endpoint may recover, or its owner may mend it: the same call may come out differently."""
    MEND_ORDER = "mend_order"
    """The order itself is wrong: the same rows, answers and graders come out the same, however long one waits."""
    MEND_PLATFORM = "mend_platform"
    """Ours: waiting for an endpoint heals nothing."""


REMEDIES: dict[FailureCode, Remedy] = {
    FailureCode.CONNECT_ERROR: Remedy.WAIT,
    FailureCode.TLS_ERROR: Remedy.WAIT,
    FailureCode.CONNECTION_RESET: Remedy.WAIT,
    FailureCode.TIMEOUT: Remedy.WAIT,
    FailureCode.RATE_LIMITED: Remedy.WAIT,
    FailureCode.SERVER_ERROR: Remedy.WAIT,
    FailureCode.UNEXPECTED_STATUS: Remedy.WAIT,
    # Their owner mends the headers or the URL, at the endpoint or through `POST .../endpoints`.
    FailureCode.UNAUTHORIZED: Remedy.WAIT,
    FailureCode.ENDPOINT_NOT_FOUND: Remedy.WAIT,
    FailureCode.REJECTED: Remedy.WAIT,
    FailureCode.INVALID_REPLY: Remedy.WAIT,
    FailureCode.INVALID_SCORE: Remedy.WAIT,
    FailureCode.OVERSIZE_REPLY: Remedy.WAIT,
    FailureCode.DEADLINE_EXCEEDED: Remedy.WAIT,
    # The name may be made to lead elsewhere, e.g. from a private address to a public one.
    FailureCode.BLOCKED_ADDRESS: Remedy.WAIT,
    # The source, the formula, the template and the rows are part of the order and do not change while it runs.
    FailureCode.GRADER_ERROR: Remedy.MEND_ORDER,
    FailureCode.INVALID_VARIABLE: Remedy.MEND_ORDER,
    FailureCode.OVERSIZE_REQUEST: Remedy.MEND_ORDER,
    FailureCode.CANCELLED: Remedy.MEND_PLATFORM,
    FailureCode.SAMPLER_ERROR: Remedy.MEND_PLATFORM,
    FailureCode.PLATFORM_DEADLINE: Remedy.MEND_PLATFORM,
    FailureCode.INTERNAL_ERROR: Remedy.MEND_PLATFORM,
}


def remedy_of(failure: Failure) -> Remedy:
    """What helps against this failure."""
    if failure.detail == SCORE_OUT_OF_BOUNDS:
        return Remedy.MEND_ORDER
    return REMEDIES[failure.code]
