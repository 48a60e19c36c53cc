"""Runs of evals looked at closely: against another run, and by how far the samples of each item spread.

Tens of thousands of samples take seconds, which the event loop does not have.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from rft.core.base import JsonObject
from rft.core.row_spread import evenly, row_spreads, variance_of
from rft.platform.api.errors import BadRequest
from rft.platform.evals.comparison import Change, compare, compared_rows
from rft.platform.evals.figures import Measured, by_row, passing, score_at
from rft.platform.evals.output_item_repository import OutputItemRepository
from rft.platform.evals.repository import EvalRow
from rft.platform.evals.run_objects import ComparedRowObject, ComparedRowsObject, ComparisonObject, VarianceObject
from rft.platform.evals.run_repository import RunRepository
from rft.platform.evals.run_service import find_run
from rft.platform.store.unit_of_work import UnitOfWork


async def compare_runs(uow: UnitOfWork, eval_id: str, run_id: str, other_id: str) -> ComparisonObject:
    """A run less another one, item by item. Raises NotFound, BadRequest."""
    eval_ = await _find_both(uow, eval_id, run_id, other_id)
    items = OutputItemRepository(uow.connection)
    here, there = await items.measured(run_id), await items.measured(other_id)
    comparison = await asyncio.to_thread(compare, here, there, _criteria(eval_))
    told: JsonObject = {"eval_id": eval_id, "run_id": run_id, "with_run_id": other_id}
    return ComparisonObject.model_validate(comparison.model_dump() | told)


async def list_compared_rows(
    uow: UnitOfWork,
    eval_id: str,
    run_id: str,
    other_id: str,
    *,
    criterion: str | None,
    change: Change | None,
    offset: int,
    limit: int,
) -> ComparedRowsObject:
    """Up to `limit` items, the largest change first. Raises NotFound, BadRequest."""
    eval_ = await _find_both(uow, eval_id, run_id, other_id)
    by, items = _place_of(eval_, criterion), OutputItemRepository(uow.connection)
    here, there = await items.measured(run_id), await items.measured(other_id)
    compared = await asyncio.to_thread(compared_rows, here, there, criteria=len(_criteria(eval_)), by=by)
    rows = [row for row in compared if change is None or row.change == change]
    shown = rows[offset : offset + limit]
    stored = await items.items(run_id, [row.row_index for row in shown])
    data = [
        ComparedRowObject.model_validate(row.model_dump() | {"datasource_item": stored[row.row_index]}) for row in shown
    ]
    return ComparedRowsObject(data=data, total=len(rows), has_more=offset + len(data) < len(rows))


async def run_variance(
    uow: UnitOfWork, eval_id: str, run_id: str, *, criterion: str | None, limit: int
) -> VarianceObject:
    """Of what is finished; up to `limit` items. Raises NotFound, BadRequest."""
    _, eval_ = await find_run(uow, eval_id, run_id)
    place = _place_of(eval_, criterion)
    measured = await OutputItemRepository(uow.connection).measured(run_id)
    told = await asyncio.to_thread(_variance, measured, place, limit)
    return VarianceObject.model_validate(told | {"run_id": run_id, "criterion": criterion})


def _variance(measured: Sequence[Measured], place: int | None, limit: int) -> dict[str, Any]:
    values = by_row(measured, passing if place is None else score_at(place))
    return variance_of(values).model_dump() | {"data": evenly(row_spreads(values), limit)}


async def _find_both(uow: UnitOfWork, eval_id: str, run_id: str, other_id: str) -> EvalRow:
    _, eval_ = await find_run(uow, eval_id, run_id)
    if await RunRepository(uow.connection).get(eval_id, other_id) is None:
        raise BadRequest(f"The eval has no run '{other_id}'.", param="with", code="run_not_found")
    return eval_


def _criteria(eval_: EvalRow) -> list[str]:
    return [str(criterion["id"]) for criterion in eval_.testing_criteria]


def _place_of(eval_: EvalRow, criterion: str | None) -> int | None:
    if criterion is None:
        return None
    try:
        return _criteria(eval_).index(criterion)
    except ValueError:
        message = f"The eval has no criterion '{criterion}'."
        raise BadRequest(message, param="criterion", code="criterion_not_found") from None
