"""What becomes of a round by the failures in it, and which endpoint is named."""

import pytest

from rft.core.failure import FAULTS, FailureCode, Fault, Stage
from rft.rollouts.failure_actions import FailureAction, action_for
from rft.rollouts.hold import (
    UnrecoverableRound,
    failing_endpoint_of,
)
from tests.unit.rollouts.holds import failure

ORDER = {FailureCode.OVERSIZE_REQUEST, FailureCode.GRADER_ERROR, FailureCode.INVALID_VARIABLE}


@pytest.mark.parametrize("code", list(FailureCode))
def test_every_code_has_one_action_and_only_endpoints_are_waited_for(code: FailureCode) -> None:
    ours = FAULTS[code] is Fault.PLATFORM
    wanted = FailureAction.REDO_ROUND if ours else FailureAction.FAIL_JOB if code in ORDER else FailureAction.WAIT
    assert action_for(failure(code)) is wanted


def test_a_hopeless_round_is_named_after_its_most_frequent_code_and_where_that_happened() -> None:
    failures = [
        failure(FailureCode.OVERSIZE_REQUEST),
        failure(FailureCode.OVERSIZE_REQUEST, "lookup"),
        failure(FailureCode.OVERSIZE_REQUEST),
        *[failure(FailureCode.GRADER_ERROR, "judge", Stage.GRADER)] * 2,
    ]
    unrecoverable = UnrecoverableRound(failures, rollouts=8)
    assert (unrecoverable.code, unrecoverable.failing.endpoint) == (FailureCode.OVERSIZE_REQUEST, "tool 'search'")
    assert "oversize_request" in str(unrecoverable)
    assert unrecoverable.failing.reason == "3 of 8 rollouts failed, for example: search is down"


def test_the_failing_endpoint_is_where_most_rollouts_failed() -> None:
    failures = [
        failure(FailureCode.TIMEOUT, "lookup"),
        failure(FailureCode.TIMEOUT),
        failure(FailureCode.SERVER_ERROR),
        failure(FailureCode.TIMEOUT, None, Stage.GRADER),
    ]
    failing = failing_endpoint_of(failures, rollouts=8)
    assert (failing.stage, failing.endpoint) == (Stage.TOOL, "tool 'search'")
    assert failing.reason == "4 of 8 rollouts failed, for example: search is down"
    assert failing_endpoint_of(failures[3:], rollouts=8).endpoint == "the grader"
