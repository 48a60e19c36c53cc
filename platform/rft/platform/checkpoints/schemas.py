"""Checkpoints on the wire."""

from typing import Literal

from rft.core.base import JsonObject
from rft.platform.api.pagination import Listed


class CheckpointObject(Listed):
    """A usable adapter of a job."""

    object: Literal["fine_tuning.job.checkpoint"] = "fine_tuning.job.checkpoint"
    created_at: int
    fine_tuning_job_id: str
    fine_tuned_model_checkpoint: str
    """Its name as a model."""
    step_number: int
    metrics: JsonObject
    """The flat keys of the step's metrics event."""
