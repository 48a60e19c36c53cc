"""Rehearsals on the wire: what a customer orders, and what is shown."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from rft.core.base import JsonObject
from rft.platform.api.pagination import Listed
from rft.platform.api.wire import UnixTime, must_be
from rft.platform.jobs.objects import JobErrorObject
from rft.platform.orders.schemas import JobOrder
from rft.platform.rehearsals.repository import RehearsalRow, RehearsalStatus
from rft.rollouts.rehearsal_report import RehearsalReport

DEFAULT_CALLS = 3
MAX_CALLS = 50
UNNAMED = "rehearsal"
"""Shown to graders as the model where the order names none."""


class RehearsalOrder(JobOrder):
    """A job's order, as it is; `model` may be missing."""

    model: Annotated[Annotated[str, Field(min_length=1, max_length=512)], must_be("the name of a base model")] = UNNAMED
    """Only shown to the grader."""
    calls_per_rollout: (
        Annotated[
            Annotated[int, Field(ge=0, le=MAX_CALLS, strict=True)], must_be(f"a whole number from 0 to {MAX_CALLS}")
        ]
        | None
    ) = None
    """Tool calls of each rollout, one after the other; 3 when absent, and never more than `max_episode_steps`."""
    max_rollouts: Annotated[Annotated[int, Field(ge=1, strict=True)], must_be("a whole number from 1")] | None = None
    """Play at most so many rollouts of the step's burst."""

    @model_validator(mode="before")
    @classmethod
    def _model_may_be_missing(cls, value: Any) -> Any:
        # Set and not only defaulted: the order is checked again as a job's.
        return {"model": UNNAMED, **value} if isinstance(value, dict) else value


class PlanObject(BaseModel):
    """What is played."""

    rows_per_step: int
    group_size: int
    burst: int
    """Rollouts that a training step starts at once."""
    rollouts: int
    """Rollouts that the rehearsal plays: the burst, or less where that is larger than a rehearsal may be."""
    calls_per_rollout: int
    think_time_s: float
    max_s: float


class RehearsalObject(Listed):
    """A rehearsal as it is shown."""

    object: Literal["rehearsal"] = "rehearsal"
    created_at: UnixTime
    started_at: UnixTime | None
    finished_at: UnixTime | None
    status: RehearsalStatus
    is_cancel_requested: bool
    model: str
    training_file: str
    method: JsonObject
    """As ordered, header values redacted."""
    seed: int
    plan: PlanObject
    report: RehearsalReport | None
    """Once completed."""
    error: JobErrorObject | None
    """Why it failed."""


def to_rehearsal_object(row: RehearsalRow) -> RehearsalObject:
    """The row as it is shown."""
    return RehearsalObject.model_validate(row, from_attributes=True)
