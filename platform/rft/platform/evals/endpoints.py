"""`/v1/evals`."""

from typing import Annotated

from fastapi import APIRouter, Query

from rft.platform.api.dependencies import AppServices, Uow
from rft.platform.api.pagination import After, ListPage, Order
from rft.platform.evals import service
from rft.platform.evals.latest_runs import ListedEval
from rft.platform.evals.repository import OrderBy
from rft.platform.evals.schemas import EvalCreate, EvalDeleted, EvalObject, EvalUpdate

router = APIRouter(prefix="/evals", tags=["evals"])
Limit = Annotated[int, Query(ge=1, le=100)]


@router.post("")
async def create_eval(services: AppServices, order: EvalCreate) -> EvalObject:
    """Define an eval: the schema of its items, and the criteria that output items are held against."""
    return await service.create_eval(services, order)


@router.get("")
async def list_evals(
    uow: Uow, after: After = None, limit: Limit = 20, order: Order = "asc", order_by: OrderBy = "created_at"
) -> ListPage[ListedEval]:
    """Evals, by age or by their last change, each with its latest run."""
    return await service.list_evals(uow, after=after, limit=limit, order=order, order_by=order_by)


@router.get("/{eval_id}")
async def retrieve_eval(uow: Uow, eval_id: str) -> EvalObject:
    """One eval."""
    return service.to_eval_object(await service.find_eval(uow, eval_id))


@router.post("/{eval_id}")
async def update_eval(uow: Uow, eval_id: str, changes: EvalUpdate) -> EvalObject:
    """Rename an eval or change its metadata; what it measures stays."""
    return await service.update_eval(uow, eval_id, changes)


@router.delete("/{eval_id}")
async def delete_eval(uow: Uow, eval_id: str) -> EvalDeleted:
    """Forget an eval with all its runs; those that are under way end."""
    return await service.delete_eval(uow, eval_id)
