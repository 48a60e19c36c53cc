"""Jobs that run, and are cancelled."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from rft.platform.jobs.service import cancel_job
from rft.platform.store.unit_of_work import unit_of_work
from rft.platform.worker.run_job import run_job
from tests.integration.worker.scripted_trainer import Fault, Plan
from tests.integration.worker.workbench import Workbench
from tests.shared.waiting import until


@asynccontextmanager
async def hanging_run(bench: Workbench, job_id: str) -> AsyncGenerator["asyncio.Task[str]"]:
    """A runner whose trainer hangs in the middle of step 2."""
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),)))
    task = asyncio.create_task(run_job(job_id, bench.context()))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    yield task


async def cancel(bench: Workbench, job_id: str) -> dict[str, Any]:
    """The job's row as the cancellation left it."""
    async with unit_of_work(bench.database) as uow:
        await cancel_job(uow, job_id)
    return await bench.job(job_id)
