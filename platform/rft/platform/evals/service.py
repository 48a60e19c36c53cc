"""What can be done with evals."""

import json
import uuid
from typing import cast

from rft.core.base import JsonObject
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import NotFound
from rft.platform.api.pagination import ListPage, Order, to_page, unknown_cursor
from rft.platform.evals.criteria import refuse_ruler, refuse_unknown_fields, refuse_unthresholded
from rft.platform.evals.latest_runs import ListedEval, latest_runs
from rft.platform.evals.repository import EvalRepository, EvalRow, OrderBy
from rft.platform.evals.schemas import (
    OTHER_NAMES,
    CustomConfig,
    DataSourceConfigObject,
    EvalCreate,
    EvalDeleted,
    EvalObject,
    EvalUpdate,
    shown_config,
)
from rft.platform.orders.grader_schemas import Grader
from rft.platform.orders.grader_sources import refuse_bad_sources
from rft.platform.orders.grader_specification import refuse_without_judge, with_name
from rft.platform.orders.unknown_fields import refuse_misspelled
from rft.platform.registry.redaction import shown_body
from rft.platform.registry.resolution import resolve_grader
from rft.platform.store.unit_of_work import UnitOfWork, unit_of_work


async def create_eval(services: Services, order: EvalCreate) -> EvalObject:
    """Check the criteria, write the row. Raises BadRequest; nothing is called."""
    refuse_misspelled(order, other_names=OTHER_NAMES)
    graders = await _graders(services, order)
    eval_id = f"eval_{uuid.uuid4().hex}"
    criteria = [_document(grader) for grader in graders]
    async with unit_of_work(services.database, services.enqueuer) as uow:
        row = await EvalRepository(uow.connection).insert(
            eval_id,
            name=order.name or eval_id,
            metadata=order.metadata,
            data_source_config=shown_config(order.data_source_config),
            testing_criteria=[shown_body(criterion) for criterion in criteria],
            sealed=services.secret_box.seal_text(json.dumps(criteria)),
        )
    return to_eval_object(row)


async def _graders(services: Services, order: EvalCreate) -> list[Grader]:
    graders: list[Grader] = []
    config = order.data_source_config
    for index, criterion in enumerate(order.testing_criteria):
        param = f"testing_criteria[{index}]"
        async with services.database.transaction() as connection:
            grader = await resolve_grader(connection, services.secret_box, criterion, param=param)
        refuse_ruler(grader, param=param)
        refuse_unthresholded(grader, param=param)
        if isinstance(config, CustomConfig):
            refuse_unknown_fields(grader, config.item_schema, param=param)
        refuse_without_judge(grader, services.settings, param=param)
        await refuse_bad_sources(grader, param=param)
        graders.append(with_name(grader, f"criterion-{index + 1}"))
    return graders


def _document(grader: Grader) -> JsonObject:
    """The criterion as it is kept; its results go by this id."""
    body: JsonObject = grader.model_dump(mode="json", exclude_unset=True)
    return {**body, "name": grader.name, "id": f"{grader.name}-{uuid.uuid4()}"}


async def find_eval(uow: UnitOfWork, eval_id: str) -> EvalRow:
    """One. Raises NotFound."""
    row = await EvalRepository(uow.connection).get(eval_id)
    if row is None:
        raise no_eval(eval_id)
    return row


def no_eval(eval_id: str) -> NotFound:
    """The reply to an id that names none."""
    return NotFound(f"No such eval: {eval_id}", param="eval_id", code="eval_not_found")


async def list_evals(
    uow: UnitOfWork, *, after: str | None, limit: int, order: Order, order_by: OrderBy
) -> ListPage[ListedEval]:
    """One page, each with its latest run. Raises BadRequest."""
    evals = EvalRepository(uow.connection)
    if after is not None and not await evals.has_place(after):
        raise unknown_cursor(after)
    rows = await evals.page(after=after, limit=limit + 1, order=order, order_by=order_by)
    latest = await latest_runs(uow.connection, [row.id for row in rows])
    shown = [ListedEval.model_validate({**dict(to_eval_object(row)), "latest_run": latest.get(row.id)}) for row in rows]
    return to_page(shown, limit=limit)


async def update_eval(uow: UnitOfWork, eval_id: str, changes: EvalUpdate) -> EvalObject:
    """Rename it, change its metadata. Raises NotFound."""
    row = await EvalRepository(uow.connection).update(
        eval_id,
        name=changes.name,
        metadata=changes.metadata,
        has_metadata="metadata" in changes.model_fields_set,
    )
    if row is None:
        raise no_eval(eval_id)
    return to_eval_object(row)


async def delete_eval(uow: UnitOfWork, eval_id: str) -> EvalDeleted:
    """Forget it with its runs. Raises NotFound."""
    if not await EvalRepository(uow.connection).delete(eval_id):
        raise no_eval(eval_id)
    return EvalDeleted(eval_id=eval_id)


def to_eval_object(row: EvalRow) -> EvalObject:
    """The row as it is shown."""
    return EvalObject(
        id=row.id,
        created_at=int(row.created_at.timestamp()),
        name=row.name,
        data_source_config=DataSourceConfigObject.model_validate(cast("dict[str, object]", row.data_source_config)),
        testing_criteria=list(row.testing_criteria),
        metadata=row.metadata,
    )
