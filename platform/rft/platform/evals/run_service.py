"""What can be done with runs of evals."""

import secrets
import uuid

from rft.platform.api.dependencies import Services
from rft.platform.api.errors import BadRequest, NotFound
from rft.platform.api.idempotency_repository import IdempotencyKey, Made, claim, earlier, fingerprint
from rft.platform.api.pagination import ListPage, Order, to_page, unknown_cursor
from rft.platform.evals.output_item_repository import ItemStatus, OutputItemRepository
from rft.platform.evals.reconciling import figures_of
from rft.platform.evals.repository import EvalRepository, EvalRow
from rft.platform.evals.run_checks import CheckedRun, check_retry, check_run
from rft.platform.evals.run_objects import (
    EvalRunDeleted,
    EvalRunObject,
    OutputItemObject,
    to_output_item_object,
    to_run_object,
)
from rft.platform.evals.run_repository import NewRun, RunEnd, RunRepository, RunRow, RunStatus
from rft.platform.evals.run_schemas import FileId, RunCreate
from rft.platform.evals.run_tools import has_tools
from rft.platform.evals.service import find_eval, no_eval
from rft.platform.files.repository import FileRepository
from rft.platform.queue.messages import RUN_EVAL
from rft.platform.store.unit_of_work import UnitOfWork, unit_of_work

_SEEDS = 2**31
MOST_SAMPLES_IN_A_REPLY = 20_000
"""Figures of a run that is going are made anew for each reply."""
_FILE = "data_source.source.id"


async def create_run(
    services: Services, eval_id: str, order: RunCreate, key: IdempotencyKey | None = None, *, root: str
) -> EvalRunObject:
    """Check the order, write the row, enqueue a message. Raises NotFound, BadRequest.

    `key`: the same order under the same key gives the run it gave before.
    """
    request = fingerprint({"eval": eval_id, "run": order.model_dump(mode="json", exclude_unset=True)})
    async with unit_of_work(services.database, services.enqueuer) as uow:
        eval_ = await find_eval(uow, eval_id)
        before = None if key is None else await earlier(uow.connection, key, request)
        if before is not None:
            return await retrieve_run(uow, eval_id, before, root=root)
        checked = await check_run(uow, services, eval_, order)
    run = _new_run(services, eval_id, order, checked)
    async with unit_of_work(services.database, services.enqueuer) as uow:
        if await EvalRepository(uow.connection).keep(eval_id) is None:
            raise no_eval(eval_id)
        if run.file_id is not None and await FileRepository(uow.connection).get(run.file_id) is None:
            raise BadRequest(f"No such file: {run.file_id}", param=_FILE, code="file_not_found")
        if key is not None and not await claim(uow.connection, key, request, Made.EVAL_RUN, run.id):
            before = await earlier(uow.connection, key, request)
            assert before is not None, "the claim was refused for it"
            return await retrieve_run(uow, eval_id, before, root=root)
        row = await RunRepository(uow.connection).insert(run)
        uow.enqueue(RUN_EVAL, run.id)
    return to_run_object(row, eval_, None, root=root)


def _new_run(services: Services, eval_id: str, order: RunCreate, checked: CheckedRun) -> NewRun:
    run_id = f"evalrun_{uuid.uuid4().hex}"
    source = order.data_source.source
    return NewRun(
        id=run_id,
        eval_id=eval_id,
        name=order.name or run_id,
        metadata=order.metadata,
        model=checked.model,
        data_source=checked.shown,
        file_id=source.id if isinstance(source, FileId) else None,
        sealed=None if checked.tools is None else services.secret_box.seal_text(checked.tools),
        samples_per_row=checked.samples_per_row,
        seed=secrets.randbelow(_SEEDS) if checked.seed is None else checked.seed,
    )


async def find_run(uow: UnitOfWork, eval_id: str, run_id: str) -> tuple[RunRow, EvalRow]:
    """One. Raises NotFound."""
    eval_ = await find_eval(uow, eval_id)
    row = await RunRepository(uow.connection).get(eval_id, run_id)
    if row is None:
        raise _no_run(run_id)
    return row, eval_


async def retrieve_run(uow: UnitOfWork, eval_id: str, run_id: str, *, root: str) -> EvalRunObject:
    """One with its counts, and while it is going with the figures of what is finished. Raises NotFound."""
    row, eval_ = await find_run(uow, eval_id, run_id)
    counts = (await OutputItemRepository(uow.connection).counts([run_id])).get(run_id)
    if row.status == "in_progress" and counts is not None and counts.samples <= MOST_SAMPLES_IN_A_REPLY:
        row = row.model_copy(update={"figures": await figures_of(uow.connection, eval_id, run_id)})
    return to_run_object(row, eval_, counts, root=root)


async def list_runs(
    uow: UnitOfWork,
    eval_id: str,
    *,
    after: str | None,
    limit: int,
    order: Order,
    status: RunStatus | None,
    root: str,
) -> ListPage[EvalRunObject]:
    """One page. Raises NotFound, BadRequest."""
    eval_ = await find_eval(uow, eval_id)
    runs = RunRepository(uow.connection)
    if after is not None and not await runs.has_place(eval_id, after):
        raise unknown_cursor(after)
    rows = await runs.page(eval_id, after=after, limit=limit + 1, order=order, status=status)
    counts = await OutputItemRepository(uow.connection).counts([row.id for row in rows])
    return to_page([to_run_object(row, eval_, counts.get(row.id), root=root) for row in rows], limit=limit)


async def cancel_run(uow: UnitOfWork, eval_id: str, run_id: str, *, root: str) -> EvalRunObject:
    """Cancel it, or ask its worker to. Raises NotFound, and BadRequest when it is over."""
    await find_run(uow, eval_id, run_id)
    runs = RunRepository(uow.connection)
    has_moved = await runs.cancel(run_id)
    row, _ = await find_run(uow, eval_id, run_id)
    if has_moved and row.status == "canceled":  # No worker has it: what an earlier one finished is measured here.
        await runs.end_unleased(run_id, RunEnd("canceled"), await figures_of(uow.connection, eval_id, run_id))
    run = await retrieve_run(uow, eval_id, run_id, root=root)
    if not has_moved:
        message = f"The run {run_id} is {run.status} and can no longer be cancelled."
        raise BadRequest(message, code="invalid_state")
    return run


async def retry_run(services: Services, eval_id: str, run_id: str, *, root: str) -> EvalRunObject:
    """Have a worker do what has no verdict: items that ended in an error, and those it did not come to.

    Raises NotFound, and BadRequest where there is nothing to do, or no way to do it as before.
    """
    async with unit_of_work(services.database, services.enqueuer) as uow:
        row, _ = await find_run(uow, eval_id, run_id)
        if not await RunRepository(uow.connection).retry(run_id):
            message = f"The run {run_id} is {row.status}: there is nothing to try again."
            raise BadRequest(message, code="invalid_state")
        if row.sealed is None and has_tools(row.data_source):
            message = f"The run {run_id} has forgotten the secrets of its tools; order a new one."
            raise BadRequest(message, code="invalid_state")  # Which takes back that it was queued.
        await check_retry(uow, services, row)
        uow.enqueue(RUN_EVAL, run_id)
        return await retrieve_run(uow, eval_id, run_id, root=root)


async def delete_run(uow: UnitOfWork, eval_id: str, run_id: str) -> EvalRunDeleted:
    """Forget it with its output items. Raises NotFound."""
    await find_eval(uow, eval_id)
    if not await RunRepository(uow.connection).delete(eval_id, run_id):
        raise _no_run(run_id)
    return EvalRunDeleted(run_id=run_id)


async def list_output_items(
    uow: UnitOfWork,
    eval_id: str,
    run_id: str,
    *,
    after: str | None,
    limit: int,
    order: Order,
    status: ItemStatus | None,
    row_index: int | None,
) -> ListPage[OutputItemObject]:
    """One page, in the order of the items. Raises NotFound, BadRequest."""
    await find_run(uow, eval_id, run_id)
    items = OutputItemRepository(uow.connection)
    if after is not None and await items.get(run_id, after) is None:
        raise unknown_cursor(after)
    rows = await items.page(run_id, after=after, limit=limit + 1, order=order, status=status, row_index=row_index)
    return to_page([to_output_item_object(row, eval_id=eval_id) for row in rows], limit=limit)


async def find_output_item(uow: UnitOfWork, eval_id: str, run_id: str, item_id: str) -> OutputItemObject:
    """One. Raises NotFound."""
    await find_run(uow, eval_id, run_id)
    row = await OutputItemRepository(uow.connection).get(run_id, item_id)
    if row is None:
        raise NotFound(f"No such output item: {item_id}", param="output_item_id", code="output_item_not_found")
    return to_output_item_object(row, eval_id=eval_id)


def _no_run(run_id: str) -> NotFound:
    return NotFound(f"No such run: {run_id}", param="run_id", code="run_not_found")
