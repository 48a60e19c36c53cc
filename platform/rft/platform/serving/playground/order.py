"""From a request to what is run: the model, the row and the job's tools with their secrets."""

import secrets as random_source
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow, parse_row
from rft.core.dataset_fields import RowError, read_tools
from rft.core.messages import Role, ToolSchema
from rft.core.secret_urls import put_secret_urls, take_secret_urls
from rft.core.spec import RunSecrets, RunSpec
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import ApiError, BadRequest
from rft.platform.checkpoints.repository import CheckpointRepository, CheckpointRow
from rft.platform.files.repository import FileRepository
from rft.platform.jobs.model_names import checkpoint_model_name, fine_tuned_model_name
from rft.platform.jobs.repository import JobRow
from rft.platform.jobs.run_spec import described_tools, resolved, to_run_spec
from rft.platform.jobs.service import find_job
from rft.platform.models.model_card import validation_reward
from rft.platform.models.service import find_fine_tuned
from rft.platform.orders.schemas import Method
from rft.platform.serving.order import EFFORTS, read_chat
from rft.platform.serving.playground.schemas import PlaygroundBody
from rft.platform.serving.refused import refused
from rft.platform.serving.served_model import ServedModel, find_served
from rft.platform.settings import Settings
from rft.platform.signing.run_secrets import whole_run_secrets
from rft.platform.store.file_store import BytesMissing, read_lines
from rft.platform.store.secret_box import SecretsUnreadable
from rft.platform.store.unit_of_work import UnitOfWork, unit_of_work
from rft.rollouts.chat_policy import ChatSampling, jobs_effort


@dataclass(frozen=True, slots=True)
class PlaygroundOrder:
    """All that a conversation needs."""

    name: str
    """Of the model."""
    model: ServedModel
    row: DatasetRow
    spec: RunSpec
    secrets: RunSecrets
    sampling: ChatSampling


async def to_playground_order(services: Services, job_id: str, body: PlaygroundBody) -> PlaygroundOrder:
    """Raises NotFound, and BadRequest, which names the field."""
    settings = services.settings
    async with unit_of_work(services.database, None) as uow:
        job = await find_job(uow, job_id)
        name = body.model or await _best_model(uow, settings, job)
        await _refuse_another_jobs(uow, settings, job, name)
        model = await find_served(uow, settings, name)
        try:
            sealed = await whole_run_secrets(uow.connection, job.secrets, services.secret_box, settings)
        except SecretsUnreadable as error:
            message = f"The header values of this job's tools cannot be read: {error}"
            raise ApiError(message, code="secrets_unreadable") from error
        file = await FileRepository(uow.connection).get_kept(job.training_file)
    tools = _ordered_tools(body) if body.tools is not None else described_tools(job, settings)
    if body.tools is None and not tools and file is not None:
        tools = await _tools_of_file(services, file.storage_key)
    spec, secrets = _specification(job, settings, sealed)
    return PlaygroundOrder(name, model, _row(body, tools), spec, secrets, _sampling(body, spec, model))


async def _best_model(uow: UnitOfWork, settings: Settings, job: JobRow) -> str:
    """The job's model, or while there is none its best checkpoint by validation reward."""
    name = fine_tuned_model_name(job, settings)
    if job.fine_tuned_model is not None and job.model_deleted_at is None:
        return name
    kept = [row for row in await CheckpointRepository(uow.connection).of_job(job.id) if row.is_kept]
    if not kept:
        raise refused("model", f"the job has no checkpoint; its base model is {job.model!r}", code="model_not_ready")
    return checkpoint_model_name(name, max(kept, key=_merit).step)


def _merit(checkpoint: CheckpointRow) -> tuple[float, int]:
    reward = validation_reward(checkpoint)
    return (float("-inf") if reward is None else reward, checkpoint.step)


async def _refuse_another_jobs(uow: UnitOfWork, settings: Settings, job: JobRow, name: str) -> None:
    if name == job.model:
        return
    owner, _ = await find_fine_tuned(uow, settings, name)
    if owner.id != job.id:
        raise refused("model", f"{name!r} is a model of job {owner.id}; its tools are others", code="invalid_model")


def _specification(job: JobRow, settings: Settings, sealed: RunSecrets) -> tuple[RunSpec, RunSecrets]:
    """As its rollouts have it, under an id of its own: it is no launch of the job's."""
    order = Method.model_validate(job.method).reinforcement
    wanted = job.resolved or resolved(order, train_rows=1)
    spec = to_run_spec(job, wanted, settings, job.base_model_path, job.chat)
    tools, grader, secrets = take_secret_urls(spec.tools, spec.grader, sealed)
    called, grader = put_secret_urls(tools, grader, secrets)
    # Of its own beside the job's other conversations, too: gateway services take whoever comes twice for a successor.
    name = f"playground-{job.id}-{random_source.token_hex(4)}"
    return spec.model_copy(update={"tools": called, "grader": grader, "job_id": name}), secrets


def _ordered_tools(body: PlaygroundBody) -> tuple[ToolSchema, ...]:
    try:
        return read_tools({"tools": body.tools})
    except RowError as error:
        raise refused(error.path, error.reason) from error


async def _tools_of_file(services: Services, storage_key: str) -> tuple[ToolSchema, ...]:
    """Those that the first row of the training file describes; none where it is gone."""
    try:
        async for line in read_lines(storage_key, services.file_store):
            row = parse_row(line, line_number=1, index=0) if line.strip() else None
            if row is not None:
                return row.tools if isinstance(row, DatasetRow) else ()
    except BytesMissing:
        pass
    return ()


def _row(body: PlaygroundBody, tools: tuple[ToolSchema, ...]) -> DatasetRow:
    messages = read_chat(body.messages)
    if messages[-1].role not in (Role.USER, Role.DEVELOPER):
        path = f"messages[{len(messages) - 1}].role"
        raise BadRequest(f"Invalid '{path}': the last message must be from user.", param=path, code="invalid_value")
    item: JsonObject = {**(body.item or {}), "messages": cast("JsonValue", body.messages)}
    return DatasetRow(index=0, messages=messages, tools=tools, item=item)


def _sampling(body: PlaygroundBody, spec: RunSpec, model: ServedModel) -> ChatSampling:
    effort = None if body.reasoning_effort is None else EFFORTS.get(body.reasoning_effort, body.reasoning_effort)
    if effort is None and model.adapter is None:  # Checkpoints bring the effort that they were trained with.
        effort = jobs_effort(spec)
    budgets = spec.budgets
    if effort not in (None, spec.reasoning_effort):  # The job's own limit goes with its effort.
        budgets = budgets.model_copy(update={"max_reasoning_tokens": None})
    return ChatSampling(
        temperature=body.temperature,
        top_p=body.top_p,
        max_tokens=body.max_completion_tokens,
        seed=body.seed,
        reasoning_effort=effort,
        budgets=budgets,
    )
