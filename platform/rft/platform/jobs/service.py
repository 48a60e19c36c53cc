"""What can be done with jobs that exist."""

from rft.core.errors import IllegalTransition
from rft.platform.api.errors import BadRequest, NotFound
from rft.platform.api.pagination import ListPage, to_page, unknown_cursor
from rft.platform.jobs import transitions
from rft.platform.jobs.event_repository import EventRepository, EventRow
from rft.platform.jobs.objects import EventObject, JobObject, to_job_object
from rft.platform.jobs.repository import JobRepository, JobRow
from rft.platform.settings import Settings
from rft.platform.store.unit_of_work import UnitOfWork


async def find_job(uow: UnitOfWork, job_id: str) -> JobRow:
    """The job, or NotFound."""
    return _found(await JobRepository(uow.connection).get(job_id), job_id)


async def list_jobs(
    uow: UnitOfWork,
    settings: Settings,
    *,
    after: str | None,
    limit: int,
    metadata: dict[str, str] | None,
    is_metadata_null: bool,
) -> ListPage[JobObject]:
    """One page of jobs, newest first."""
    jobs = JobRepository(uow.connection)
    if after is not None and await jobs.get(after) is None:
        raise unknown_cursor(after)
    rows = await jobs.page(after=after, limit=limit + 1, metadata=metadata, is_metadata_null=is_metadata_null)
    return to_page([to_job_object(row, settings) for row in rows], limit=limit)


async def cancel_job(uow: UnitOfWork, job_id: str) -> JobRow:
    """Cancel a job, or ask its runner to. Raises BadRequest when it is over."""
    jobs = JobRepository(uow.connection)
    job = _found(await jobs.lock(job_id), job_id)
    try:
        await transitions.cancel(uow.connection, job)
    except IllegalTransition as error:
        # 400 and not 409, which the SDK would repeat.
        raise BadRequest(
            f"Job {job_id} is {job.status} and can no longer be cancelled.", code="invalid_state"
        ) from error
    return _found(await jobs.get(job_id), job_id)


async def list_events(uow: UnitOfWork, job_id: str, *, after: str | None, limit: int) -> ListPage[EventObject]:
    """One page of a job's events, newest first."""
    await find_job(uow, job_id)
    events = EventRepository(uow.connection)
    if after is not None and not await events.exists(job_id, after):
        raise unknown_cursor(after)
    rows = await events.page(job_id, after=after, limit=limit + 1)
    return to_page([_to_event_object(row) for row in rows], limit=limit)


def _to_event_object(row: EventRow) -> EventObject:
    return EventObject(
        id=row.id,
        created_at=int(row.created_at.timestamp()),
        level=row.level,
        message=row.message,
        data=row.data,
        type=row.type,
    )


def _found(job: JobRow | None, job_id: str) -> JobRow:
    if job is None:
        raise NotFound(f"Could not find fine tune: {job_id}", param="fine_tuning_job_id", code="fine_tune_not_found")
    return job
