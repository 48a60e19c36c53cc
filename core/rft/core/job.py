"""The job's state machine."""

from enum import StrEnum

from rft.core.errors import IllegalTransition


class JobStatus(StrEnum):
    """Statuses of the wire contract."""

    VALIDATING_FILES = "validating_files"
    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.VALIDATING_FILES: frozenset({JobStatus.QUEUED, JobStatus.FAILED, JobStatus.CANCELLED}),
    JobStatus.QUEUED: frozenset({JobStatus.RUNNING, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.PAUSED}),
    JobStatus.RUNNING: frozenset(
        {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.PAUSED, JobStatus.QUEUED}
    ),
    # A held job is `paused` too, its runner still with it: it runs on by itself.
    JobStatus.PAUSED: frozenset({JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.CANCELLED, JobStatus.FAILED}),
    JobStatus.SUCCEEDED: frozenset(),
    JobStatus.FAILED: frozenset(),
    JobStatus.CANCELLED: frozenset(),
}

TERMINAL: frozenset[JobStatus] = frozenset(status for status, nexts in TRANSITIONS.items() if not nexts)


def advance(current: JobStatus, wanted: JobStatus) -> JobStatus:
    """`wanted`, if the machine leads there. Raises IllegalTransition otherwise."""
    if wanted not in TRANSITIONS[current]:
        raise IllegalTransition(f"a job that is {current} cannot become {wanted}")
    return wanted
