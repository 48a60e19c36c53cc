"""A job's curves on the wire. Ours: the contract has no such object."""

from typing import Literal

from pydantic import BaseModel

from rft.core.step_record import Timing


class ToolCurve(BaseModel):
    """One tool over one split of one step."""

    name: str
    calls_per_rollout_mean: float | None


class SplitCurves(BaseModel):
    """What of one split's figures is drawn; all of them are in the step's record."""

    rollouts: int
    excluded: int
    failures_by_code: dict[str, int]
    reward_mean: float | None
    """Over rows, as its interval; over rollouts where the record has no estimate."""
    reward_low: float | None = None
    reward_high: float | None = None
    """The 95 % interval of the mean, for new rows like these; null for steps of earlier releases, too."""
    reward_mean_if_failures_were_zero: float | None
    grader_scores_mean: dict[str, float]
    completion_tokens_mean: float | None
    tool_calls_mean: float | None
    tools: list[ToolCurve]


class StepCurves(BaseModel):
    """What of a step's record is drawn."""

    train: SplitCurves | None
    valid: SplitCurves | None
    timing: Timing


class CurvePoint(BaseModel):
    """One step."""

    step: int
    created_at: int
    record: StepCurves


class CurvesObject(BaseModel):
    """A job's curves, and its sums over all the steps they stand for."""

    object: Literal["fine_tuning.job.curves"] = "fine_tuning.job.curves"
    steps: int
    """Steps done in the window, step 0 among them; `data` holds that many, or fewer."""
    rollouts: int
    """Of both splits."""
    excluded: int
    """Rollouts that ended in a failure."""
    data: list[CurvePoint]
    """Oldest first. Where steps are left out, those with the lowest and highest rewards, tool calls and tokens, most
    excluded rollouts and longest time in each part of the course are not among them."""


class JobCurvesObject(BaseModel):
    """The curves of one of several jobs."""

    job: str
    curves: CurvesObject
    rollouts_spent: list[int] | None = None
    """Rollouts of both splits up to and with each point of the curves, in their order; only where it was asked for."""


class CurvesOfJobs(BaseModel):
    """The curves of several jobs, in the order in which they were asked for, without those that do not exist."""

    object: Literal["list"] = "list"
    data: list[JobCurvesObject]
