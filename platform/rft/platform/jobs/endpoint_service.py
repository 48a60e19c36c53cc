"""Changing where a job's tools and grader live, and what is sent to them, while nobody calls them."""

import secrets
from collections.abc import Iterator

from psycopg.types.json import Jsonb

from rft.core.base import JsonObject
from rft.core.errors import IllegalTransition
from rft.core.job import TERMINAL, JobStatus
from rft.core.spec import RunSecrets
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import ApiError, BadRequest
from rft.platform.jobs.creation import GRADER, add_warnings, endpoint_targets
from rft.platform.jobs.endpoint_changes import ChangedMethod, changed, whole_method
from rft.platform.jobs.endpoint_schemas import EndpointsChange
from rft.platform.jobs.order_warnings import endpoint_warnings
from rft.platform.jobs.repository import JobRepository, JobRow
from rft.platform.jobs.service import find_job, found_job
from rft.platform.lifecycle.events import add_event, notify
from rft.platform.lifecycle.repository import LifecycleRepository
from rft.platform.orders.probing import Target, find_doubtful
from rft.platform.orders.redaction import redacted_method, secrets_of
from rft.platform.orders.schemas import Method
from rft.platform.registry.repository import RegistrationRepository
from rft.platform.store.secret_box import SecretBox, SecretsUnreadable
from rft.platform.store.unit_of_work import UnitOfWork, unit_of_work

_TOOLS = "method.reinforcement.tools"


async def change_endpoints(services: Services, job_id: str, change: EndpointsChange) -> JobRow:
    """Put the change into a job that is held, paused or queued. Raises NotFound, BadRequest.

    A held job's worker notices with its next heartbeat, and starts the trainer anew.
    """
    async with unit_of_work(services.database, services.enqueuer) as uow:
        job = await find_job(uow, job_id)
    _refuse_unchangeable(job)
    # No transaction is held open while somebody else's server takes its time.
    targets = list(_targets(_changed(job, change, services.secret_box), change))
    warnings = endpoint_warnings(await find_doubtful(targets, services.settings))
    async with unit_of_work(services.database, services.enqueuer) as uow:
        job = found_job(await JobRepository(uow.connection).lock(job_id), job_id)
        _refuse_unchangeable(job)
        made = _changed(job, change, services.secret_box)
        await LifecycleRepository(uow.connection).change_endpoints(
            job_id, Jsonb(redacted_method(made.method)), services.secret_box.seal(secrets_of(made.method))
        )
        await _forget_registrations(uow, job_id, made)
        key = f"endpoints:{secrets.token_hex(8)}"
        await _tell(uow, job, made, key)
        await add_warnings(uow.connection, job_id, warnings, key=key)
        await notify(uow.connection, job_id)
        return await find_job(uow, job_id)


def _refuse_unchangeable(job: JobRow) -> None:
    try:
        _check_state(job)
    except IllegalTransition as error:
        raise BadRequest(f"Job {job.id} {error}.", code="invalid_state") from error


def _check_state(job: JobRow) -> None:
    """Raises IllegalTransition while somebody may be calling the endpoints, and after the end."""
    if job.status in TERMINAL:
        raise IllegalTransition(f"is {job.status}, and its endpoints are called no more")
    if job.is_cancel_requested:
        raise IllegalTransition("is being cancelled, and its endpoints are called no more")
    if job.status is JobStatus.VALIDATING_FILES:
        raise IllegalTransition("is still having its files checked; its endpoints can be changed once it is queued")
    if job.status is JobStatus.RUNNING:
        raise IllegalTransition("is running; its endpoints can be changed while it is held or paused")


def _changed(job: JobRow, change: EndpointsChange, box: SecretBox) -> ChangedMethod:
    try:
        own = RunSecrets() if job.secrets is None else box.unseal(job.secrets)
    except SecretsUnreadable as error:
        message = f"The secrets of {job.id} cannot be read ({error}), so its endpoints cannot be changed."
        raise ApiError(message, code="secrets_unreadable") from error
    made = changed(whole_method(job.method, own), change)
    if not made.fields:
        raise BadRequest("Name a tool or the grader, and what is new of it.", code="nothing_to_change")
    return made


def _targets(made: ChangedMethod, change: EndpointsChange) -> Iterator[Target]:
    """What the change is about, under the change's own names."""
    tools = [tool.name for tool in made.method.reinforcement.tools or []]
    named = set(change.tools or ()) if change.tools else set[str]()
    parts = set(change.grader.graders or ()) if change.grader is not None else set[str]()
    for target in endpoint_targets(made.method):
        if target.param.startswith(_TOOLS):
            index, _, field = target.param.removeprefix(f"{_TOOLS}[").partition("].")
            param = f"tools.{tools[int(index)]}.{'server_url' if field == 'id' else field}"
            is_meant = tools[int(index)] in named
        else:
            param = "grader" + target.param.removeprefix(GRADER)
            part = param.removeprefix("grader.graders.").partition(".")[0]
            is_meant = change.grader is not None and (param == "grader.url" or part in parts)
        if is_meant:
            yield Target(param=param, stage=target.stage, name=target.name, url=target.url, headers=target.headers)


async def _forget_registrations(uow: UnitOfWork, job_id: str, made: ChangedMethod) -> None:
    """What this job sees from now on says nothing about a registered server that it no longer calls."""
    for registration_id in _left_registrations(made.method, made):
        await RegistrationRepository(uow.connection).forget_use(registration_id, job_id)


def _left_registrations(method: Method, made: ChangedMethod) -> Iterator[str]:
    for tool in method.reinforcement.tools or []:
        if tool.id is not None and tool.name in made.moved_tools:
            yield tool.id
    grader_id = (method.reinforcement.grader.model_extra or {}).get("id")
    if made.has_moved_grader and isinstance(grader_id, str):
        yield grader_id


async def _tell(uow: UnitOfWork, job: JobRow, made: ChangedMethod, key: str) -> None:
    now = "; ".join(field.description for field in made.fields)
    then = (
        "The training process starts again with that; the step under way is done again"
        if job.hold is not None
        else "The job goes on with that"
    )
    data: JsonObject = {"code": "endpoints_changed", "fields": [field.path for field in made.fields]}
    await add_event(uow.connection, job.id, f"Endpoints were changed: {now}. {then}", data=data, key=key)
