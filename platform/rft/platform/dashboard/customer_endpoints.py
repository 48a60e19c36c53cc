"""`/v1/dashboard/endpoints`: how customers' tools and graders fare, over all jobs."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from rft.core.failure import FailureCode, Stage
from rft.core.graders import MAX_GRADER_NAME
from rft.core.progress import RunProgress
from rft.platform.api.dependencies import Reading
from rft.platform.dashboard.endpoint_view import CallingJob, EndpointOfJobs, by_address
from rft.platform.dashboard.failed_call_repository import failed_calls
from rft.platform.dashboard.recent_job_repository import recently_active
from rft.platform.jobs.repository import JobRepository, JobRow
from rft.platform.orders.addresses import addresses_in
from rft.platform.rollouts.service import list_endpoints
from rft.platform.store.unit_of_work import UnitOfWork

endpoints_router = APIRouter(prefix="/dashboard", tags=["dashboard"])
_WITHIN_S = 86_400.0
_MOST_JOBS = 20
Name = Annotated[str, Query(min_length=1, max_length=MAX_GRADER_NAME)]


class CustomerEndpoints(BaseModel):
    """Those in the most trouble first."""

    object: Literal["list"] = "list"
    data: list[EndpointOfJobs]
    jobs: int
    """Whose calls are counted here."""
    left_out: int
    """Further jobs that are under way or ended within a day, and are not counted here."""


@endpoints_router.get("/endpoints")
async def list_customer_endpoints(uow: Reading) -> CustomerEndpoints:
    """Tools and graders by their address, with what each job counted over its latest steps.

    Of jobs that are under way and those that ended within a day, up to twenty; how many are left out is told.
    """
    active, count = await recently_active(uow.connection, within_s=_WITHIN_S, limit=_MOST_JOBS)
    found = [(await JobRepository(uow.connection).get(one.id), one.progress) for one in active]
    calling = [await _calling(uow, job, progress) for job, progress in found if job is not None]
    return CustomerEndpoints(data=by_address(calling), jobs=len(calling), left_out=count - len(active))


class FailedCallObject(BaseModel):
    """One attempt that failed, or was answered with a 4xx. Bodies are cut at 4,096 characters, secrets redacted."""

    at: float
    """Unix time in seconds when it ended."""
    trace_id: str
    call_id: str
    attempt: int
    """Number of the try within its call, from 1."""
    code: FailureCode | None
    """Null: the model read the 4xx."""
    status: int | None
    message: str | None
    """What happened, as the end of a sentence that begins with the endpoint's name."""
    request: str
    reply: str | None
    """Null where none came."""


class FailedCallList(BaseModel):
    """Newest first."""

    object: Literal["list"] = "list"
    data: list[FailedCallObject]


@endpoints_router.get("/endpoints/failed_calls")
async def list_failed_calls(uow: Reading, job: Name, stage: Stage, endpoint: Name) -> FailedCallList:
    """The last calls of one tool or grader of a job that went wrong, with request and reply: up to twenty, a few of
    each half minute."""
    rows = await failed_calls(uow.connection, job, stage, endpoint)
    return FailedCallList(
        data=[FailedCallObject.model_validate(row.model_dump() | {"at": row.at.timestamp()}) for row in rows]
    )


async def _calling(uow: UnitOfWork, job: JobRow, progress: RunProgress | None) -> CallingJob:
    return CallingJob(
        id=job.id,
        name=job.suffix,
        status=str(job.status),
        addresses=addresses_in(job.method),
        round=None if progress is None else progress.round,
        loads=() if progress is None else progress.endpoints,
        hold=job.hold,
        health=tuple((await list_endpoints(uow, job.id, from_step=None, to_step=None)).data),
    )
