"""`/v1/evals/{eval_id}/runs` and their output items."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rft.platform.api.conditional import NOT_MODIFIED, by_content
from rft.platform.api.dependencies import AppServices, Uow
from rft.platform.api.idempotency_repository import OptionalIdempotencyKey
from rft.platform.api.pagination import After, ListPage, Order
from rft.platform.evals import run_analysis, run_service
from rft.platform.evals.comparison import Change
from rft.platform.evals.output_item_repository import ItemStatus
from rft.platform.evals.run_objects import (
    ComparedRowsObject,
    ComparisonObject,
    EvalRunDeleted,
    EvalRunObject,
    OutputItemObject,
    VarianceObject,
)
from rft.platform.evals.run_repository import RunStatus
from rft.platform.evals.run_schemas import RunCreate

router = APIRouter(prefix="/evals/{eval_id}/runs", tags=["evals"])
Limit = Annotated[int, Query(ge=1, le=100)]
Criterion = Annotated[
    str | None, Query(description="The id of a criterion, whose scores are looked at; absent: whether samples pass.")
]


@router.post("")
async def create_eval_run(
    request: Request, services: AppServices, eval_id: str, order: RunCreate, key: OptionalIdempotencyKey
) -> EvalRunObject:
    """Hold items against an eval's criteria, in the background: with the samples they bring, or a model's."""
    return await run_service.create_run(services, eval_id, order, key, root=_root(request))


@router.get("")
async def list_eval_runs(
    request: Request,
    uow: Uow,
    eval_id: str,
    after: After = None,
    limit: Limit = 20,
    order: Order = "asc",
    status: RunStatus | None = None,
) -> ListPage[EvalRunObject]:
    """An eval's runs, by age."""
    return await run_service.list_runs(
        uow, eval_id, after=after, limit=limit, order=order, status=status, root=_root(request)
    )


@router.get("/{run_id}", response_model=EvalRunObject, responses=NOT_MODIFIED)
async def retrieve_eval_run(request: Request, uow: Uow, eval_id: str, run_id: str) -> Response:
    """One run with what became of its items so far. Answers `If-None-Match`."""
    return by_content(request, await run_service.retrieve_run(uow, eval_id, run_id, root=_root(request)))


@router.delete("/{run_id}")
async def delete_eval_run(uow: Uow, eval_id: str, run_id: str) -> EvalRunDeleted:
    """Forget a run with its output items; one that is under way ends."""
    return await run_service.delete_run(uow, eval_id, run_id)


@router.post("/{run_id}/cancel")
async def cancel_eval_run(request: Request, uow: Uow, eval_id: str, run_id: str) -> EvalRunObject:
    """Break a run off. One that is under way ends within seconds and keeps the items that are finished."""
    return await run_service.cancel_run(uow, eval_id, run_id, root=_root(request))


@router.post("/{run_id}/retry")
async def retry_eval_run(request: Request, services: AppServices, eval_id: str, run_id: str) -> EvalRunObject:
    """Sample and judge again what ended in an error, and what a run that failed or was cancelled did not come to."""
    return await run_service.retry_run(services, eval_id, run_id, root=_root(request))


@router.post("/{run_id}")
async def cancel_eval_run_by_its_path(request: Request, uow: Uow, eval_id: str, run_id: str) -> EvalRunObject:
    """The same, where the hosted service's published specification has it."""
    return await run_service.cancel_run(uow, eval_id, run_id, root=_root(request))


@router.get("/{run_id}/compare")
async def compare_eval_runs(
    uow: Uow,
    eval_id: str,
    run_id: str,
    other: Annotated[str, Query(alias="with", description="The other run, of the same eval.")],
) -> ComparisonObject:
    """A run against another one, item by item, with the paired interval at 95%."""
    return await run_analysis.compare_runs(uow, eval_id, run_id, other)


@router.get("/{run_id}/compare/rows")
async def list_compared_rows(
    uow: Uow,
    eval_id: str,
    run_id: str,
    other: Annotated[str, Query(alias="with", description="The other run, of the same eval.")],
    criterion: Criterion = None,
    change: Change | None = None,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Limit = 20,
) -> ComparedRowsObject:
    """The items that both runs have a verdict of, the largest change first."""
    return await run_analysis.list_compared_rows(
        uow, eval_id, run_id, other, criterion=criterion, change=change, offset=offset, limit=limit
    )


@router.get("/{run_id}/variance")
async def retrieve_eval_run_variance(
    uow: Uow,
    eval_id: str,
    run_id: str,
    criterion: Criterion = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> VarianceObject:
    """How far the samples of each item spread, and what that says of a job's `compute_multiplier`."""
    return await run_analysis.run_variance(uow, eval_id, run_id, criterion=criterion, limit=limit)


@router.get("/{run_id}/output_items")
async def list_eval_output_items(
    uow: Uow,
    eval_id: str,
    run_id: str,
    after: After = None,
    limit: Limit = 20,
    order: Order = "asc",
    status: ItemStatus | None = None,
    datasource_item_id: Annotated[int | None, Query(ge=0, lt=2**31, description="Ours: of one item.")] = None,
) -> ListPage[OutputItemObject]:
    """What became of a run's items, in their order."""
    return await run_service.list_output_items(
        uow, eval_id, run_id, after=after, limit=limit, order=order, status=status, row_index=datasource_item_id
    )


@router.get("/{run_id}/output_items/{output_item_id}")
async def retrieve_eval_output_item(uow: Uow, eval_id: str, run_id: str, output_item_id: str) -> OutputItemObject:
    """One output item."""
    return await run_service.find_output_item(uow, eval_id, run_id, output_item_id)


def _root(request: Request) -> str:
    return str(request.base_url)
