"""What the graders of a rollout were shown can be read again: the row and the sample, as long as the file is there."""

import httpx

from rft.core.events import RunStarted
from tests.integration.worker.ingesting import leased
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import logged, rollout_done


async def rolled_out(bench: Workbench) -> tuple[str, str]:
    """A running job and the id of a rollout of its second row."""
    ingest = await leased(bench)
    job_id = ingest.lease.id
    done = rollout_done(job_id, 1, index=2)
    async with bench.database.transaction() as connection:
        await ingest.batch(connection, logged([RunStarted(resumed_from_step=None, total_steps=3, pid=1), done]))
    return job_id, done.trace_id


async def test_the_row_and_the_sample_of_a_rollout(bench: Workbench, http: httpx.AsyncClient) -> None:
    job_id, trace_id = await rolled_out(bench)
    shown = (await http.get(f"/{job_id}/rollouts/{trace_id}/grading")).json()
    assert (shown["object"], shown["trace_id"], shown["missing"]) == (
        "fine_tuning.job.rollout.grading",
        trace_id,
        None,
    )
    assert shown["item"]["n"] == 1
    assert shown["item"]["messages"][0]["role"] == "user"
    assert shown["sample"]["output_text"].startswith("NUL ")
    assert shown["sample"]["trace"]["messages"][0]["content"] == "How much?"


async def test_without_the_file_it_is_said_why_there_is_nothing(bench: Workbench, http: httpx.AsyncClient) -> None:
    job_id, trace_id = await rolled_out(bench)
    await bench.do("delete from files")
    shown = (await http.get(f"/{job_id}/rollouts/{trace_id}/grading")).json()
    assert (shown["item"], shown["sample"]) == (None, None)
    assert shown["missing"] == "The job's training file was deleted."


async def test_of_a_rollout_that_ended_and_counts_no_more(bench: Workbench, http: httpx.AsyncClient) -> None:
    ingest = await leased(bench)
    done = rollout_done(ingest.lease.id, 1, index=2)
    begun, again = [RunStarted(resumed_from_step=step, total_steps=3, pid=1) for step in (None, 0)]
    async with bench.database.transaction() as connection:
        await ingest.batch(connection, logged([begun, done, again]))
    shown = (await http.get(f"/{ingest.lease.id}/rollouts/{done.trace_id}/grading")).json()
    assert (shown["item"]["n"], shown["missing"]) == (1, None)


async def test_of_no_rollout_there_is_none(bench: Workbench, http: httpx.AsyncClient) -> None:
    job_id, trace_id = await rolled_out(bench)
    for path in (f"/{job_id}/rollouts/trace_no/grading", f"/ftjob-no/rollouts/{trace_id}/grading"):
        reply = await http.get(path)
        assert reply.status_code == 404
        assert reply.json()["error"]["code"] == "not_found"
