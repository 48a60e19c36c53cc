"""`/v1/fine_tuning/jobs/{id}/checkpoints`."""

from typing import Annotated

from fastapi import APIRouter, Query

from rft.platform.api.dependencies import AppSettings, Uow
from rft.platform.api.pagination import After, ListPage
from rft.platform.checkpoints import service
from rft.platform.checkpoints.schemas import CheckpointObject

router = APIRouter(prefix="/fine_tuning/jobs", tags=["checkpoints"])


@router.get("/{fine_tuning_job_id}/checkpoints")
async def list_job_checkpoints(
    uow: Uow,
    settings: AppSettings,
    fine_tuning_job_id: str,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> ListPage[CheckpointObject]:
    """Checkpoints that are still on disk, newest first."""
    return await service.list_checkpoints(uow, settings, fine_tuning_job_id, after=after, limit=limit)
