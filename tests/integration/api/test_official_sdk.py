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
    APIStatusError,
    AsyncOpenAI,
    AuthenticationError,
    BadRequestError,
    DefaultAsyncHttpxClient,
    NotFoundError,
)
from openai.types.fine_tuning import FineTuningJob
from psycopg.types.json import Jsonb

from rft.testing.loopback import LoopbackEndpoint
from tests.integration.api.running_api import ROW, Api, collect, upload

EXACT: Any = {
    "type": "string_check",
    "name": "exact",
    "input": "{{sample.output_text}}",
    "reference": "{{item.answer}}",
    "operation": "eq",
}


@pytest.fixture
async def strict(api: Api) -> AsyncIterator[AsyncOpenAI]:
    """The SDK, refusing what does not fit its types."""
    async with AsyncOpenAI(
        base_url=f"{api.url}/v1", api_key=api.key, max_retries=0, _strict_response_validation=True
    ) as sdk:
        yield sdk


@pytest.fixture
def plain_order(training_file: str) -> dict[str, Any]:
    """An order that uses nothing the SDK has no types for."""
    method = {"type": "reinforcement", "reinforcement": {"grader": EXACT, "hyperparameters": {"batch_size": 2}}}
    return {"model": "tiny", "training_file": training_file, "method": method, "metadata": {"team": "a"}, "seed": 7}


def changed(document: Any, fields: dict[str, Any]) -> Any:
    """The document with other values in some fields."""
    return {**document, **fields}


async def execute(url: str, query: Any, *values: object) -> None:
    """What a runner would write."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(query, values)


async def test_a_jobs_life(client: AsyncOpenAI, plain_order: dict[str, Any], migrated_url: str) -> None:
    jobs = client.fine_tuning.jobs
    job = await jobs.create(**plain_order)
    assert (job.status, job.seed, job.metadata, job.error) == ("validating_files", 7, {"team": "a"}, None)
    assert (job.fine_tuned_model, job.finished_at, job.estimated_finish, job.result_files) == (None, None, None, [])
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


async def test_errors_are_caught_by_class_with_code_param_and_request_id(
    client: AsyncOpenAI, plain_order: dict[str, Any], api: Api
) -> None:
    sdk, jobs, permissions = client, client.fine_tuning.jobs, client.fine_tuning.checkpoints.permissions
    missing = ("file-none", "ftjob-none")
    cases: list[tuple[Any, type[APIStatusError], str | None, str]] = [
        (jobs.create(**changed(plain_order, {"model": "gpt-5"})), BadRequestError, "model", "model_not_found"),
        (
            jobs.create(**changed(plain_order, {"training_file": missing[0]})),
            BadRequestError,
            "training_file",
            "file_not_found",
        ),
        (
            jobs.create(**changed(plain_order, {"method": {}})),
            BadRequestError,
            "method.type",
            "missing_required_parameter",
        ),
        (jobs.create(**changed(plain_order, {"seed": -1})), BadRequestError, "seed", "invalid_value"),
        (jobs.retrieve(missing[1]), NotFoundError, "fine_tuning_job_id", "fine_tune_not_found"),
        (jobs.cancel(missing[1]), NotFoundError, "fine_tuning_job_id", "fine_tune_not_found"),
        (jobs.pause(missing[1]), NotFoundError, "fine_tuning_job_id", "fine_tune_not_found"),
        (jobs.resume(missing[1]), NotFoundError, "fine_tuning_job_id", "fine_tune_not_found"),
        (jobs.list_events(missing[1]), NotFoundError, "fine_tuning_job_id", "fine_tune_not_found"),
        (jobs.checkpoints.list(missing[1]), NotFoundError, "fine_tuning_job_id", "fine_tune_not_found"),
        (jobs.list(after="x"), BadRequestError, "after", "invalid_cursor"),
        (jobs.list(limit=0), BadRequestError, "limit", "invalid_value"),
        (sdk.files.retrieve(missing[0]), NotFoundError, "id", "not_found"),
        (sdk.files.content(missing[0]), NotFoundError, "id", "not_found"),
        (sdk.files.delete(plain_order["training_file"] + "x"), NotFoundError, "id", "not_found"),
        (sdk.files.create(file=b"x", purpose="fine-tune"), BadRequestError, "file", "invalid_file_format"),
        (sdk.models.retrieve("none"), NotFoundError, "model", "model_not_found"),
        (sdk.models.delete("tiny"), BadRequestError, "model", "invalid_model"),
        (permissions.list("none"), NotFoundError, "model", "model_not_found"),
    ]
    seen: set[str | None] = set()
    for call, kind, param, code in cases:
        with pytest.raises(kind) as raised:
            await call
        error = raised.value
        assert type(error) is kind
        assert (error.param, error.code, error.type) == (param, code, "invalid_request_error")
        assert error.body == {"message": error.body["message"], "type": error.type, "param": param, "code": code}  # pyright: ignore[reportIndexIssue, reportOptionalSubscript]
        assert error.request_id == error.response.headers["x-request-id"]
        seen.add(error.request_id)
    assert len(seen) == len(cases)
    async with AsyncOpenAI(base_url=f"{api.url}/v1", api_key="wrong") as stranger:
        with pytest.raises(AuthenticationError) as refused:
            await stranger.fine_tuning.jobs.list()
    assert refused.value.code == "invalid_api_key"


async def test_raw_replies_carry_request_ids(client: AsyncOpenAI, plain_order: dict[str, Any]) -> None:
    raw = await client.fine_tuning.jobs.with_raw_response.create(**plain_order)
    job = raw.parse()
    assert raw.request_id
    assert raw.request_id.startswith("req_")
    assert job._request_id == raw.request_id  # pyright: ignore[reportPrivateUsage]
    async with client.files.with_streaming_response.content(job.training_file) as streamed:
        assert streamed.headers["x-request-id"] not in ("", raw.request_id)
        assert b"".join([chunk async for chunk in streamed.iter_bytes()]) == ROW


async def test_the_sdks_own_retries_stay_out_of_what_cannot_change(api: Api, plain_order: dict[str, Any]) -> None:
    asked: list[str] = []

    async def count(request: Any) -> None:
        asked.append(request.method)

    http = DefaultAsyncHttpxClient(event_hooks={"request": [count]})
    async with AsyncOpenAI(base_url=f"{api.url}/v1", api_key=api.key, http_client=http) as patient:
        assert patient.max_retries == 2
        job = await patient.fine_tuning.jobs.create(**plain_order)
        await patient.fine_tuning.jobs.cancel(job.id)
        asked.clear()
        for move in (patient.fine_tuning.jobs.cancel, patient.fine_tuning.jobs.pause, patient.fine_tuning.jobs.resume):
            with pytest.raises(BadRequestError):
                await move(job.id)
    assert asked == ["POST"] * 3


async def test_an_order_sent_again_under_its_idempotency_key_is_the_same_job(
    client: AsyncOpenAI, plain_order: dict[str, Any]
) -> None:
    jobs = client.fine_tuning.jobs
    key = {"Idempotency-Key": "run-2026-11-21"}
    job = await jobs.create(**plain_order, extra_headers=key)
    assert (await jobs.create(**plain_order, extra_headers=key)).id == job.id
    assert (await jobs.create(**plain_order, extra_headers={"Idempotency-Key": "another"})).id != job.id
    with pytest.raises(BadRequestError) as refused:
        await jobs.create(**changed(plain_order, {"seed": 8}), extra_headers=key)
    assert (refused.value.param, refused.value.code) == ("Idempotency-Key", "idempotency_key_reused")
    assert len(await collect(jobs.list())) == 2


async def test_polling_with_an_etag(client: AsyncOpenAI, plain_order: dict[str, Any]) -> None:
    jobs = client.fine_tuning.jobs
    job = await jobs.create(**plain_order)
    for get in (jobs.with_raw_response.retrieve, jobs.with_raw_response.list_events):
        first = await get(job.id)
        known = {"If-None-Match": first.headers["etag"]}
        with pytest.raises(APIStatusError) as unchanged:
            await get(job.id, extra_headers=known)
        assert unchanged.value.status_code == 304
        assert unchanged.value.response.headers["etag"] == first.headers["etag"]
        if get == jobs.with_raw_response.list_events:
            await jobs.cancel(job.id)
            again = await get(job.id, extra_headers=known)
            assert (again.status_code, again.headers["etag"] != first.headers["etag"]) == (200, True)
