"""Regrades on the wire. Ours: the contract has no such object."""

from typing import Literal

from rft.core.base import JsonObject
from rft.core.rollout import Split
from rft.platform.api.pagination import Listed
from rft.platform.jobs.objects import JobErrorObject
from rft.platform.regrades.comparison import RegradeReport
from rft.platform.regrades.repository import RegradeRow, RegradeStatus


class RegradeObject(Listed):
    """Another grader over a job's stored rollouts. The policy is not touched."""

    object: Literal["regrade"] = "regrade"
    created_at: int
    finished_at: int | None
    fine_tuning_job_id: str
    status: RegradeStatus
    grader: JsonObject
    """As ordered, header values redacted."""
    split: Split | None
    steps: list[int] | None
    limit: int
    total: int | None
    """Rollouts to be graded, once they are counted."""
    done: int
    report: RegradeReport | None
    """Once it succeeded; not in lists."""
    error: JobErrorObject | None


def to_regrade_object(row: RegradeRow) -> RegradeObject:
    """The row on the wire."""
    wanted = row.selection
    return RegradeObject(
        id=row.id,
        created_at=int(row.created_at.timestamp()),
        finished_at=None if row.finished_at is None else int(row.finished_at.timestamp()),
        fine_tuning_job_id=row.job_id,
        status=row.status,
        grader=row.grader,
        split=wanted.split,
        steps=None if wanted.steps is None else list(wanted.steps),
        limit=wanted.limit,
        total=row.total,
        done=row.done,
        report=row.report,
        error=None if row.error is None else JobErrorObject.model_validate(row.error.model_dump()),
    )
