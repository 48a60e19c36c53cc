"""A job's creation: everything that can be known to be wrong is said before a row exists."""

import secrets

from rft.core.failure import Stage
from rft.core.ids import public_id
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import BadRequest
from rft.platform.files.repository import FileRepository
from rft.platform.jobs.masking import masked_method, masked_request, secrets_of
from rft.platform.jobs.repository import JobRepository, JobRow, NewJob
from rft.platform.jobs.schemas import JobCreate, Method
from rft.platform.models.service import resolve_base
from rft.platform.store.bell import VALIDATE_JOB
from rft.platform.store.unit_of_work import UnitOfWork, unit_of_work
from rft.platform.tools.probing import Target, refuse_unreachable
from rft.platform.worker.job_events import add_event
from rft.platform.worker.lease import notify

_GENERATED_SEEDS = 2**31


async def create_job(services: Services, order: JobCreate) -> JobRow:
    """Check the order, knock at its endpoints, write the row, ring the bell. Raises BadRequest."""
    base_model_path = resolve_base(order.model, services.settings)
    async with unit_of_work(services.database, services.ringer) as uow:
        await _check_files(uow, order)
    # No transaction is held open while somebody else's server takes its time.
    await refuse_unreachable(_targets(order.method), services.settings)
    job = _new_job(services, order, base_model_path)
    async with unit_of_work(services.database, services.ringer) as uow:
        await _check_files(uow, order)
        row = await JobRepository(uow.connection).insert(job)
        await _first_events(uow, order, job.id)
        uow.ring(VALIDATE_JOB, job.id)
    return row


async def _check_files(uow: UnitOfWork, order: JobCreate) -> None:
    files = FileRepository(uow.connection)
    for param, file_id in (("training_file", order.training_file), ("validation_file", order.validation_file)):
        if file_id is None:
            continue
        row = await files.get(file_id)
        if row is None:
            raise BadRequest(f"The file '{file_id}' does not exist.", param=param, code="file_not_found")
        if row.purpose != "fine-tune":
            raise BadRequest(
                f"The file '{file_id}' was uploaded for '{row.purpose}'; its purpose must be 'fine-tune'.",
                param=param,
                code="invalid_file_purpose",
            )


def _targets(method: Method) -> list[Target]:
    order = method.reinforcement
    tools = [
        Target(
            param=f"method.reinforcement.tools[{index}].server_url",
            stage=Stage.TOOL,
            name=tool.name,
            url=tool.server_url,
            headers=tool.headers or {},
        )
        for index, tool in enumerate(order.tools or [])
    ]
    grader = Target(
        param="method.reinforcement.grader.url",
        stage=Stage.GRADER,
        name=order.grader.name or "grader",
        url=order.grader.url,
        headers=order.grader.headers or {},
    )
    return [*tools, grader]


def _new_job(services: Services, order: JobCreate, base_model_path: str) -> NewJob:
    job_id = public_id("ftjob-", secrets.token_bytes(24))
    method = _with_grader_name(order.method, f"grader-{job_id[-4:]}")
    return NewJob(
        id=job_id,
        model=order.model,
        base_model_path=base_model_path,
        training_file=order.training_file,
        validation_file=order.validation_file,
        suffix=order.suffix,
        seed=secrets.randbelow(_GENERATED_SEEDS) if order.seed is None else order.seed,
        metadata=order.metadata,
        method=masked_method(method),
        request=masked_request(order),
        secrets=services.secret_box.seal(secrets_of(method)),
    )


def _with_grader_name(method: Method, name: str) -> Method:
    reinforcement = method.reinforcement
    if reinforcement.grader.name is not None:
        return method
    grader = reinforcement.grader.model_copy(update={"name": name})
    return method.model_copy(update={"reinforcement": reinforcement.model_copy(update={"grader": grader})})


async def _first_events(uow: UnitOfWork, order: JobCreate, job_id: str) -> None:
    validation = f" and validation file: {order.validation_file}" if order.validation_file else ""
    await add_event(uow.connection, job_id, f"Created fine-tuning job: {job_id}", key="created")
    if order.method.reinforcement.response_format is not None:
        await add_event(
            uow.connection,
            job_id,
            "response_format is kept with the job but does not constrain the policy's answers in this release",
            level="warn",
            key="response-format",
        )
    await add_event(
        uow.connection, job_id, f"Validating training file: {order.training_file}{validation}", key="validating"
    )
    await notify(uow.connection, job_id)
