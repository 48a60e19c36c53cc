"""`/v1/fine_tuning/jobs/{id}/regrade`."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rft.platform.api.conditional import NOT_MODIFIED, by_content
from rft.platform.api.dependencies import AppServices, Uow
from rft.platform.api.pagination import After, ListPage
from rft.platform.regrades import service
from rft.platform.regrades.objects import RegradeObject
from rft.platform.regrades.schemas import RegradeCreate

router = APIRouter(prefix="/fine_tuning/jobs/{fine_tuning_job_id}/regrade", tags=["regrades"])


@router.post("")
async def create_regrade(services: AppServices, fine_tuning_job_id: str, order: RegradeCreate) -> RegradeObject:
    """Run another grader over a job's stored rollouts, in the background."""
    return await service.create_regrade(services, fine_tuning_job_id, order)


@router.get("")
async def list_regrades(
    uow: Uow, fine_tuning_job_id: str, after: After = None, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> ListPage[RegradeObject]:
    """A job's regrades, newest first, without their reports."""
    return await service.list_regrades(uow, fine_tuning_job_id, after=after, limit=limit)


@router.get("/{regrade_id}", response_model=RegradeObject, responses=NOT_MODIFIED)
async def retrieve_regrade(request: Request, uow: Uow, fine_tuning_job_id: str, regrade_id: str) -> Response:
    """One regrade with its report. Answers `If-None-Match`."""
    return by_content(request, await service.find_regrade(uow, fine_tuning_job_id, regrade_id))
