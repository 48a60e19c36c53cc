"""`docs/blame.md` names every way a rollout can end, with the treatment that the code gives it."""

import pytest

from rft.core.failure import FAULTS, Failure, FailureCode, Stage
from rft.core.grade import CODE_ERRORS, SAMPLE_PARSE_ERROR
from rft.core.messages import CallMistake, http_mistake
from rft.core.rollout import StopReason
from rft.egress.retry import RETRYABLE
from rft.rollouts.failure_actions import FAILURE_ACTIONS, FailureAction
from rft.rollouts.replacements import is_worth_replacing
from tests.shared.code_tables import tables
from tests.shared.written_codes import ROOT

PAGE = ROOT / "docs" / "blame.md"
TOO_MANY = {
    FailureAction.WAIT: "held",
    FailureAction.FAIL_JOB: "job fails",
    FailureAction.REDO_ROUND: "done again, then paused",
}


@pytest.mark.parametrize(
    ("heading", "codes"),
    [
        ("Ends that are graded", {reason.value for reason in StopReason}),
        ("The model's mistakes", {*(mistake.value for mistake in CallMistake), "http_<status>"}),
        ("Grades that nobody gave", {SAMPLE_PARSE_ERROR, *CODE_ERRORS}),
        ("Failures", {code.value for code in FailureCode}),
    ],
)
def test_the_page_names_what_the_code_knows_and_nothing_else(heading: str, codes: set[str]) -> None:
    assert set(tables(PAGE, heading)) == codes


def test_a_status_is_spelled_as_the_page_says() -> None:
    assert http_mistake(404) == "http_<status>".replace("<status>", "404")


@pytest.mark.parametrize("code", FailureCode)
def test_the_page_tells_the_treatment_of_each_failure(code: FailureCode) -> None:
    _, whose, sent_again, replaced, too_many = tables(PAGE, "Failures")[code.value]
    failure = Failure(stage=Stage.TOOL, code=code, message="")
    assert whose == FAULTS[code].value
    assert sent_again == ("yes" if code in RETRYABLE else "no")
    is_replaced = code is not FailureCode.CANCELLED and is_worth_replacing(failure)
    assert replaced == ("yes" if is_replaced else "no")
    assert too_many == TOO_MANY[FAILURE_ACTIONS[code]]
