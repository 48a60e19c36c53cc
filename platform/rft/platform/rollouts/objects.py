"""Steps and rollouts on the wire. Ours: the contract has no such objects."""

from typing import Literal

from rft.core.events import RolloutDone, StepDone
from rft.core.failure import Stage
from rft.core.rollout import Split
from rft.platform.api.pagination import Listed
from rft.platform.rollouts.repository import RolloutRow, StepRow


class StepObject(Listed):
    """One step of a job; its id is its number."""

    object: Literal["fine_tuning.job.step"] = "fine_tuning.job.step"
    step: int
    created_at: int
    record: StepDone
    """Everything the trainer reported."""


class RolloutSummary(Listed):
    """One rollout without its messages; its id is its trace id."""

    object: Literal["fine_tuning.job.rollout"] = "fine_tuning.job.rollout"
    split: Split
    step: int
    epoch: int
    row_index: int
    group_index: int
    """Position in the group."""
    attempt: int
    """Above 0 for a replacement of a failed rollout."""
    policy_version: int
    reward: float | None
    """None: unscorable, see `failure_code`."""
    failure_code: str | None
    failure_stage: Stage | None
    stop_reason: str | None
    tool_calls: int
    completion_tokens: int
    duration_s: float
    created_at: int


class RolloutDetail(RolloutSummary):
    """One rollout with everything the trainer reported, its messages among it."""

    record: RolloutDone


def to_step_object(row: StepRow) -> StepObject:
    """The row on the wire."""
    return StepObject(id=str(row.step), step=row.step, created_at=int(row.created_at.timestamp()), record=row.record)


def to_rollout_detail(row: RolloutRow, record: RolloutDone) -> RolloutDetail:
    """The row and its record on the wire."""
    fields = row.model_dump(exclude={"trace_id", "created_at"})
    created_at = int(row.created_at.timestamp())
    return RolloutDetail.model_validate({**fields, "id": row.trace_id, "created_at": created_at, "record": record})
