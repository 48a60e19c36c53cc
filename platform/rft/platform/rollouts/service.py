"""What can be read of a job's steps and rollouts."""

from rft.platform.api.errors import NotFound
from rft.platform.api.pagination import ListPage, page_document, to_page, unknown_cursor
from rft.platform.jobs.service import expect_job
from rft.platform.rollouts.begun_repository import BegunRepository
from rft.platform.rollouts.objects import (
    RolloutDetail,
    StepObject,
    to_begun_detail,
    to_rollout_detail,
    to_step_object,
)
from rft.platform.rollouts.repository import RolloutFilter, RolloutRepository, StepRepository
from rft.platform.store.unit_of_work import UnitOfWork


async def list_steps(uow: UnitOfWork, job_id: str, *, after: str | None, limit: int) -> ListPage[StepObject]:
    """One page of the steps of a job that exists, oldest first. Raises BadRequest."""
    if after is not None and not after.isdecimal():
        raise unknown_cursor(after)
    rows = await StepRepository(uow.connection).page(
        job_id, after=None if after is None else int(after), limit=limit + 1
    )
    return to_page([to_step_object(row) for row in rows], limit=limit)


async def list_rollouts(uow: UnitOfWork, job_id: str, wanted: RolloutFilter, *, after: str | None, limit: int) -> bytes:
    """One page of rollouts as JSON. Raises NotFound, BadRequest."""
    rollouts = RolloutRepository(uow.connection)
    last = None if after is None else await rollouts.get(job_id, after)
    if after is not None and last is None:
        await expect_job(uow, job_id)
        raise unknown_cursor(after)
    rows = await rollouts.page(job_id, wanted, after=last, limit=limit + 1)
    if not rows:
        await expect_job(uow, job_id)
    return page_document(rows, limit=limit)


async def find_rollout(uow: UnitOfWork, job_id: str, trace_id: str) -> RolloutDetail:
    """One rollout with its messages, or a conversation that is none yet or no more. Raises NotFound."""
    rollouts = RolloutRepository(uow.connection)
    row, record = await rollouts.get(job_id, trace_id), await rollouts.record(job_id, trace_id)
    if row is not None and record is not None:
        return to_rollout_detail(row, record)
    begun = await BegunRepository(uow.connection).get(job_id, trace_id)
    if begun is not None:
        return to_begun_detail(begun)
    await expect_job(uow, job_id)
    raise NotFound(f"Job {job_id} has no rollout {trace_id}.", param="trace_id", code="not_found")
