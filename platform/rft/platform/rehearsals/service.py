"""What can be done with rehearsals."""

import secrets

from rft.core.ids import public_id
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import BadRequest, NotFound
from rft.platform.api.pagination import ListPage, to_page, unknown_cursor
from rft.platform.files.repository import FileRow
from rft.platform.jobs.creation import GRADER, check_files, endpoint_targets
from rft.platform.jobs.order_checks import refuse_undescribed_tools
from rft.platform.orders.grader_sources import refuse_bad_sources
from rft.platform.orders.grader_specification import refuse_unfillable_templates
from rft.platform.orders.probing import refuse_unreachable
from rft.platform.orders.redaction import redacted_method, secrets_of
from rft.platform.orders.schemas import JobCreate
from rft.platform.queue.messages import REHEARSE
from rft.platform.registry.resolution import resolve_order
from rft.platform.rehearsals.planning import to_plan
from rft.platform.rehearsals.repository import NewRehearsal, RehearsalRepository
from rft.platform.rehearsals.sample import BadSample, read_sample
from rft.platform.rehearsals.schemas import RehearsalObject, RehearsalOrder, to_rehearsal_object
from rft.platform.store.file_store import BytesMissing, read_lines
from rft.platform.store.unit_of_work import UnitOfWork, unit_of_work

_GENERATED_SEEDS = 2**31


async def create_rehearsal(services: Services, wanted: RehearsalOrder) -> RehearsalObject:
    """Check the order as a job's, write the row, enqueue a message. Raises BadRequest."""
    settings = services.settings
    async with unit_of_work(services.database, services.enqueuer) as uow:
        order = (await resolve_order(uow.connection, services.secret_box, wanted)).order
        files = await check_files(uow, order)
    reinforcement = order.method.reinforcement
    refuse_undescribed_tools(reinforcement.tools or [], files.values())
    train_rows = await _count_rows(services, order, files["training_file"])
    refuse_unfillable_templates(reinforcement.grader, param=GRADER)
    await refuse_bad_sources(reinforcement.grader, param=GRADER)
    await refuse_unreachable(endpoint_targets(order.method), settings)
    rehearsal = NewRehearsal(
        id=public_id("rehearsal-", secrets.token_bytes(24)),
        model=order.model,
        training_file=order.training_file,
        method=redacted_method(order.method),
        secrets=services.secret_box.seal(secrets_of(order.method)),
        seed=secrets.randbelow(_GENERATED_SEEDS) if order.seed is None else order.seed,
        plan=to_plan(
            reinforcement,
            settings,
            train_rows=train_rows,
            calls_per_rollout=wanted.calls_per_rollout,
            max_rollouts=wanted.max_rollouts,
        ),
    )
    async with unit_of_work(services.database, services.enqueuer) as uow:
        await check_files(uow, order)  # Again: it may have been deleted meanwhile, and from here on it stays.
        row = await RehearsalRepository(uow.connection).insert(rehearsal)
        uow.enqueue(REHEARSE, rehearsal.id)
    return to_rehearsal_object(row)


async def find_rehearsal(uow: UnitOfWork, rehearsal_id: str) -> RehearsalObject:
    """One, or NotFound."""
    row = await RehearsalRepository(uow.connection).get(rehearsal_id)
    if row is None:
        raise NotFound(f"No such rehearsal: {rehearsal_id}", param="rehearsal_id", code="rehearsal_not_found")
    return to_rehearsal_object(row)


async def cancel_rehearsal(uow: UnitOfWork, rehearsal_id: str) -> RehearsalObject:
    """Cancel it, or ask its worker to. Raises NotFound, and BadRequest when it is over."""
    has_moved = await RehearsalRepository(uow.connection).cancel(rehearsal_id)
    rehearsal = await find_rehearsal(uow, rehearsal_id)
    if not has_moved:
        # 400 and not 409, which the SDK would repeat.
        message = f"Rehearsal {rehearsal_id} is {rehearsal.status} and can no longer be cancelled."
        raise BadRequest(message, code="invalid_state")
    return rehearsal


async def list_rehearsals(uow: UnitOfWork, *, after: str | None, limit: int) -> ListPage[RehearsalObject]:
    """One page, newest first."""
    rehearsals = RehearsalRepository(uow.connection)
    if after is not None and await rehearsals.get(after) is None:
        raise unknown_cursor(after)
    rows = await rehearsals.page(after=after, limit=limit + 1)
    return to_page([to_rehearsal_object(row) for row in rows], limit=limit)


async def _count_rows(services: Services, order: JobCreate, file: FileRow) -> int:
    """Rows of the training file, of which the first were looked at. Raises BadRequest."""
    tools = [tool.name for tool in order.method.reinforcement.tools or []]
    try:
        sample = await read_sample(read_lines(file.storage_key, services.file_store), tools=tools)
    except (BadSample, BytesMissing) as error:
        message = f"The file '{file.id}' cannot be used: {error}"
        raise BadRequest(message, param="training_file", code="invalid_training_file") from error
    return max(len(sample), 0 if file.report is None else file.report.rows)
