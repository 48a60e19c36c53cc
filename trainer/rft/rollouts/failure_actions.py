"""What is done about a failure when too many rollouts of a round ended in it. One table over all codes."""

from enum import StrEnum

from rft.core.failure import SCORE_OUT_OF_BOUNDS, Failure, FailureCode


class FailureAction(StrEnum):
    """What is done about failures."""

    WAIT = "wait"
    """The endpoint may recover, or its owner may mend it: the same call may come out differently."""
    FAIL_JOB = "fail_job"
    """The order itself is wrong: the same rows, answers and graders come out the same, however long one waits."""
    REDO_ROUND = "redo_round"
    """Ours: waiting for an endpoint heals nothing, so the round is rolled out anew."""


FAILURE_ACTIONS: dict[FailureCode, FailureAction] = {
    FailureCode.CONNECT_ERROR: FailureAction.WAIT,
    FailureCode.TLS_ERROR: FailureAction.WAIT,
    FailureCode.CONNECTION_RESET: FailureAction.WAIT,
    FailureCode.TIMEOUT: FailureAction.WAIT,
    FailureCode.RATE_LIMITED: FailureAction.WAIT,
    FailureCode.SERVER_ERROR: FailureAction.WAIT,
    FailureCode.UNEXPECTED_STATUS: FailureAction.WAIT,
    # Their owner mends the headers or the URL, at the endpoint or through `POST .../endpoints`.
    FailureCode.UNAUTHORIZED: FailureAction.WAIT,
    FailureCode.ENDPOINT_NOT_FOUND: FailureAction.WAIT,
    FailureCode.REJECTED: FailureAction.WAIT,
    FailureCode.INVALID_REPLY: FailureAction.WAIT,
    FailureCode.INVALID_SCORE: FailureAction.WAIT,
    FailureCode.OVERSIZE_REPLY: FailureAction.WAIT,
    FailureCode.DEADLINE_EXCEEDED: FailureAction.WAIT,
    # The name may be made to lead elsewhere, e.g. from a private address to a public one.
    FailureCode.BLOCKED_ADDRESS: FailureAction.WAIT,
    # The source, the formula, the template and the rows are part of the order and do not change while it runs.
    FailureCode.GRADER_ERROR: FailureAction.FAIL_JOB,
    FailureCode.INVALID_VARIABLE: FailureAction.FAIL_JOB,
    FailureCode.OVERSIZE_REQUEST: FailureAction.FAIL_JOB,
    FailureCode.CANCELLED: FailureAction.REDO_ROUND,
    FailureCode.SAMPLER_ERROR: FailureAction.REDO_ROUND,
    FailureCode.PLATFORM_DEADLINE: FailureAction.REDO_ROUND,
    FailureCode.INTERNAL_ERROR: FailureAction.REDO_ROUND,
}


def action_for(failure: Failure) -> FailureAction:
    """What is done about this failure."""
    if failure.detail == SCORE_OUT_OF_BOUNDS:
        return FailureAction.FAIL_JOB
    return FAILURE_ACTIONS[failure.code]
