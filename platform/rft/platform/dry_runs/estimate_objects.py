"""What a job would come to, on the wire. Ours: the contract has no such object."""

from typing import Literal

from pydantic import BaseModel

from rft.platform.jobs.objects import ResolvedObject


class RolloutsEstimate(BaseModel):
    """Rollouts of the whole job, without replacements of failed ones and further rows for groups without signal."""

    training: int
    validation: int
    """The baseline of step 0 among them."""
    final: int
    """At most: for the figures of the best checkpoint where nothing was chosen."""
    baselines: int
    """Of the prompted models that it is compared with."""
    total: int


class EndpointEstimate(BaseModel):
    """What one endpoint has to bear."""

    stage: Literal["tool", "grader", "judge"]
    name: str
    """Of a judge: its model."""
    burst: int
    """Rollouts that may call it at once at each training step."""
    calls_per_rollout: float
    calls: int
    """Over the whole job."""
    measured_in: str | None
    """The job whose last step the calls per rollout are of; null: nobody knows yet, and a usual number is assumed."""


class EstimateWarning(BaseModel):
    """What the order's owner would hear as an event of the job."""

    code: str
    message: str


class EstimateObject(BaseModel):
    """What an order means, without a job."""

    object: Literal["fine_tuning.job.estimate"] = "fine_tuning.job.estimate"
    train_rows: int
    validation_rows: int
    test_rows: int
    hyperparameters: ResolvedObject
    """With every `auto` filled in. What depends on the model's size is told for a small one."""
    evaluations: int
    """On the validation rows, that of step 0 among them."""
    rollouts: RolloutsEstimate
    endpoints: list[EndpointEstimate]
    warnings: list[EstimateWarning]
