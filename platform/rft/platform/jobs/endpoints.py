"""`/v1/fine_tuning/jobs`."""

import re
from typing import Annotated

from fastapi import APIRouter, Query, Request

from rft.platform.api.dependencies import AppServices, AppSettings, Uow
from rft.platform.api.pagination import After, ListPage
from rft.platform.jobs import creation, service
from rft.platform.jobs.objects import EventObject, JobObject, to_job_object
from rft.platform.jobs.schemas import JobCreate

router = APIRouter(prefix="/fine_tuning/jobs", tags=["fine-tuning jobs"])
_METADATA_FILTER = re.compile(r"^metadata\[(.*)\]$", re.DOTALL)
_METADATA_PARAMETERS = {
    "parameters": [
        {
            "name": "metadata",
            "in": "query",
            "required": False,
            "style": "deepObject",
            "schema": {"type": "object", "additionalProperties": {"type": "string"}},
            "description": "`metadata[k]=v`: jobs with these pairs; `metadata=null`: jobs without metadata.",
        }
    ]
}


@router.post("")
async def create_job(services: AppServices, order: JobCreate) -> JobObject:
    """Order a job. Its files are checked next, then it is queued."""
    return to_job_object(await creation.create_job(services, order), services.settings)


@router.get("", openapi_extra=_METADATA_PARAMETERS)
async def list_jobs(
    request: Request,
    uow: Uow,
    settings: AppSettings,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> ListPage[JobObject]:
    """Jobs, newest first."""
    pairs = {match[1]: value for key, value in request.query_params.items() if (match := _METADATA_FILTER.match(key))}
    return await service.list_jobs(
        uow,
        settings,
        after=after,
        limit=limit,
        metadata=pairs or None,
        is_metadata_null=request.query_params.get("metadata") == "null",
    )


@router.get("/{fine_tuning_job_id}")
async def retrieve_job(uow: Uow, settings: AppSettings, fine_tuning_job_id: str) -> JobObject:
    """One job."""
    return to_job_object(await service.find_job(uow, fine_tuning_job_id), settings)


@router.post("/{fine_tuning_job_id}/cancel")
async def cancel_job(uow: Uow, settings: AppSettings, fine_tuning_job_id: str) -> JobObject:
    """Cancel a job that is not over. A running one stops within seconds and is `cancelled` then."""
    return to_job_object(await service.cancel_job(uow, fine_tuning_job_id), settings)


@router.get("/{fine_tuning_job_id}/events")
async def list_job_events(
    uow: Uow, fine_tuning_job_id: str, after: After = None, limit: Annotated[int, Query(ge=1, le=1000)] = 20
) -> ListPage[EventObject]:
    """A job's events, newest first."""
    return await service.list_events(uow, fine_tuning_job_id, after=after, limit=limit)
