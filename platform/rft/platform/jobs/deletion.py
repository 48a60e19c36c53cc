"""Deleting a job: its rows, its rollouts, its models, and its run directory."""

import asyncio
import shutil
from pathlib import Path

from rft.core.job import TERMINAL
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import BadRequest, Unavailable
from rft.platform.files.repository import FileRepository
from rft.platform.files.service import delete_file
from rft.platform.jobs.model_names import fine_tuned_model_name
from rft.platform.jobs.repository import JobRepository
from rft.platform.jobs.service import found_job
from rft.platform.lifecycle.deletion_repository import DeletionRepository
from rft.platform.lifecycle.events import notify
from rft.platform.store.unit_of_work import unit_of_work
from rft.run_directory.files import has_open_rollouts
from rft.run_directory.lock import RunDirectoryBusy, locked


async def delete_job(services: Services, job_id: str) -> None:
    """Delete a job that is over with all that is of it, but for the files that its order named.

    Raises NotFound, BadRequest, Unavailable.
    """
    folder = services.settings.runs_dir / job_id
    async with unit_of_work(services.database, services.enqueuer) as uow:
        job = found_job(await JobRepository(uow.connection).lock(job_id), job_id)
        if job.status not in TERMINAL:
            raise _refusal(job_id, f"is {job.status}; cancel it first, or wait for its end")
        rows = DeletionRepository(uow.connection)
        if await rows.has_unfinished_regrade(job_id):
            raise _refusal(job_id, "is being regraded; wait for the end of that")
        model = fine_tuned_model_name(job, services.settings)
        if (run := await rows.eval_run_of(model, or_checkpoints=True)) is not None:
            why = f"made the model that the eval run {run} samples from; cancel that, or wait for its end"
            raise _refusal(job_id, why)
        deleted = await rows.delete(job_id)
        if deleted is None:
            raise _still_stopped(job_id)
        files = FileRepository(uow.connection)
        for file_id in deleted.result_files:
            if await files.lock(file_id):  # Others may have deleted it.
                await delete_file(uow, services.file_store, file_id)
        await rows.delete_permissions(model)
        await notify(uow.connection, job_id)
        # Before the commit: while anything of it is left, the job is there to be deleted again.
        await rows.wait_for_files()
        try:
            is_deleted = await asyncio.to_thread(_delete_folder, folder, deleted.is_just_over)
        except OSError as error:
            message = f"The files of the job's run could not be deleted: {error.strerror or type(error).__name__}."
            raise Unavailable(message, code="storage_unavailable") from error
        if not is_deleted:
            raise _still_stopped(job_id)


def _delete_folder(folder: Path, is_just_over: bool) -> bool:
    """False while a trainer, or who tells the ends of its rollouts, works there or is about to. Raises OSError."""
    if not folder.is_dir():
        return True
    try:
        with locked(folder, patience_s=0.0):
            if is_just_over and has_open_rollouts(folder):
                return False
            shutil.rmtree(folder)
    except RunDirectoryBusy:
        return False
    return True


def _still_stopped(job_id: str) -> BadRequest:
    return _refusal(job_id, "is still being stopped by its worker; try again in a minute")


def _refusal(job_id: str, why: str) -> BadRequest:
    return BadRequest(f"Job {job_id} {why}.", code="invalid_state")
