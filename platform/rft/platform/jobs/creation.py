"""A job's creation: everything that can be known to be wrong is said before a row exists."""

import secrets
from collections.abc import Sequence

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.chat_spec import JobChat
from rft.core.failure import Stage
from rft.core.ids import public_id
from rft.core.model_check import ModelCheck
from rft.core.spec import is_in_trainers_arithmetic
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import BadRequest, NotFound
from rft.platform.api.idempotency_repository import IdempotencyKey, Made, claim, earlier, fingerprint
from rft.platform.files.repository import FileRepository, FileRow
from rft.platform.jobs.order_checks import (
    MOST_NAMED,
    fields_without_effect,
    in_words,
    refuse_misdescribed_tools,
    refuse_undescribed_tools,
    unknown_fields,
    unusable_files,
)
from rft.platform.jobs.order_warnings import OrderWarning, model_warnings, order_warnings
from rft.platform.jobs.repository import JobRepository, JobRow
from rft.platform.lifecycle.events import add_event, notify, validating_message
from rft.platform.lifecycle.records import NewJob
from rft.platform.lifecycle.repository import LifecycleRepository
from rft.platform.orders.base_models import chat_of_job, resolve_base
from rft.platform.orders.devices import refuse_unusable_devices
from rft.platform.orders.grader_schemas import RulerGrader
from rft.platform.orders.grader_sources import refuse_bad_sources
from rft.platform.orders.grader_specification import (
    grader_targets,
    refuse_unfillable_templates,
    refuse_without_judge,
    to_grader_spec,
    with_name,
)
from rft.platform.orders.model_checks import look_at_model
from rft.platform.orders.probing import Target, find_doubtful
from rft.platform.orders.redaction import redacted_method, redacted_request, secrets_of
from rft.platform.orders.rollout_workers import refuse_unusable_workers
from rft.platform.orders.schemas import JobCreate, JobOrder, Method
from rft.platform.queue.messages import VALIDATE_JOB
from rft.platform.registry.repository import RegistrationRepository
from rft.platform.registry.resolution import resolve_order
from rft.platform.store.unit_of_work import UnitOfWork, unit_of_work

_GENERATED_SEEDS = 2**31
_PURPOSE = "fine-tune"
GRADER = "method.reinforcement.grader"
_BASELINES = "method.reinforcement.baselines"


async def create_job(services: Services, wanted: JobOrder, key: IdempotencyKey | None = None) -> JobRow:
    """Check the order, look at its endpoints, write the row, enqueue a message. Raises BadRequest.

    `key`: the same order under the same key gives the job it gave before.
    """
    request = fingerprint(wanted.model_dump(mode="json", exclude_unset=True))
    async with unit_of_work(services.database, services.enqueuer) as uow:
        before = None if key is None else await _earlier(uow, key, request)
        if before is not None:
            return before
    base_model_path = resolve_base(wanted.model, services.settings)
    async with unit_of_work(services.database, services.enqueuer) as uow:
        resolved = await resolve_order(uow.connection, services.secret_box, wanted)
        order = await with_test_file(uow, resolved.order)
        files = await check_files(uow, order)
        await check_baselines(uow, services, order)
    refuse_misdescribed_tools(files)
    refuse_undescribed_tools(order.method.reinforcement.tools or [], files.values())
    refuse_unusable_workers(services.settings, order.method.reinforcement.hyperparameters.policy_pin)
    refuse_unusable_devices(services.settings, order.method.reinforcement.hyperparameters.max_staleness)
    refuse_without_judge(order.method.reinforcement.grader, services.settings, param=GRADER)
    refuse_unfillable_templates(order.method.reinforcement.grader, param=GRADER)
    # No transaction is held open while a check or somebody else's server takes its time.
    effort = order.method.reinforcement.hyperparameters.reasoning_effort
    chat = chat_of_job(wanted.model, services.settings)
    engine = services.settings.engine
    look = await look_at_model(wanted.model, base_model_path, chat, effort, engine=engine)
    await refuse_bad_sources(order.method.reinforcement.grader, param=GRADER)
    doubtful = await find_doubtful(endpoint_targets(order.method), services.settings)
    warnings = [*order_warnings(order, doubtful), *model_warnings(wanted.model, look.broken)]
    job = _new_job(services, order, base_model_path, chat_of_job(wanted.model, services.settings, look.check))
    async with unit_of_work(services.database, services.enqueuer) as uow:
        if key is not None and not await claim(uow.connection, key, request, Made.JOB, job.id):
            before = await _earlier(uow, key, request)
            assert before is not None, "the claim was refused for it"
            return before
        await check_files(uow, order)
        await LifecycleRepository(uow.connection).insert(job)
        await RegistrationRepository(uow.connection).add_uses(job.id, resolved.uses)
        is_stale = order.method.reinforcement.hyperparameters.max_staleness != 0
        settings = services.settings
        is_weighted = is_stale or not is_in_trainers_arithmetic(settings.engine, settings.base_dtype)
        invalid = to_grader_spec(order.method.reinforcement.grader, settings).grade_of_invalid
        await _first_events(uow, order, job.id, look.check, is_weighted=is_weighted, grade_of_invalid=invalid)
        await add_warnings(uow.connection, job.id, warnings, key="order")
        uow.enqueue(VALIDATE_JOB, job.id)
        row = await JobRepository(uow.connection).get(job.id)
    assert row is not None, "it was just inserted"
    return row


async def _earlier(uow: UnitOfWork, key: IdempotencyKey, request: bytes) -> JobRow | None:
    job_id = await earlier(uow.connection, key, request)
    return None if job_id is None else await JobRepository(uow.connection).get(job_id)


async def with_test_file(uow: UnitOfWork, order: JobCreate) -> JobCreate:
    """The order with the test file that its metadata names, where there is one that it can use; else as it is.

    Metadata may mean anything: what stands there must not fail a job, nor refuse it.
    """
    named = order.test_file_of_the_metadata
    row = None if named is None else await FileRepository(uow.connection).get(named)
    if row is None or row.purpose != _PURPOSE:
        return order
    is_empty = row.report is not None and not row.report.is_usable
    is_unusable = is_empty or any(unusable_files(order.method.reinforcement.tools or [], {"test_file": row}))
    return order if is_unusable else order.model_copy(update={"test_file": named})


async def check_files(uow: UnitOfWork, order: JobCreate) -> dict[str, FileRow]:
    """The order's files, by the fields that name them. Raises BadRequest."""
    files, found = FileRepository(uow.connection), dict[str, FileRow]()
    for param, file_id in order.files:
        row = await files.get(file_id)
        if row is None:
            raise BadRequest(f"The file '{file_id}' does not exist.", param=param, code="file_not_found")
        if row.purpose != _PURPOSE:
            raise BadRequest(
                f"The file '{file_id}' was uploaded for '{row.purpose}'; its purpose must be '{_PURPOSE}'.",
                param=param,
                code="invalid_file_purpose",
            )
        found[param] = row
    return found


async def check_baselines(uow: UnitOfWork, services: Services, order: JobCreate) -> None:
    """Raises BadRequest that names the baseline."""
    names = order.method.reinforcement.baselines or []
    if names and isinstance(order.method.reinforcement.grader, RulerGrader):
        raise BadRequest(
            "A 'ruler' grader ranks the rollouts of one model against each other: it says nothing of another model.",
            param=_BASELINES,
            code="invalid_baselines",
        )
    for index, name in enumerate(names if services.refuse_unknown_model is not None else ()):
        assert services.refuse_unknown_model is not None
        try:
            await services.refuse_unknown_model(uow, name)
        except (BadRequest, NotFound) as unknown:
            raise BadRequest(unknown.message, param=f"{_BASELINES}[{index}]", code=unknown.code) from unknown


def endpoint_targets(method: Method) -> list[Target]:
    """The URLs to look at before the job begins."""
    order = method.reinforcement
    tools = [
        Target(
            param=f"method.reinforcement.tools[{index}].{'server_url' if tool.id is None else 'id'}",
            stage=Stage.TOOL,
            name=tool.name,
            url=tool.server_url,
            headers=tool.headers or {},
        )
        for index, tool in enumerate(order.tools or [])
    ]
    callbacks = [
        Target(
            param=f"method.reinforcement.tools[{index}].callback_url",
            stage=Stage.TOOL,
            name=tool.name,
            url=tool.callback_url,
            headers=tool.headers or {},
        )
        for index, tool in enumerate(order.tools or [])
        if tool.callback_url is not None
    ]
    return [*tools, *callbacks, *grader_targets(order.grader, GRADER)]


def _new_job(services: Services, order: JobCreate, base_model_path: str, chat: JobChat) -> NewJob:
    job_id = public_id("ftjob-", secrets.token_bytes(24))
    method = _with_grader_name(order.method, f"grader-{job_id[-4:]}")
    return NewJob(
        id=job_id,
        model=order.model,
        base_model_path=base_model_path,
        chat=chat,
        training_file=order.training_file,
        validation_file=order.validation_file,
        test_file=order.test_file,
        suffix=order.suffix or None,
        seed=secrets.randbelow(_GENERATED_SEEDS) if order.seed is None else order.seed,
        metadata=order.metadata,
        method=redacted_method(method),
        request=redacted_request(order),
        secrets=services.secret_box.seal(secrets_of(method)),
    )


def _with_grader_name(method: Method, name: str) -> Method:
    reinforcement = method.reinforcement
    grader = with_name(reinforcement.grader, name)
    return method.model_copy(update={"reinforcement": reinforcement.model_copy(update={"grader": grader})})


async def _first_events(
    uow: UnitOfWork,
    order: JobCreate,
    job_id: str,
    model: ModelCheck | None,
    *,
    is_weighted: bool,
    grade_of_invalid: float,
) -> None:
    await add_event(uow.connection, job_id, f"Created fine-tuning job: {job_id}", key="created")
    response_format = order.method.reinforcement.response_format
    if response_format is not None and response_format["type"] != "text":
        await add_event(
            uow.connection,
            job_id,
            f"An answer that does not fit response_format is graded {grade_of_invalid:g}, the grader's invalid_grade."
            " The policy is not held to it while it answers: say in the prompts what is wanted",
            data={"code": "response_format"},
            key="response-format",
        )
    idle = fields_without_effect(
        order,
        has_thinking_switch=model is not None and model.thinking_switch is not None,
        has_thoughts=model is None or model.has_thoughts,
        is_weighted=is_weighted,
    )
    if idle:
        await add_event(
            uow.connection,
            job_id,
            f"These fields are kept with the job and have no effect here: {', '.join(idle)}",
            level="warn",
            data={"code": "fields_without_effect", "fields": [*idle]},
            key="fields-without-effect",
        )
    unknown = unknown_fields(order)
    if unknown:
        await add_event(
            uow.connection,
            job_id,
            f"These fields are not known here; they are kept with the job and have no effect: {in_words(unknown)}",
            level="warn",
            data={"code": "unknown_fields", "fields": [*unknown[:MOST_NAMED]]},
            key="unknown-fields",
        )
    await add_event(uow.connection, job_id, validating_message(order.files), key="validating")
    await notify(uow.connection, job_id)


async def add_warnings(
    connection: AsyncConnection[TupleRow], job_id: str, warnings: Sequence[OrderWarning], *, key: str
) -> None:
    """As events; `key` tells what they are about."""
    for number, warning in enumerate(warnings):
        await add_event(
            connection,
            job_id,
            warning.message,
            level="warn",
            data={"code": warning.code, **warning.data},
            key=f"{key}:warning:{number}",
        )
