"""What can be read of a job's failure ledger."""

from rft.platform.api.errors import BadRequest, NotFound
from rft.platform.api.pagination import ListPage, to_page, unknown_cursor
from rft.platform.jobs.service import expect_job
from rft.platform.rollouts.begun_repository import BegunRepository
from rft.platform.rollouts.ledger_objects import (
    AttemptObject,
    EndpointHealth,
    to_attempt_object,
    to_endpoint_health,
)
from rft.platform.rollouts.ledger_repository import LedgerRepository
from rft.platform.rollouts.repository import RolloutRepository
from rft.platform.store.unit_of_work import UnitOfWork

_MAX_ID = 2**63 - 1
_WINDOW_STEPS = 10
"""Steps the summary covers when nobody says otherwise."""


async def list_attempts(
    uow: UnitOfWork, job_id: str, trace_id: str, *, after: str | None, limit: int
) -> ListPage[AttemptObject]:
    """One page of a rollout's attempts, in the order they ended. Raises NotFound, BadRequest."""
    await expect_job(uow, job_id)
    if after is not None and not (after.isascii() and after.isdecimal() and int(after) <= _MAX_ID):
        raise unknown_cursor(after)
    rollout = await RolloutRepository(uow.connection).get(job_id, trace_id) or await BegunRepository(
        uow.connection
    ).get(job_id, trace_id)
    step = None if rollout is None else rollout.step
    rows = await LedgerRepository(uow.connection).of_rollout(
        job_id, trace_id, step=step, after=None if after is None else int(after), limit=limit + 1
    )
    if not rows and rollout is None:
        raise NotFound(f"Job {job_id} has no rollout {trace_id}.", param="trace_id", code="not_found")
    return to_page([to_attempt_object(row) for row in rows], limit=limit)


async def list_endpoints(
    uow: UnitOfWork, job_id: str, *, from_step: int | None, to_step: int | None
) -> ListPage[EndpointHealth]:
    """Every endpoint called in a window of steps; by default the latest ones. Raises NotFound, BadRequest."""
    await expect_job(uow, job_id)
    ledger = LedgerRepository(uow.connection)
    last = await ledger.newest_step(job_id) if to_step is None else to_step
    if last is None:
        last = from_step or 0
    first = max(0, last - _WINDOW_STEPS + 1) if from_step is None else from_step
    if first > last:
        raise BadRequest(
            f"The window ends at step {last}, before it begins at step {first}.",
            param="from_step" if to_step is None else "to_step",
            code="invalid_window",
        )
    rows = await ledger.health(job_id, from_step=first, to_step=last)
    objects = [to_endpoint_health(row, from_step=first, to_step=last) for row in rows]
    return to_page(objects, limit=len(objects))
