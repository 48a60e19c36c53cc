"""Models and checkpoint permissions on the wire."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from rft.platform.api.pagination import Listed
from rft.platform.api.wire import TextBody, must_be


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


class PermissionsWanted(TextBody):
    """Who else may use a checkpoint."""

    project_ids: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=128)]],
        Field(min_length=1, max_length=100),
        must_be("a list of 1 to 100 project ids"),
    ]


class PermissionObject(Listed):
    """A project that may use a checkpoint."""

    object: Literal["checkpoint.permission"] = "checkpoint.permission"
    created_at: int
    project_id: str


class PermissionDeleted(BaseModel):
    """The reply to a deletion."""

    id: str
    object: Literal["checkpoint.permission"] = "checkpoint.permission"
    deleted: Literal[True] = True
