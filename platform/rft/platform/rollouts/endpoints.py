"""`/v1/fine_tuning/jobs/{id}/steps` and `/rollouts`."""

from typing import Annotated

from fastapi import APIRouter, Query

from rft.core.rollout import Split
from rft.platform.api.dependencies import Uow
from rft.platform.api.pagination import After, ListPage
from rft.platform.rollouts import service
from rft.platform.rollouts.objects import RolloutDetail, RolloutSummary, StepObject
from rft.platform.rollouts.repository import Outcome, RolloutFilter

router = APIRouter(prefix="/fine_tuning/jobs/{fine_tuning_job_id}", tags=["rollouts"])
_MAX_INTEGER = 2**31 - 1
Number = Annotated[int | None, Query(ge=0, le=_MAX_INTEGER)]


@router.get("/steps")
async def list_steps(
    uow: Uow, fine_tuning_job_id: str, after: After = None, limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000
) -> ListPage[StepObject]:
    """A job's steps, oldest first; step 0 is the baseline."""
    return await service.list_steps(uow, fine_tuning_job_id, after=after, limit=limit)


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
