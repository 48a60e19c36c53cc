"""The official SDK as its users use it: every method of the contract, typed fields read, replies checked strictly.

With `_strict_response_validation` the SDK refuses replies that do not fit its types. Jobs themselves are read without
it: the types want `hyperparameters`, which only supervised jobs have, and do not know the status `paused`.
"""

import io
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from openai import (
    AsyncOpenAI,
    BadRequestError,
    NotFoundError,
)
from openai.types.fine_tuning import FineTuningJob
from psycopg.types.json import Jsonb

from rft.testing.loopback import LoopbackEndpoint
from tests.shared.running_api import EXACT, ROW, Api, changed, collect, upload


@pytest.fixture
async def strict(api: Api) -> AsyncIterator[AsyncOpenAI]:
    """The SDK, refusing what does not fit its types."""
    async with AsyncOpenAI(
        base_url=f"{api.url}/v1", api_key=api.key, max_retries=0, _strict_response_validation=True
    ) as sdk:
        yield sdk


async def execute(url: str, query: Any, *values: object) -> None:
    """What a runner would write."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(query, values)


async def test_a_jobs_life(client: AsyncOpenAI, plain_order: dict[str, Any], migrated_url: str) -> None:
    jobs = client.fine_tuning.jobs
    job = await jobs.create(**plain_order)
    assert (job.status, job.seed, job.metadata, job.error) == ("validating_files", 7, {"team": "a"}, None)
    assert (job.fine_tuned_model, job.finished_at, job.estimated_finish, job.result_files) == (None, None, None, [])
    assert (getattr(job, "eval_id", "?"), getattr(job, "shared_with_openai", "?")) == (None, False)
    assert job.method is not None
    assert job.method.type == "reinforcement"
    assert job.method.reinforcement is not None
    assert job.method.reinforcement.grader.type == "string_check"
    assert job.method.reinforcement.hyperparameters is not None
    assert job.method.reinforcement.hyperparameters.batch_size == 2
    assert job.method.reinforcement.hyperparameters.n_epochs == "auto"
    shown = json.loads(job.to_json())
    assert shown["object"] == "fine_tuning.job"
    assert FineTuningJob.model_validate({**shown, "hyperparameters": {}}).created_at == job.created_at
    other = await jobs.create(**changed(plain_order, {"metadata": None}))

    assert (await jobs.retrieve(job.id)).to_dict() == job.to_dict()
    assert [listed.id for listed in await collect(jobs.list(limit=1))] == [other.id, job.id]
    assert [listed.id for listed in await collect(jobs.list(metadata={"team": "a"}))] == [job.id]
    page = await jobs.list(limit=1)
    assert (page.has_more, page.has_next_page()) == (True, True)
    assert [listed.id for listed in (await page.get_next_page()).data] == [job.id]

    with pytest.raises(BadRequestError) as refused:
        await jobs.pause(job.id)
    assert refused.value.code == "invalid_state", "its files are being checked"
    await execute(migrated_url, "update jobs set status = 'queued' where id = %s", job.id)
    paused: Any = await jobs.pause(job.id)
    assert paused.status == "paused"
    assert (await jobs.pause(job.id)).to_dict() == paused.to_dict(), "twice changes nothing"
    assert (await jobs.resume(job.id)).status == "queued"
    await jobs.pause(job.id)
    for body, param in (({"max_importance_gap": 0}, "max_importance_gap"), ({"max_gap": 1}, "max_gap")):
        with pytest.raises(BadRequestError) as refused:
            await jobs.resume(job.id, extra_body=body)
        assert refused.value.param == param
    resumed = (await jobs.resume(job.id, extra_body={"max_importance_gap": 0.5})).to_dict(warnings=False)
    assert (resumed["status"], resumed["max_importance_gap"]) == ("queued", 0.5)
    cancelled = await jobs.cancel(job.id)
    assert cancelled.status == "cancelled"
    assert cancelled.finished_at is not None
    for move in (jobs.cancel, jobs.pause, jobs.resume):
        with pytest.raises(BadRequestError) as refused:
            await move(job.id)
        assert (refused.value.status_code, refused.value.code) == (400, "invalid_state")


async def test_events_and_checkpoints_fit_the_types(
    strict: AsyncOpenAI, client: AsyncOpenAI, plain_order: dict[str, Any], migrated_url: str
) -> None:
    job = await client.fine_tuning.jobs.create(**plain_order)
    for step in range(3):
        await execute(
            migrated_url,
            "insert into job_events (id, job_id, level, type, message, data, step)"
            " values (%s, %s, 'info', 'metrics', %s, %s, %s)",
            f"ftevent-{step}",
            job.id,
            f"Step {step}/2",
            Jsonb({"step": step, "train_mean_reward": 0.25}),
            step,
        )
        await execute(
            migrated_url,
            "insert into checkpoints (id, job_id, step, path, metrics, is_kept) values (%s, %s, %s, 'x', %s, true)",
            f"ftckpt_{step}",
            job.id,
            step,
            Jsonb({"step": step, "train_mean_reward": 0.25, "full_valid_mean_reward": 0.5}),
        )
    jobs = strict.fine_tuning.jobs
    events = [event async for event in jobs.list_events(job.id, limit=2)]
    assert [event.message for event in events[:3]] == ["Step 2/2", "Step 1/2", "Step 0/2"]
    assert events[-1].message == f"Created fine-tuning job: {job.id}"
    assert {event.object for event in events} == {"fine_tuning.job.event"}
    assert [(event.level, event.type) for event in events[:1]] == [("info", "metrics")]
    data: Any = events[0].data
    assert data["train_mean_reward"] == 0.25

    checkpoints: list[Any] = [checkpoint async for checkpoint in jobs.checkpoints.list(job.id, limit=1)]
    assert [checkpoint.step_number for checkpoint in checkpoints] == [2, 1, 0]
    assert checkpoints[0].fine_tuning_job_id == job.id
    assert (checkpoints[0].metrics.step, checkpoints[0].metrics.full_valid_mean_reward) == (2, 0.5)

    name = checkpoints[0].fine_tuned_model_checkpoint
    assert (await strict.models.retrieve(name)).id == name
    permissions = strict.fine_tuning.checkpoints.permissions
    made = [permission async for permission in permissions.create(name, project_ids=["proj_a", "proj_b"])]
    assert {permission.project_id for permission in made} == {"proj_a", "proj_b"}
    listed = [permission async for permission in permissions.list(name, limit=1, order="ascending")]
    assert {permission.id for permission in listed} == {permission.id for permission in made}
    with pytest.warns(DeprecationWarning, match="deprecated"):
        old = await permissions.retrieve(name, project_id="proj_a")  # pyright: ignore[reportDeprecated]
    assert [permission.project_id for permission in old.data] == ["proj_a"]
    gone = await permissions.delete(made[0].id, fine_tuned_model_checkpoint=name)
    assert (gone.id, gone.deleted, gone.object) == (made[0].id, True, "checkpoint.permission")


async def test_files_and_models_fit_the_types(strict: AsyncOpenAI, api: Api) -> None:
    files = strict.files
    kept = await files.create(
        file=("rows.jsonl", io.BytesIO(ROW)),
        purpose="fine-tune",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )
    assert (kept.object, kept.purpose, kept.filename, kept.bytes) == ("file", "fine-tune", "rows.jsonl", len(ROW))
    assert kept.expires_at == kept.created_at + 3600
    assert abs(kept.created_at - time.time()) < 600
    ids = [kept.id] + [(await upload(strict, name=f"{number}.jsonl")).id for number in range(2)]
    await files.create(file=b"notes", purpose="user_data")
    assert (await files.wait_for_processing(kept.id, poll_interval=0.05, max_wait_seconds=60)).status == "processed"
    assert await files.retrieve(kept.id) == kept
    assert [file.id async for file in files.list(limit=1, order="asc", purpose="fine-tune")] == ids
    assert [file.id async for file in files.list(limit=2, order="desc", purpose="fine-tune")] == ids[::-1]
    assert [file.id async for file in files.list(after=ids[1], order="asc", purpose="fine-tune")] == [ids[2]]
    assert (await files.content(kept.id)).read() == ROW
    with pytest.warns(DeprecationWarning, match="content"):
        assert await files.retrieve_content(kept.id) == ROW.decode()  # pyright: ignore[reportDeprecated]
    deleted = await files.delete(kept.id)
    assert (deleted.id, deleted.object, deleted.deleted) == (kept.id, "file", True)

    names = [model.id async for model in strict.models.list()]
    assert {"tiny", "lab/tiny"} <= set(names)
    tiny = await strict.models.retrieve("lab/tiny")
    assert (tiny.id, tiny.object, tiny.owned_by) == ("lab/tiny", "model", "system")


async def test_a_trained_model_is_deleted(
    strict: AsyncOpenAI, client: AsyncOpenAI, plain_order: dict[str, Any], migrated_url: str
) -> None:
    job = await client.fine_tuning.jobs.create(**plain_order)
    name = f"ft:tiny:local::{job.id[-8:]}"
    await execute(migrated_url, "update jobs set status = 'succeeded', best_step = 1, fine_tuned_model = %s", name)
    assert (await client.fine_tuning.jobs.retrieve(job.id)).fine_tuned_model == name
    assert (await strict.models.retrieve(name)).owned_by == "local"
    deleted = await strict.models.delete(name)
    assert (deleted.id, deleted.object, deleted.deleted) == (name, "model", True)
    with pytest.raises(NotFoundError) as gone:
        await strict.models.retrieve(name)
    assert (gone.value.code, gone.value.param) == ("model_not_found", "model")


async def test_dry_runs_of_graders_fit_the_types(strict: AsyncOpenAI, customer: LoopbackEndpoint) -> None:
    graders = strict.fine_tuning.alpha.graders
    graded = await graders.run(grader=EXACT, model_sample="7", item={"answer": "7"})
    assert (graded.reward, graded.sub_rewards, graded.api_model_grader_token_usage_per_model) == (1.0, {}, {})
    assert (graded.metadata.name, graded.metadata.type, graded.metadata.scores) == (
        "exact",
        "string_check",
        {"exact": 1},
    )
    assert (graded.metadata.token_usage, graded.metadata.sampled_model_name) == (None, None)
    assert graded.metadata.execution_time >= 0
    assert not graded.metadata.errors.other_error
    lost = await graders.run(grader=changed(EXACT, {"reference": "{{item.nowhere}}"}), model_sample="7", item={})
    assert (lost.reward, lost.metadata.errors.invalid_variable_error) == (0.0, True)
    validated = await graders.validate(grader=EXACT)
    assert validated.grader is not None
    assert validated.grader.to_dict() == EXACT
    remote: Any = {"type": "endpoint", "name": "remote", "url": customer.grader_url}
    parts: Any = {"type": "multi", "graders": {"a": EXACT, "b": remote}, "calculate_output": "a / 2 + 0 * b"}
    both = await graders.run(grader=parts, model_sample="7", item={"answer": "7"}, extra_body={"trace_id": "trace_1"})
    assert both.reward == 0.5
    assert set(both.sub_rewards) == {"a", "b"}
    assert json.loads(customer.endpoint.calls[-1].body)["trace_id"] == "trace_1"
    with pytest.raises(BadRequestError) as refused:
        await graders.validate(grader=changed(EXACT, {"operation": "equals"}))
    assert (refused.value.param, refused.value.code) == ("grader.operation", "invalid_value")
