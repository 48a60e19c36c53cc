"""Files whose time runs out while a job needs them stay until the job is over."""

from rft.platform.files.sweeping import sweep_expired
from rft.platform.store.file_store import LocalFileStore
from rft.platform.worker.run_job import run_job
from rft.platform.worker.validate_job import validate_job
from tests.integration.worker.workbench import ROW, Workbench, jsonl


async def expire(bench: Workbench) -> int:
    """As if all files had expired: how many the sweep removes."""
    await bench.do("update files set expires_at = now() - interval '1 hour'")
    return await sweep_expired(bench.database, LocalFileStore(bench.settings.files_dir))


async def test_a_job_that_waits_longer_than_its_files_live_still_runs(bench: Workbench) -> None:
    job_id = await bench.new_job(valid=jsonl({**ROW, "n": -1}))
    assert await expire(bench) == 0, "before the files are checked"
    assert await validate_job(job_id, bench.context()) == "queued"
    assert await expire(bench) == 0, "in the queue"
    assert await run_job(job_id, bench.context()) == "over"
    job = await bench.job(job_id)
    assert (job["status"], job["error"]) == ("succeeded", None)
    assert await expire(bench) == 3, "both, and the result file that was made to expire, too"


async def test_files_of_jobs_that_are_over_and_files_of_nobody_are_swept(bench: Workbench) -> None:
    await bench.upload(jsonl(ROW))
    kept, over = await bench.new_job(), await bench.new_job()
    await bench.do("update jobs set status = 'cancelled' where id = %s", over)
    assert await expire(bench) == 2
    files = await bench.all("select id from files")
    assert [file["id"] for file in files] == [(await bench.job(kept))["training_file"]]
