"""`/v1/dashboard/files/{file_id}/uses`: where a file is used."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from rft.platform.api.dependencies import Reading
from rft.platform.api.wire import UnixTime
from rft.platform.dashboard.file_use_repository import UserKind, uses_of_file
from rft.platform.files.service import find

file_uses_router = APIRouter(prefix="/dashboard/files", tags=["dashboard"])


class FileUseObject(BaseModel):
    """A job, a rehearsal or a run of an eval that was ordered with the file."""

    kind: UserKind
    id: str
    eval_id: str | None
    """Of a run: its eval."""
    name: str | None
    purpose: Literal["training", "validation", "test", "items"]
    """What it takes the file as."""
    status: str
    created_at: UnixTime


class FileUses(BaseModel):
    """Newest first."""

    object: Literal["list"] = "list"
    data: list[FileUseObject]


@file_uses_router.get("/{file_id}/uses")
async def list_file_uses(uow: Reading, file_id: str, limit: Annotated[int, Query(ge=1, le=100)] = 50) -> FileUses:
    """Jobs, rehearsals and runs of evals that were ordered with a file, newest first, over or not."""
    await find(uow, file_id)
    uses = await uses_of_file(uow.connection, file_id, limit=limit)
    return FileUses(data=[FileUseObject.model_validate(use, from_attributes=True) for use in uses])
