"""While a job runs, its object says what its trainer is doing; afterwards nothing is left of it."""

import asyncio

from rft.core.progress import Activity, RoundProgress, RunProgress
from rft.core.rollout import Split
from rft.platform.jobs.objects import ProgressObject, to_job_object
from rft.platform.jobs.repository import JobRepository
from rft.platform.worker.run_job import run_job
from rft.run_directory.progress import write_progress
from tests.integration.worker.scripted_trainer import Fault, Plan
from tests.integration.worker.workbench import Workbench
from tests.shared.waiting import until

NOW = RunProgress(
    activity=Activity.ROLLING_OUT,
    since=1_700_000_000.5,
    round=RoundProgress(step=1, split=Split.TRAIN, rollouts=8, ended=3, calling={"search": 5}),
)


async def shown(bench: Workbench, job_id: str) -> ProgressObject | None:
    async with bench.database.transaction() as connection:
        job = await JobRepository(connection).get(job_id)
    assert job is not None
    return to_job_object(job, bench.settings).progress


async def test_a_running_job_shows_what_it_does_and_an_ended_one_does_not(bench: Workbench) -> None:
    bench.plan(Plan(faults=(Fault(launch=1, step=1, how="hang"),)))
    job_id = await bench.queued_job()
    assert await shown(bench, job_id) is None
    work = asyncio.create_task(run_job(job_id, bench.context()))
    await until(lambda: (bench.control / "hanging").exists(), "the trainer to hang")
    loading = await shown(bench, job_id)
    assert loading is not None
    assert (loading.activity, loading.message) == (Activity.LOADING, "loading the model")

    write_progress(bench.settings.runs_dir / job_id, NOW)

    async def has_come() -> bool:
        progress = await shown(bench, job_id)
        return progress is not None and progress.activity is Activity.ROLLING_OUT

    await until(has_come, "its progress to be shown")
    progress = await shown(bench, job_id)
    assert progress is not None
    assert (progress.message, progress.since) == (NOW.message, 1_700_000_000)
    assert progress.round == NOW.round
    (bench.control / "go-on").touch()
    await work
    assert await shown(bench, job_id) is None
