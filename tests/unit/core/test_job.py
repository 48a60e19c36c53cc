"""The job's state machine: every pair of statuses is decided."""

import itertools

import pytest

from rft.core.errors import IllegalTransition
from rft.core.job import TERMINAL, TRANSITIONS, JobStatus, advance


def test_every_status_has_a_row() -> None:
    assert set(TRANSITIONS) == set(JobStatus)


@pytest.mark.parametrize(("current", "wanted"), list(itertools.product(JobStatus, JobStatus)))
def test_every_pair_moves_or_is_refused(current: JobStatus, wanted: JobStatus) -> None:
    if wanted in TRANSITIONS[current]:
        assert advance(current, wanted) is wanted
    else:
        with pytest.raises(IllegalTransition, match=f"{current} cannot become {wanted}"):
            advance(current, wanted)


def test_terminal_statuses_are_the_contracts() -> None:
    assert {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED} == TERMINAL


def test_every_unfinished_job_can_be_cancelled_and_can_fail() -> None:
    for status in set(JobStatus) - TERMINAL:
        assert {JobStatus.CANCELLED, JobStatus.FAILED} <= TRANSITIONS[status]
