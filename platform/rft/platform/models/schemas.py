"""Models on the wire."""

from typing import Literal

from pydantic import BaseModel


class ModelObject(BaseModel):
    """A base model, a fine-tuned model or one of its checkpoints."""

    id: str
    object: Literal["model"] = "model"
    created: int
    """Unix time in seconds; 0 where nobody knows."""
    owned_by: str
    """`system` for base models, otherwise the organization."""
    fine_tuning_job_id: str | None = None
    """Ours: the job that made it."""


class ModelList(BaseModel):
    """All models; the contract does not page them."""

    object: Literal["list"] = "list"
    data: list[ModelObject]


class ModelDeleted(BaseModel):
    """The reply to a deletion."""

    id: str
    object: Literal["model"] = "model"
    deleted: Literal[True] = True
