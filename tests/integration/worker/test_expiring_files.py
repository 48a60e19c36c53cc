"""Files whose time runs out while a job needs them stay until the job is over."""

import httpx

from rft.core.events import RunStarted
from rft.platform.files.sweeping import sweep_expired
from rft.platform.store.file_store import LocalFileStore
from rft.platform.worker.run_job import run_job
from rft.platform.worker.validate_job import validate_job
from tests.integration.worker.ingesting import leased
from tests.integration.worker.workbench import ROW, Workbench, jsonl
from tests.shared.train_events import logged, rollout_done


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


async def test_what_graders_were_shown_is_told_from_an_expired_file_while_the_job_keeps_it(
    bench: Workbench, http: httpx.AsyncClient
) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    done = rollout_done(job_id, 1, index=2)
    async with bench.database.transaction() as connection:
        await ingest.batch(connection, logged([RunStarted(resumed_from_step=None, total_steps=3, pid=1), done]))
    assert await expire(bench) == 0
    url = f"/{job_id}/rollouts/{done.trace_id}/grading"
    shown = (await http.get(url)).json()
    assert (shown["missing"], shown["item"]["n"]) == (None, 1)
    await bench.do("update jobs set status = 'succeeded', lease_owner = null, lease_until = null")
    assert (await http.get(url)).json()["item"] is None, "expired for all, swept or not"
