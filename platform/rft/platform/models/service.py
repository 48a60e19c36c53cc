"""Which models there are: base models by configuration, fine-tuned ones by the jobs that made them."""

import asyncio
import hashlib
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rft.core.job import TERMINAL, JobStatus
from rft.platform.api.errors import BadRequest, NotFound
from rft.platform.checkpoints.repository import CheckpointRepository, CheckpointRow
from rft.platform.files.repository import FileRepository, FileRow
from rft.platform.jobs.model_names import checkpoint_model_name, fine_tuned_model_name, parse
from rft.platform.jobs.repository import JobRepository, JobRow
from rft.platform.lifecycle.deletion_repository import DeletionRepository
from rft.platform.lifecycle.repository import LifecycleRepository
from rft.platform.models.adapter_archive import archive, open_adapter
from rft.platform.models.model_card import model_card, validation_interval, validation_reward
from rft.platform.models.schemas import ModelObject
from rft.platform.orders.base_models import base_models
from rft.platform.settings import Settings
from rft.platform.store.file_store import BytesMissing, FileStore
from rft.platform.store.unit_of_work import UnitOfWork


async def list_models(uow: UnitOfWork, settings: Settings) -> list[ModelObject]:
    """Base models by name, then fine-tuned ones and their checkpoints, newest first."""
    rows, kept = CheckpointRepository(uow.connection), defaultdict[str, list[CheckpointRow]](list)
    for checkpoint in await rows.kept():
        kept[checkpoint.job_id].append(checkpoint)
    best = {checkpoint.job_id: checkpoint for checkpoint in await rows.all_at_best_steps()}
    models = [_base_object(name, path) for name, path in sorted(base_models(settings).items())]
    for job in await JobRepository(uow.connection).with_models():
        if _has_final_model(job):
            models.append(_final_object(job, best.get(job.id), settings))
        models.extend(_checkpoint_object(job, checkpoint, settings) for checkpoint in kept[job.id])
    return models


async def find_model(uow: UnitOfWork, settings: Settings, name: str) -> ModelObject:
    """One model, or NotFound."""
    known = base_models(settings)
    if name in known:
        return _base_object(name, known[name])
    job, checkpoint = await find_fine_tuned(uow, settings, name)
    return await _fine_tuned_object(uow, settings, job, checkpoint)


async def _fine_tuned_object(
    uow: UnitOfWork, settings: Settings, job: JobRow, checkpoint: CheckpointRow | None
) -> ModelObject:
    if checkpoint is not None:
        return _checkpoint_object(job, checkpoint, settings)
    steps = await CheckpointRepository(uow.connection).of_job(job.id)
    return _final_object(job, next((row for row in steps if row.step == (job.best_step or 0)), None), settings)


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """All that the database says of a model whose adapter is handed out."""

    model: ModelObject
    job: JobRow
    steps: Sequence[CheckpointRow]
    files: Mapping[str, FileRow | None]
    """The job's files, by their ids; None for one that was deleted or has expired."""


async def find_exported(uow: UnitOfWork, settings: Settings, name: str) -> ExportedModel:
    """A fine-tuned model to be handed out. Raises NotFound, BadRequest for a base model."""
    if name in base_models(settings):
        raise BadRequest(f"'{name}' is a base model: it has no adapter.", param="model", code="invalid_model")
    job, checkpoint = await find_fine_tuned(uow, settings, name)
    files = FileRepository(uow.connection)
    return ExportedModel(
        model=await _fine_tuned_object(uow, settings, job, checkpoint),
        job=job,
        steps=await CheckpointRepository(uow.connection).of_job(job.id),
        files={file_id: await files.get(file_id) for _, file_id in job.files},
    )


async def open_archive(found: ExportedModel, store: FileStore) -> Iterator[bytes]:
    """Its adapter as a zip in pieces. Raises NotFound.

    Reads the job's files whole, which takes seconds: the caller holds no connection to the database meanwhile.
    """
    sha256 = {file_id: await _sha256(file, store) for file_id, file in found.files.items()}
    card = model_card(found.model, found.job, found.steps, sha256)
    stack = ExitStack()
    try:
        files = await asyncio.to_thread(open_adapter, Path(found.model.path or ""), stack)
    except OSError as error:
        stack.close()
        raise NotFound(
            f"The checkpoint of the model '{found.model.id}' is no longer kept.", param="model", code="model_not_found"
        ) from error
    return archive(files, card, stack)


async def _sha256(file: FileRow | None, store: FileStore) -> str | None:
    """Of a file as it was uploaded; None where its bytes are gone."""
    if file is None:
        return None
    digest = hashlib.sha256()
    try:
        async for chunk in await store.open(file.storage_key):
            await asyncio.to_thread(digest.update, chunk)
    except BytesMissing:
        return None
    return digest.hexdigest()


async def delete_model(uow: UnitOfWork, settings: Settings, name: str) -> None:
    """Delete a fine-tuned model; its adapter goes once neither the job nor a checkpoint offers it any more."""
    if name in base_models(settings):
        raise BadRequest(
            f"'{name}' is a base model; take it out of the settings instead.", param="model", code="invalid_model"
        )
    job, checkpoint = await find_fine_tuned(uow, settings, name)
    if job.status not in TERMINAL:
        raise BadRequest(
            f"Job {job.id} is {job.status} and still needs its checkpoints; cancel it first.",
            param="model",
            code="model_in_use",
        )
    if (run := await DeletionRepository(uow.connection).eval_run_of(name)) is not None:
        message = f"The eval run {run} samples from '{name}'; cancel that, or wait for its end."
        raise BadRequest(message, param="model", code="model_in_use")
    checkpoints = CheckpointRepository(uow.connection)
    if checkpoint is None:
        await LifecycleRepository(uow.connection).mark_model_deleted(job.id)
        is_kept_as_checkpoint = await checkpoints.at_step(job.id, job.best_step or 0) is not None
        unused = None if is_kept_as_checkpoint else await checkpoints.path_at_step(job.id, job.best_step or 0)
    else:
        await checkpoints.drop(checkpoint.id)
        is_final_model = _has_final_model(job) and job.best_step == checkpoint.step
        unused = None if is_final_model else checkpoint.path
    if unused is not None:
        directory = settings.runs_dir / job.id / unused
        uow.after_commit(lambda: _remove_tree(directory))


async def _remove_tree(directory: Path) -> None:
    await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


async def find_fine_tuned(uow: UnitOfWork, settings: Settings, name: str) -> tuple[JobRow, CheckpointRow | None]:
    """The job of a fine-tuned model, and the checkpoint where the name is one's. Raises NotFound."""
    parsed = parse(name)
    jobs = [] if parsed is None else await JobRepository(uow.connection).by_tail(parsed.job_tail)
    for job in jobs:
        if parsed is None or fine_tuned_model_name(job, settings) != parsed.final:
            continue
        if parsed.step is None and _has_final_model(job):
            return job, None
        if parsed.step is not None:
            checkpoint = await CheckpointRepository(uow.connection).at_step(job.id, parsed.step)
            if checkpoint is not None:
                return job, checkpoint
            if await CheckpointRepository(uow.connection).path_at_step(job.id, parsed.step) is not None:
                raise NotFound(
                    f"The checkpoint of the model '{name}' is no longer kept.", param="model", code="model_not_found"
                )
    raise NotFound(f"The model '{name}' does not exist.", param="model", code="model_not_found")


async def final_step(uow: UnitOfWork, job: JobRow) -> str | None:
    """Where the adapter of a job's final model lies, relative to its run directory; None where it never had one."""
    return await CheckpointRepository(uow.connection).path_at_step(job.id, job.best_step or 0)


def _has_final_model(job: JobRow) -> bool:
    return job.status is JobStatus.SUCCEEDED and job.fine_tuned_model is not None and job.model_deleted_at is None


def _base_object(name: str, path: str) -> ModelObject:
    directory = Path(path).expanduser()
    created = int(directory.stat().st_mtime) if directory.is_dir() else 0
    return ModelObject(id=name, created=created, owned_by="system", path=path)


def _final_object(job: JobRow, checkpoint: CheckpointRow | None, settings: Settings) -> ModelObject:
    """`checkpoint`: of its best step, kept or not."""
    name, created = fine_tuned_model_name(job, settings), job.finished_at or job.created_at
    return _adapter_object(name, created, job, checkpoint, settings)


def _checkpoint_object(job: JobRow, checkpoint: CheckpointRow, settings: Settings) -> ModelObject:
    name = checkpoint_model_name(fine_tuned_model_name(job, settings), checkpoint.step)
    return _adapter_object(name, checkpoint.created_at, job, checkpoint, settings)


def _adapter_object(
    name: str, created: datetime, job: JobRow, checkpoint: CheckpointRow | None, settings: Settings
) -> ModelObject:
    low, high = validation_interval(checkpoint)
    return ModelObject(
        id=name,
        created=int(created.timestamp()),
        owned_by=settings.organization,
        fine_tuning_job_id=job.id,
        trained_from=job.model,
        step_number=None if checkpoint is None else checkpoint.step,
        valid_reward=validation_reward(checkpoint),
        valid_reward_low=low,
        valid_reward_high=high,
        path=None if checkpoint is None else str(settings.runs_dir / job.id / checkpoint.path),
    )
