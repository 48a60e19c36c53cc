"""Checkpoint permissions on the wire."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from rft.platform.api.pagination import Listed
from rft.platform.api.wire import TextBody, must_be


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
