"""`/v1/fine_tuning/jobs/{id}/checkpoints`."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rft.platform.api.conditional import NOT_MODIFIED, by_content
from rft.platform.api.dependencies import AppSettings, Reading
from rft.platform.api.pagination import After, ListPage
from rft.platform.checkpoints import service
from rft.platform.checkpoints.schemas import CheckpointObject

router = APIRouter(prefix="/fine_tuning/jobs", tags=["checkpoints"])


@router.get("/{fine_tuning_job_id}/checkpoints", response_model=ListPage[CheckpointObject], responses=NOT_MODIFIED)
async def list_job_checkpoints(
    request: Request,
    uow: Reading,
    settings: AppSettings,
    fine_tuning_job_id: str,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 10,
) -> Response:
    """Checkpoints that are still on disk, newest first. Answers `If-None-Match`."""
    page = await service.list_checkpoints(uow, settings, fine_tuning_job_id, after=after, limit=limit)
    return by_content(request, page)
