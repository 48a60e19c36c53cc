"""`/v1/fine_tuning/jobs`."""

import re
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import StringConstraints
from starlette.responses import Response

from rft.core.job import JobStatus
from rft.platform.api.conditional import (
    NOT_MODIFIED,
    STREAM_GOES_ON,
    by_content,
    etag_of,
    has_newest,
    not_modified,
    tagged,
)
from rft.platform.api.dependencies import AppServices, AppSettings, Reading, Uow
from rft.platform.api.errors import BadRequest
from rft.platform.api.idempotency_repository import OptionalIdempotencyKey
from rft.platform.api.pagination import After, ListPage, Order
from rft.platform.jobs import creation, deletion, endpoint_service, service
from rft.platform.jobs.endpoint_schemas import EndpointsChange
from rft.platform.jobs.event_repository import EventType
from rft.platform.jobs.objects import EventObject, JobDeleted, JobObject, to_job_object
from rft.platform.jobs.resume_schemas import ResumeOptions
from rft.platform.jobs.search_repository import JobFilter, JobSort
from rft.platform.orders.schemas import JobOrder

router = APIRouter(prefix="/fine_tuning/jobs", tags=["fine-tuning jobs"])
EventCode = Annotated[str, StringConstraints(max_length=100)]
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
async def create_job(services: AppServices, order: JobOrder, key: OptionalIdempotencyKey) -> JobObject:
    """Order a job. Its files are checked next, then it is queued."""
    return to_job_object(await creation.create_job(services, order, key), services.settings)


@router.get("", response_model=ListPage[JobObject], responses=NOT_MODIFIED, openapi_extra=_METADATA_PARAMETERS)
async def list_jobs(
    request: Request,
    uow: Reading,
    settings: AppSettings,
    search: Annotated[str | None, Query(max_length=200)] = None,
    status: Annotated[list[JobStatus] | None, Query()] = None,
    sort: JobSort = "created",
    order: Order = "desc",
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
) -> Response:
    """Jobs, newest first. Answers `If-None-Match`.

    Ours: `search` finds words in id, suffix, model and metadata; `status` may be given several times; `sort` orders by
    another figure, those without it last.
    """
    pairs = {match[1]: value for key, value in request.query_params.items() if (match := _METADATA_FILTER.match(key))}
    page = await service.list_jobs(
        uow,
        settings,
        JobFilter(
            metadata=pairs or None,
            is_metadata_null=_is_null(request.query_params.get("metadata")),
            search=search,
            statuses=status or (),
        ),
        sort=sort,
        order=order,
        after=after,
        limit=limit,
    )
    return by_content(request, page)


@router.get("/{fine_tuning_job_id}", response_model=JobObject, responses=NOT_MODIFIED)
async def retrieve_job(request: Request, uow: Reading, settings: AppSettings, fine_tuning_job_id: str) -> Response:
    """One job. Answers `If-None-Match`."""
    return by_content(request, to_job_object(await service.find_job(uow, fine_tuning_job_id), settings))


@router.delete("/{fine_tuning_job_id}")
async def delete_job(services: AppServices, fine_tuning_job_id: str) -> JobDeleted:
    """Delete a job that is over: its events, steps, rollouts, result files, checkpoints and models (ours).

    The files that its order named stay.
    """
    await deletion.delete_job(services, fine_tuning_job_id)
    return JobDeleted(id=fine_tuning_job_id)


@router.post("/{fine_tuning_job_id}/cancel")
async def cancel_job(uow: Uow, settings: AppSettings, fine_tuning_job_id: str) -> JobObject:
    """Cancel a job that is not over: it is `cancelled` at once, and its trainer stops within seconds."""
    return to_job_object(await service.cancel_job(uow, fine_tuning_job_id), settings)


@router.post("/{fine_tuning_job_id}/pause")
async def pause_job(uow: Uow, settings: AppSettings, fine_tuning_job_id: str) -> JobObject:
    """Pause a job. A running one stops within seconds, is `paused` then, and its machine is free.

    Its latest checkpoint stays usable as a model. Pausing a paused job changes nothing.
    """
    return to_job_object(await service.pause_job(uow, fine_tuning_job_id), settings)


@router.post("/{fine_tuning_job_id}/resume")
async def resume_job(
    uow: Uow, settings: AppSettings, fine_tuning_job_id: str, options: ResumeOptions | None = None
) -> JobObject:
    """Queue a paused job again: it goes on from its latest checkpoint, at the same step.

    The body may be left out. One that was paused for `importance_gap` may be given another limit.
    """
    limit = None if options is None else options.max_importance_gap
    return to_job_object(await service.resume_job(uow, fine_tuning_job_id, max_importance_gap=limit), settings)


@router.post("/{fine_tuning_job_id}/endpoints")
async def change_job_endpoints(services: AppServices, fine_tuning_job_id: str, change: EndpointsChange) -> JobObject:
    """Change URLs and headers of the tools and grader of a job that is held, paused or queued.

    A held job's training process starts again with them at the same step; a paused or queued job begins with them.
    """
    job = await endpoint_service.change_endpoints(services, fine_tuning_job_id, change)
    return to_job_object(job, services.settings)


@router.get("/{fine_tuning_job_id}/events", response_model=ListPage[EventObject], responses=STREAM_GOES_ON)
async def list_job_events(
    request: Request,
    uow: Reading,
    fine_tuning_job_id: str,
    type_: Annotated[EventType | None, Query(alias="type")] = None,
    code: Annotated[list[EventCode] | None, Query(max_length=20)] = None,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
) -> Response:
    """A job's events, newest first; ours: `type` and `code` leave out the others. Answers `If-None-Match`."""
    known = await service.history(uow, fine_tuning_job_id)
    etag = etag_of(known.version, type_, code, after, limit)
    if has_newest(request, etag):
        return not_modified(etag)
    page = await service.list_events(uow, fine_tuning_job_id, type_, code or (), after=after, limit=limit)
    return tagged(page, etag, known.newest_seq)


def _is_null(metadata: str | None) -> bool:
    if metadata not in (None, "null"):
        message = "Invalid 'metadata': must be null, or pairs written as metadata[key]=value."
        raise BadRequest(message, param="metadata", code="invalid_value")
    return metadata is not None
