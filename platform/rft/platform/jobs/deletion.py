"""Deleting a job: its rows, its rollouts, its models, and its run directory."""

import asyncio
import shutil
from functools import partial
from pathlib import Path

from rft.core.job import TERMINAL
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import BadRequest
from rft.platform.files.repository import FileRepository
from rft.platform.files.service import delete_file
from rft.platform.jobs.repository import JobRepository
from rft.platform.jobs.service import found_job
from rft.platform.lifecycle.deletion_repository import DeletionRepository
from rft.platform.lifecycle.events import notify
from rft.platform.store.unit_of_work import unit_of_work
from rft.run_directory.lock import RunDirectoryBusy, locked


async def delete_job(services: Services, job_id: str) -> None:
    """Delete a job that is over with all that is of it, but for the files that its order named.

    Raises NotFound, BadRequest.
    """
    folder = services.settings.runs_dir / job_id
    async with unit_of_work(services.database, services.enqueuer) as uow:
        job = found_job(await JobRepository(uow.connection).lock(job_id), job_id)
        if job.status not in TERMINAL:
            raise _refusal(job_id, f"is {job.status}; cancel it first, or wait for its end")
        rows = DeletionRepository(uow.connection)
        if await rows.has_unfinished_regrade(job_id):
            raise _refusal(job_id, "is being regraded; wait for the end of that")
        if await asyncio.to_thread(_is_busy, folder) or (deleted := await rows.delete(job_id)) is None:
            raise _refusal(job_id, "is still being stopped by its worker; try again in a minute")
        for file_id in deleted.result_files:
            if await FileRepository(uow.connection).get(file_id) is not None:
                await delete_file(uow, services.file_store, file_id)
        await notify(uow.connection, job_id)
        uow.after_commit(partial(_remove_tree, folder))


async def _remove_tree(folder: Path) -> None:
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _is_busy(folder: Path) -> bool:
    """Whether a trainer, or who tells the ends of its rollouts, still works there."""
    if not folder.is_dir():
        return False
    try:
        with locked(folder, patience_s=0.0):
            return False
    except RunDirectoryBusy:
        return True


def _refusal(job_id: str, why: str) -> BadRequest:
    return BadRequest(f"Job {job_id} {why}.", code="invalid_state")
