"""`/v1/rehearsals`."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rft.platform.api.conditional import NOT_MODIFIED, by_content
from rft.platform.api.dependencies import AppServices, Uow
from rft.platform.api.pagination import After, ListPage
from rft.platform.rehearsals import service
from rft.platform.rehearsals.schemas import RehearsalObject, RehearsalOrder

router = APIRouter(prefix="/rehearsals", tags=["rehearsals"])


@router.post("")
async def create_rehearsal(services: AppServices, order: RehearsalOrder) -> RehearsalObject:
    """Play the burst of one step of a job at its tools and grader, without a model, in the background."""
    return await service.create_rehearsal(services, order)


@router.get("")
async def list_rehearsals(
    uow: Uow, after: After = None, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> ListPage[RehearsalObject]:
    """Rehearsals, newest first."""
    return await service.list_rehearsals(uow, after=after, limit=limit)


@router.get("/{rehearsal_id}", response_model=RehearsalObject, responses=NOT_MODIFIED)
async def retrieve_rehearsal(request: Request, uow: Uow, rehearsal_id: str) -> Response:
    """One rehearsal; its report is there once it is completed. Answers `If-None-Match`."""
    return by_content(request, await service.find_rehearsal(uow, rehearsal_id))


@router.post("/{rehearsal_id}/cancel")
async def cancel_rehearsal(uow: Uow, rehearsal_id: str) -> RehearsalObject:
    """Break a rehearsal off. One that is being played ends within seconds; it has no report."""
    return await service.cancel_rehearsal(uow, rehearsal_id)
