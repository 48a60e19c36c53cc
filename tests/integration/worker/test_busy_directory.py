"""A run directory that another process still has is waited for, and uses up no launch."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rft.platform.jobs.service import pause_job
from rft.platform.store.unit_of_work import unit_of_work
from rft.platform.worker import job_run
from rft.platform.worker.event_log import take_over_log
from rft.platform.worker.run_job import run_job
from rft.run_directory.files import make_folder
from rft.run_directory.lock import locked
from tests.integration.worker.workbench import Workbench
from tests.shared.waiting import until

ENOUGH = 5
"""Tries: more than a job has launches."""


@pytest.fixture
def tries(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories that were asked for, each without any patience."""
    bench.changed_settings = {"max_launches_without_progress": 2}
    asked: list[Path] = []

    def take_over_at_once(folder: Path) -> int:
        asked.append(folder)
        return take_over_log(folder, patience_s=0.0)

    monkeypatch.setattr(job_run, "take_over_log", take_over_at_once)
    monkeypatch.setattr(job_run, "_BUSY_S", 0.0)
    return asked


@asynccontextmanager
async def kept_waiting(bench: Workbench, tries: list[Path]) -> AsyncGenerator[tuple[str, "asyncio.Task[str]"]]:
    """A job that has tried often while somebody else has its directory, for as long as the context lasts."""
    job_id = await bench.queued_job()
    make_folder(bench.run_dir(job_id))
    with locked(bench.run_dir(job_id), patience_s=0.0):
        task = asyncio.create_task(run_job(job_id, bench.context()))
        await until(lambda: task.done() or len(tries) >= ENOUGH, "the job to try often")
        yield job_id, task


async def test_a_job_goes_on_once_its_directory_is_free(bench: Workbench, tries: list[Path]) -> None:
    async with kept_waiting(bench, tries) as (job_id, task):
        pass
    assert await task == "over"
    job = await bench.job(job_id)
    assert (job["status"], len(bench.launches)) == ("succeeded", 1)
    warnings = await bench.all("select message from job_events where job_id = %s and level = 'warn'", job_id)
    [told] = [row["message"] for row in warnings]
    assert told.startswith("The job waits for another process that still works in its run directory")


async def test_a_job_that_waits_for_its_directory_can_be_paused(bench: Workbench, tries: list[Path]) -> None:
    async with kept_waiting(bench, tries) as (job_id, task):
        async with unit_of_work(bench.database, bench.enqueued.append) as uow:
            await pause_job(uow, job_id)
        assert await task == "paused"
    job = await bench.job(job_id)
    assert (job["status"], job["launches_without_progress"], bench.launches) == ("paused", 0, [])
