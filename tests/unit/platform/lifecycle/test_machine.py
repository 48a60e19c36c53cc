"""Every change of a job's status: all pairs are decided, and every change that the platform knows is a legal one."""

import itertools
from collections.abc import Iterator

import pytest

from rft.core.errors import IllegalTransition
from rft.core.job import TERMINAL, TRANSITIONS, JobStatus
from rft.platform.lifecycle import reconciler_repository, repository, run_repository
from rft.platform.lifecycle.machine import UNFINISHED, Transition, transition, transition_to


def named_changes() -> Iterator[tuple[str, Transition]]:
    for module in (reconciler_repository, repository, run_repository):
        yield from ((name, value) for name, value in vars(module).items() if isinstance(value, Transition))


@pytest.mark.parametrize(("before", "to"), list(itertools.product(JobStatus, JobStatus)))
def test_every_pair_of_statuses_is_a_change_or_is_refused(before: JobStatus, to: JobStatus) -> None:
    if before is to or to in TRANSITIONS[before]:
        assert transition({before}, to) == Transition((before,), to)
    else:
        with pytest.raises(IllegalTransition, match=f"{before} cannot become {to}"):
            transition({before}, to)


@pytest.mark.parametrize("to", JobStatus)
def test_one_status_that_does_not_lead_there_spoils_the_change(to: JobStatus) -> None:
    with pytest.raises(IllegalTransition):
        transition(set(JobStatus), to)


@pytest.mark.parametrize("to", JobStatus)
def test_a_change_from_wherever_it_is_legal_expects_those_statuses_and_no_other(to: JobStatus) -> None:
    leads_there = {status for status in JobStatus if status is to or to in TRANSITIONS[status]}
    assert set(transition_to(to, among=JobStatus).expected) == leads_there


def test_statuses_are_finished_or_not() -> None:
    assert set(JobStatus) - TERMINAL == UNFINISHED


def test_no_named_change_leaves_a_status_that_is_final() -> None:
    changes = dict(named_changes())
    assert {"START", "PAUSE", "PAUSE_UNLEASED", "RESUME", "REQUEUE", "CANCEL", "HOLD", "RUN_ON"} == set(changes)
    for name, change in changes.items():
        assert TERMINAL.isdisjoint(change.expected), name
