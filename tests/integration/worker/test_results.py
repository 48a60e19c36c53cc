"""What stays of a run: the result file and its usage, there in the moment the job is over, and once."""

import csv
import io
import time
from typing import Any

import pytest

from rft.core.events import RunEnded, TrainEvent
from rft.core.job import JobStatus
from rft.platform.jobs.objects import to_job_object
from rft.platform.jobs.repository import JobRepository, JobRow
from rft.platform.jobs.transitions import cancel
from rft.platform.lifecycle.ending import cancel_unleased
from rft.platform.lifecycle.job_lease import release
from rft.platform.lifecycle.lease import lock_row
from rft.platform.lifecycle.results import write_results
from rft.platform.worker.ingest import Ingest
from tests.integration.worker.ingesting import leased
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import START, logged, one_step, whole_run


async def store(bench: Workbench, ingest: Ingest, events: list[TrainEvent]) -> None:
    async with bench.database.transaction() as connection:
        await ingest.batch(connection, logged(events))


async def result(bench: Workbench, job_id: str) -> list[dict[str, str]] | None:
    """The lines of the job's result file; None when there is none."""
    job = await bench.job(job_id)
    files = await bench.all(
        "select f.*, c.content from files f join file_contents c on c.file_id = f.id where f.id = any(%s)",
        job["result_files"],
    )
    assert len(await bench.all("select 1 from file_contents")) == len(files), "no file without its job"
    if not files:
        return None
    assert [(file["purpose"], file["bytes"]) for file in files] == [("fine-tune-results", len(files[0]["content"]))]
    return list(csv.DictReader(io.StringIO(bytes(files[0]["content"]).decode())))


async def found(bench: Workbench, job_id: str) -> JobRow:
    async with bench.database.transaction() as connection:
        job = await JobRepository(connection).get(job_id)
    assert job is not None
    return job


async def test_a_run_that_succeeded_has_its_result_file(bench: Workbench) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    await store(bench, ingest, whole_run(job_id, steps=3))
    rows = await result(bench, job_id)
    assert rows is not None
    assert [row["step"] for row in rows] == ["0", "1", "2", "3"]
    usage = (await found(bench, job_id)).usage_metrics
    assert usage is not None
    assert (usage.steps, usage.training_seconds) == (3, 16.0)


async def test_a_run_that_failed_after_a_step_has_its_result_file(bench: Workbench) -> None:
    ingest = await leased(bench)
    failed = RunEnded(outcome="failed", best_step=None, error_code="x", error_message="y")
    await store(bench, ingest, [*whole_run(ingest.lease.id, steps=2)[:-2], failed])
    rows = await result(bench, ingest.lease.id)
    assert rows is not None
    assert len(rows) == 3


async def test_a_run_that_failed_in_its_first_step_has_none(bench: Workbench) -> None:
    ingest = await leased(bench)
    failed = RunEnded(outcome="failed", best_step=None, error_code="x", error_message="y")
    baseline = list(one_step(ingest.lease.id, 0, 3, rollouts=3))
    await store(bench, ingest, [whole_run(ingest.lease.id, steps=3)[0], *baseline, failed])
    assert await result(bench, ingest.lease.id) is None


@pytest.mark.parametrize("how", ["by its worker", "unheld", "paused"])
async def test_a_cancelled_run_keeps_what_it_measured(bench: Workbench, how: str) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    await store(bench, ingest, whole_run(job_id, steps=2)[:-1])
    async with bench.database.transaction() as connection:
        match how:
            case "by its worker":
                await lock_row(connection, ingest.lease)
                await release(connection, ingest.lease, JobStatus.CANCELLED)
            case "unheld":
                await connection.execute("update jobs set is_cancel_requested = true, lease_until = null")
                assert await cancel_unleased(connection, job_id)
            case _:
                await connection.execute("update jobs set status = 'paused', lease_owner = null, lease_until = null")
                job = await JobRepository(connection).lock(job_id)
                assert job is not None
                await cancel(connection, job)
    rows = await result(bench, job_id)
    assert rows is not None
    assert len(rows) == 3


async def test_a_job_that_never_trained_has_neither(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    async with bench.database.transaction() as connection:
        job = await JobRepository(connection).lock(job_id)
        assert job is not None
        await cancel(connection, job)
    assert await result(bench, job_id) is None
    assert (await found(bench, job_id)).usage_metrics is None


async def test_an_ending_that_is_rolled_back_leaves_no_file_and_a_second_one_no_second(bench: Workbench) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    await store(bench, ingest, whole_run(job_id, steps=2)[:-1])

    class PowerCut(Exception):
        pass

    async def interrupted() -> None:
        async with bench.database.transaction() as connection:
            await release(connection, ingest.lease, JobStatus.SUCCEEDED)
            raise PowerCut

    with pytest.raises(PowerCut):
        await interrupted()
    assert await result(bench, job_id) is None
    async with bench.database.transaction() as connection:
        await release(connection, ingest.lease, JobStatus.SUCCEEDED)
        await write_results(connection, job_id, JobStatus.SUCCEEDED)
    assert await result(bench, job_id) is not None


async def test_a_running_job_knows_when_it_will_be_done(bench: Workbench) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    assert (await found(bench, job_id)).estimated_finish(START) is None
    events: list[Any] = whole_run(job_id, steps=5)
    await store(bench, ingest, events[: 1 + 3 * 5])
    job = await found(bench, job_id)
    assert (job.current_step, job.recent_step_s) == (2, 4.0)
    assert job.last_step_at is not None
    last_s = job.last_step_at.timestamp()
    assert job.estimated_finish(last_s + 1) == last_s + 3 * 4.0
    assert job.estimated_finish(last_s + 9) == last_s + 5 * 4.0, "the step that runs takes longer than usual"
    now_s = time.time()
    shown = to_job_object(job, bench.settings)
    assert shown.estimated_finish is not None
    assert shown.estimated_finish >= now_s, "that step ended long ago"
    await bench.do("update jobs set status = 'paused', lease_owner = null where id = %s", job_id)
    assert (await found(bench, job_id)).estimated_finish(START) is None
