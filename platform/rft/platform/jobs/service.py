"""What can be done with jobs that exist."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.errors import IllegalTransition
from rft.platform.api.errors import BadRequest, NotFound
from rft.platform.api.pagination import ListPage, Order, page_document, to_page, unknown_cursor
from rft.platform.jobs import transitions
from rft.platform.jobs.event_repository import EventRepository, EventType, History
from rft.platform.jobs.objects import JobObject, to_job_object
from rft.platform.jobs.repository import JobRepository, JobRow
from rft.platform.jobs.search_repository import JobFilter, JobSort, search_jobs
from rft.platform.lifecycle.deletion_repository import JOB_LIST
from rft.platform.queue.messages import RUN_JOB
from rft.platform.settings import Settings
from rft.platform.store.deleted_cursors import is_deleted_cursor
from rft.platform.store.unit_of_work import UnitOfWork


async def find_job(uow: UnitOfWork, job_id: str) -> JobRow:
    """The job, or NotFound."""
    return found_job(await JobRepository(uow.connection).get(job_id), job_id)


async def list_jobs(
    uow: UnitOfWork,
    settings: Settings,
    wanted: JobFilter,
    *,
    sort: JobSort = "created",
    order: Order = "desc",
    after: str | None,
    limit: int,
) -> ListPage[JobObject]:
    """One page of jobs, newest first unless it is asked for otherwise. Raises BadRequest."""
    jobs = JobRepository(uow.connection)
    if after is not None and not await _has_place(uow, after, sort):
        raise unknown_cursor(after)
    found = await search_jobs(uow.connection, wanted, sort=sort, order=order, after=after, limit=limit + 1)
    rows = await jobs.in_order(found)
    return to_page([to_job_object(row, settings) for row in rows], limit=limit)


async def _has_place(uow: UnitOfWork, job_id: str, sort: JobSort) -> bool:
    """Whether a page can begin after this job, which may be deleted by now."""
    is_there = await JobRepository(uow.connection).exists(job_id)
    return is_there or (sort == "created" and await is_deleted_cursor(uow.connection, JOB_LIST, job_id))


async def cancel_job(uow: UnitOfWork, job_id: str) -> JobRow:
    """Cancel a job, at once. Raises BadRequest when it is over.

    One that has run has a message: where no worker has it, nobody else tells of the rollouts that were left open.
    """
    job = await _move(uow, job_id, transitions.cancel)
    if job.started_at is not None:
        uow.enqueue(RUN_JOB, job_id)
    return job


async def pause_job(uow: UnitOfWork, job_id: str) -> JobRow:
    """Pause a job, or ask its runner to. Raises BadRequest when it cannot be paused."""
    return await _move(uow, job_id, transitions.pause)


async def resume_job(uow: UnitOfWork, job_id: str, *, max_importance_gap: float | None = None) -> JobRow:
    """Queue a paused job and enqueue its message. Raises BadRequest when it is not paused."""
    job = await _move(uow, job_id, partial(transitions.resume, max_importance_gap=max_importance_gap))
    uow.enqueue(RUN_JOB, job_id)
    return job


async def _move(
    uow: UnitOfWork, job_id: str, move: Callable[[AsyncConnection[TupleRow], JobRow], Awaitable[None]]
) -> JobRow:
    jobs = JobRepository(uow.connection)
    try:
        await move(uow.connection, found_job(await jobs.lock(job_id), job_id))
    except IllegalTransition as error:
        # 400 and not 409, which the SDK would repeat.
        raise BadRequest(f"Job {job_id} {error}.", code="invalid_state") from error
    return found_job(await jobs.get(job_id), job_id)


async def history(uow: UnitOfWork, job_id: str) -> History:
    """How far the job's events and steps go; costs next to nothing. Raises NotFound."""
    found = await EventRepository(uow.connection).history(job_id)
    if found is None:
        raise _unknown(job_id)
    return found


async def expect_job(uow: UnitOfWork, job_id: str) -> None:
    """For whoever needs nothing of the job but that it exists. Raises NotFound."""
    if not await JobRepository(uow.connection).exists(job_id):
        raise _unknown(job_id)


async def list_events(
    uow: UnitOfWork, job_id: str, type_: EventType | None, codes: Sequence[str], *, after: str | None, limit: int
) -> bytes:
    """One page of the events of a job that exists, newest first, as JSON. Raises BadRequest."""
    events = EventRepository(uow.connection)
    if after is not None and not await events.has_place(job_id, after):
        raise unknown_cursor(after)
    return page_document(await events.page(job_id, type_, codes, after=after, limit=limit + 1), limit=limit)


def found_job(job: JobRow | None, job_id: str) -> JobRow:
    """The job. Raises NotFound where there is none."""
    if job is None:
        raise _unknown(job_id)
    return job


def _unknown(job_id: str) -> NotFound:
    return NotFound(f"Could not find fine tune: {job_id}", param="fine_tuning_job_id", code="fine_tune_not_found")
