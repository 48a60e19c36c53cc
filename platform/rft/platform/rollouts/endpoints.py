"""`/v1/fine_tuning/jobs/{id}/steps`, `/rollouts` and `/endpoints`."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rft.core.rollout import Split
from rft.platform.api.conditional import NOT_MODIFIED, etag_of, has_newest, not_modified, tagged
from rft.platform.api.dependencies import Uow
from rft.platform.api.pagination import After, ListPage
from rft.platform.jobs.service import history_version
from rft.platform.rollouts import ledger, service
from rft.platform.rollouts.ledger_objects import AttemptObject, EndpointHealth
from rft.platform.rollouts.objects import RolloutDetail, RolloutSummary, StepObject
from rft.platform.rollouts.repository import Outcome, RolloutFilter

router = APIRouter(prefix="/fine_tuning/jobs/{fine_tuning_job_id}", tags=["rollouts"])
_MAX_INTEGER = 2**31 - 1
Number = Annotated[int | None, Query(ge=0, le=_MAX_INTEGER)]


@router.get("/steps", response_model=ListPage[StepObject], responses=NOT_MODIFIED)
async def list_steps(
    request: Request,
    uow: Uow,
    fine_tuning_job_id: str,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    points: Annotated[int | None, Query(ge=2, le=1000)] = None,
) -> Response:
    """A job's steps, oldest first; step 0 is the baseline. Answers `If-None-Match`.

    `points`: about so many steps spread evenly over the whole job, instead of pages; enough to draw its curves.
    """
    etag = etag_of(await history_version(uow, fine_tuning_job_id), after, limit, points)
    if has_newest(request, etag):
        return not_modified(etag)
    if points is not None:
        return tagged(await service.sample_steps(uow, fine_tuning_job_id, points=points), etag)
    return tagged(await service.list_steps(uow, fine_tuning_job_id, after=after, limit=limit), etag)


@router.get("/rollouts")
async def list_rollouts(
    uow: Uow,
    fine_tuning_job_id: str,
    split: Split | None = None,
    step: Number = None,
    row_index: Number = None,
    outcome: Outcome | None = None,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> ListPage[RolloutSummary]:
    """A job's rollouts, newest step first, within a step by row and place in the group."""
    wanted = RolloutFilter(split=split, step=step, row_index=row_index, outcome=outcome)
    return await service.list_rollouts(uow, fine_tuning_job_id, wanted, after=after, limit=limit)


@router.get("/rollouts/{trace_id}")
async def retrieve_rollout(uow: Uow, fine_tuning_job_id: str, trace_id: str) -> RolloutDetail:
    """One rollout with its whole conversation."""
    return await service.find_rollout(uow, fine_tuning_job_id, trace_id)


@router.get("/rollouts/{trace_id}/attempts")
async def list_rollout_attempts(
    uow: Uow,
    fine_tuning_job_id: str,
    trace_id: str,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> ListPage[AttemptObject]:
    """Every attempt of every call a rollout made to the customer's endpoints, in the order they ended."""
    return await ledger.list_attempts(uow, fine_tuning_job_id, trace_id, after=after, limit=limit)


@router.get("/endpoints")
async def list_job_endpoints(
    uow: Uow, fine_tuning_job_id: str, from_step: Number = None, to_step: Number = None
) -> ListPage[EndpointHealth]:
    """The health of the job's tools and graders over a window of steps, both ends counted.

    By default the latest ten steps that called any. All of them come on one page.
    """
    return await ledger.list_endpoints(uow, fine_tuning_job_id, from_step=from_step, to_step=to_step)
