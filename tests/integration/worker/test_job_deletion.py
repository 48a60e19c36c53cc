"""A job that is deleted leaves no row and no byte behind, and only one that is over can be."""

import errno
import re
import shutil
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from openai import AsyncOpenAI, BadRequestError, InternalServerError, NotFoundError
from psycopg import sql

from rft.core.events import RunEnded, RunStarted, TrainEvent
from rft.core.ids import trace_id
from rft.platform.api.key_repository import create_key
from rft.platform.lifecycle.job_lease import take
from rft.platform.lifecycle.lease import Lease
from rft.platform.worker.grader_metrics import GraderLabel
from rft.platform.worker.ingest import Ingest
from rft.run_directory import layout
from rft.run_directory.lock import locked
from rft.run_directory.open_rollouts import OpenRolloutsFile
from tests.integration.worker.workbench import Workbench
from tests.shared.running_api import ReceivedMessages, Served
from tests.shared.train_events import logged, rollout_done, step_done

JOBS = "/fine_tuning/jobs"


@pytest.fixture
async def client(bench: Workbench) -> AsyncIterator[AsyncOpenAI]:
    """The official SDK at a served API."""
    async with await psycopg.AsyncConnection.connect(bench.database_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    with Served(bench.settings, ReceivedMessages()) as port:
        async with AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0) as opened:
            yield opened


async def finished_job(bench: Workbench) -> str:
    """A job that ran two steps and succeeded."""
    job_id = await bench.queued_job()
    async with bench.database.connection() as connection:
        lease = await take(connection, job_id, owner="here/1/a", ttl_s=600, slots=9)
    assert isinstance(lease, Lease)
    events: list[TrainEvent] = [RunStarted(resumed_from_step=None, total_steps=2, pid=1)]
    for step in (1, 2):
        events += [rollout_done(job_id, step, index) for index in range(3)]
        events.append(step_done(step, 2))
    events.append(RunEnded(outcome="succeeded", best_step=2))
    ingest = Ingest(lease, (GraderLabel("judge", "endpoint"),), "ft:tiny:local:unit:x")
    async with bench.database.transaction() as connection:
        await ingest.batch(connection, logged(events))
    checkpoint = bench.run_dir(job_id) / "checkpoints" / "2"
    checkpoint.mkdir(parents=True)
    (checkpoint / "adapter.safetensors").write_bytes(b"weights")
    return job_id


async def delete(client: AsyncOpenAI, job_id: str) -> Any:
    return await client.delete(f"{JOBS}/{job_id}", cast_to=dict[str, Any])


async def tables_of_jobs(bench: Workbench) -> list[str]:
    found = await bench.all(
        "select table_name from information_schema.columns where table_schema = 'public' and column_name = 'job_id'"
    )
    return [row["table_name"] for row in found]


async def rows_of(bench: Workbench, job_id: str) -> dict[str, int]:
    """How many rows each table has of it, where it has any."""
    counts: dict[str, int] = {}
    for table in await tables_of_jobs(bench):
        query = sql.SQL("select count(*) as n from {} where job_id = %s").format(sql.Identifier(table))
        async with bench.database.connection() as connection:
            row = await (await connection.execute(query, (job_id,))).fetchone()
        assert row is not None
        if row[0]:
            counts[table] = row[0]
    return counts


async def test_every_table_of_jobs_is_known(bench: Workbench) -> None:
    """By a foreign key that deletes with the job, or by the trigger."""
    held = await bench.all(
        "select conrelid::regclass::text as name from pg_constraint join pg_attribute on attrelid = conrelid"
        " and attnum = any(conkey) where contype = 'f' and confdeltype = 'c' and attname = 'job_id'"
    )
    [trigger] = await bench.all("select pg_get_functiondef('delete_bulk_rows'::regproc) as text")
    by_trigger = set(re.findall(r"delete from (\w+) where job_id = old\.id", trigger["text"]))
    assert {*await tables_of_jobs(bench)} - {row["name"] for row in held} == by_trigger


async def test_nothing_of_it_is_left_and_the_others_stay(bench: Workbench, client: AsyncOpenAI) -> None:
    job_id, other = await finished_job(bench), await finished_job(bench)
    job = await client.fine_tuning.jobs.retrieve(job_id)
    [result] = job.result_files
    before = await rows_of(bench, other)
    assert {"rollouts", "steps", "checkpoints", "job_events", "rollout_terms"} <= before.keys()
    assert (await rows_of(bench, job_id)).keys() == before.keys()
    for id_ in (job_id, other):
        await allow_checkpoint(bench, id_)

    assert await delete(client, job_id) == {"id": job_id, "object": "fine_tuning.job", "deleted": True}

    assert await rows_of(bench, job_id) == {}
    assert not bench.run_dir(job_id).exists()
    for gone in (client.fine_tuning.jobs.retrieve(job_id), client.files.retrieve(result), delete(client, job_id)):
        with pytest.raises(NotFoundError):
            await gone
    assert await client.files.retrieve(job.training_file), "it is the customer's"
    assert await rows_of(bench, other) == before
    assert bench.run_dir(other).exists()
    assert [one.id async for one in client.fine_tuning.jobs.list()] == [other]
    [kept] = await bench.all("select model from checkpoint_permissions")
    assert f":{other[-8:]}:ckpt-step-" in kept["model"]


async def allow_checkpoint(bench: Workbench, job_id: str) -> None:
    """Under the name of a model that is this job's alone."""
    model = f"ft:tiny:local:unit:{job_id[-8:]}"
    await bench.do("update jobs set fine_tuned_model = %s where id = %s", model, job_id)
    await bench.do(
        "insert into checkpoint_permissions (id, model, project_id) values (%s, %s, 'proj')",
        f"cp_{job_id}",
        f"{model}:ckpt-step-2",
    )


async def test_one_whose_rollouts_are_about_to_be_told_their_ends_is_refused(
    bench: Workbench, client: AsyncOpenAI
) -> None:
    """Cancelled after its worker was killed, say: another worker has the message that tells them."""
    job_id = await finished_job(bench)
    journal = OpenRolloutsFile(bench.run_dir(job_id) / layout.OPEN_ROLLOUTS)
    journal.begin(trace_id(uuid4()))
    journal.shut()
    assert "still being stopped by its worker" in await refusal(client, job_id)
    assert bench.run_dir(job_id).exists()
    await bench.do("update jobs set finished_at = finished_at - interval '3 minutes' where id = %s", job_id)
    assert (await delete(client, job_id))["deleted"]
    assert not bench.run_dir(job_id).exists()


async def test_jobs_can_be_deleted_page_by_page(bench: Workbench, client: AsyncOpenAI) -> None:
    made = [await finished_job(bench) for _ in range(5)]
    seen: list[str] = []
    async for job in client.fine_tuning.jobs.list(limit=2):
        seen.append(job.id)
        await delete(client, job.id)
    assert seen == made[::-1]
    with pytest.raises(BadRequestError, match="after"):
        await client.fine_tuning.jobs.list(after=made[0], extra_query={"sort": "reward"})


async def refusal(client: AsyncOpenAI, job_id: str) -> str:
    with pytest.raises(BadRequestError) as refused:
        await delete(client, job_id)
    assert refused.value.code == "invalid_state"
    return refused.value.message


async def test_one_that_is_not_over_or_still_worked_on_is_refused(bench: Workbench, client: AsyncOpenAI) -> None:
    job_id, queued = await finished_job(bench), await bench.queued_job()
    assert "is queued; cancel it first" in await refusal(client, queued)

    await bench.do(
        "update jobs set status = 'cancelled', lease_until = now() + interval '1 minute' where id = %s", job_id
    )
    assert "still being stopped by its worker" in await refusal(client, job_id)
    await bench.do("update jobs set lease_until = null where id = %s", job_id)
    with locked(bench.run_dir(job_id), patience_s=0.0):
        assert "still being stopped by its worker" in await refusal(client, job_id)

    await bench.do(
        "insert into regrades (id, job_id, status, grader, selection, lease_owner, lease_token, lease_until)"
        " values ('regrade-1', %s, 'running', '{}', '{}', 'here/1/a', 1, now())",
        job_id,
    )
    assert "is being regraded" in await refusal(client, job_id)
    assert (await rows_of(bench, job_id))["rollouts"] == 6
    assert (bench.run_dir(job_id) / "checkpoints" / "2" / "adapter.safetensors").exists()
    await bench.do("update regrades set status = 'failed', finished_at = now()")
    assert (await delete(client, job_id))["deleted"]


async def test_one_whose_model_an_eval_run_samples_from_is_refused(bench: Workbench, client: AsyncOpenAI) -> None:
    job_id = await finished_job(bench)
    checkpoint = "ft:tiny:local:unit:x:ckpt-step-2"
    await bench.do(
        "insert into evals (id, name, data_source_config, testing_criteria, sealed) values ('e', 'e', '{}', '[]', '')"
    )
    await bench.do(
        "insert into eval_runs (id, eval_id, status, name, model, data_source, samples_per_row, seed) values"
        " ('evalrun_1', 'e', 'in_progress', 'r', %s, '{}', 1, 0),"
        " ('evalrun_2', 'e', 'queued', 'r', 'other', '{}', 1, 0)",
        checkpoint,
    )
    assert "eval run evalrun_1 samples from" in await refusal(client, job_id)
    assert (bench.run_dir(job_id) / "checkpoints" / "2" / "adapter.safetensors").exists()

    await bench.do("update eval_runs set status = 'completed' where id = 'evalrun_1'")
    assert (await delete(client, job_id))["deleted"]


async def test_one_whose_files_cannot_be_deleted_is_there_to_be_deleted_again(
    bench: Workbench, client: AsyncOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await finished_job(bench)

    def refuse(path: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as away:
        away.setattr(shutil, "rmtree", refuse)
        with pytest.raises(InternalServerError, match="could not be deleted: Permission denied") as refused:
            await delete(client, job_id)
    assert (refused.value.status_code, refused.value.code) == (503, "storage_unavailable")
    assert (await rows_of(bench, job_id))["rollouts"] == 6
    assert (await client.fine_tuning.jobs.retrieve(job_id)).status == "succeeded"
    assert (await delete(client, job_id))["deleted"]
    assert not bench.run_dir(job_id).exists()
