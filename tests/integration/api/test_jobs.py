"""Jobs through the official SDK: create, retrieve, list, cancel, events."""

from copy import deepcopy
from typing import Any

import httpx
import psycopg
import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from psycopg.types.json import Jsonb

from rft.core.hyperparameters import Hyperparameters, resolve
from rft.core.update_spec import UpdateWanted
from rft.platform.queue.messages import VALIDATE_JOB, TaskMessage
from rft.platform.store.secret_box import SecretBox
from tests.shared.running_api import Api, collect


async def execute(url: str, query: Any, *values: object) -> None:
    """What a runner would write."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(query, values)


async def test_a_new_job_has_the_contracts_shape(client: AsyncOpenAI, order: dict[str, Any], api: Api) -> None:
    job = await client.fine_tuning.jobs.create(
        **order, suffix="my run", seed=42, metadata={"team": "finance"}, extra_body={"trainingType": "Standard"}
    )
    shown = job.to_dict(warnings=False)
    assert shown["object"] == "fine_tuning.job"
    assert job.id.startswith("ftjob-")
    assert len(job.id) == len("ftjob-") + 24
    assert (job.status, job.model, job.organization_id, job.seed) == ("validating_files", "tiny", "local", 42)
    assert (job.error, job.finished_at, job.fine_tuned_model, job.trained_tokens) == (None, None, None, None)
    assert (job.result_files, job.validation_file, job.integrations) == ([], None, None)
    assert job.metadata == {"team": "finance"}
    assert shown["user_provided_suffix"] == "my run"
    assert shown["trainingType"] == "Standard"
    assert "hyperparameters" not in shown
    assert (await client.fine_tuning.jobs.retrieve(job.id)).to_dict(warnings=False) == shown
    assert api.messages.received == [TaskMessage(VALIDATE_JOB, job.id)]
    assert api.messages.received[0].queue == "control"


async def test_the_method_comes_back_filled_and_redacted(
    client: AsyncOpenAI, order: dict[str, Any], api: Api, migrated_url: str
) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    shown: Any = job.to_dict(warnings=False)
    reinforcement = shown["method"]["reinforcement"]
    assert reinforcement["grader"] == {
        **order["method"]["reinforcement"]["grader"],
        "headers": {"Authorization": "**********"},
    }
    search, cat = reinforcement["tools"]
    assert search["headers"] == {"X-Key": "**********"}
    assert cat == order["method"]["reinforcement"]["tools"][1]
    assert reinforcement["max_episode_steps"] == 10
    assert reinforcement["response_format"] is None
    assert reinforcement["hyperparameters"] == {
        "n_epochs": "auto",
        "batch_size": 4,
        "learning_rate_multiplier": "auto",
        "compute_multiplier": 0.5,
        "eval_interval": "auto",
        "eval_samples": "auto",
        "max_staleness": 0,
        "policy_pin": "rollout",
        "reasoning_effort": "default",
        **dict.fromkeys(UpdateWanted.model_fields, "auto"),
        "future_knob": 3,
    }
    async with await psycopg.AsyncConnection.connect(migrated_url) as connection:
        row = await (await connection.execute("select jobs::text, secrets from jobs")).fetchone()
    assert row is not None
    assert "secret" not in row[0].replace("secrets", "")
    secrets = SecretBox.at(api.settings.home).unseal(row[1])
    assert secrets.tool_headers == {"search": {"X-Key": "tool-secret"}}
    assert secrets.grader_headers == {"Authorization": "Bearer grader-secret"}


async def test_url_is_another_name_of_server_url(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    tool = order["method"]["reinforcement"]["tools"][0]
    tool["url"] = tool.pop("server_url")
    shown: Any = (await client.fine_tuning.jobs.create(**order)).to_dict(warnings=False)
    assert shown["method"]["reinforcement"]["tools"][0]["server_url"] == tool["url"]


async def test_a_grader_without_a_name_gets_one(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    del order["method"]["reinforcement"]["grader"]["name"]
    shown: Any = (await client.fine_tuning.jobs.create(**order)).to_dict(warnings=False)
    assert shown["method"]["reinforcement"]["grader"]["name"].startswith("grader-")


async def test_a_seed_is_generated(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    seeds = {(await client.fine_tuning.jobs.create(**order)).seed for _ in range(3)}
    assert len(seeds) == 3


async def test_resolved_hyperparameters_show_the_burst(
    client: AsyncOpenAI, order: dict[str, Any], migrated_url: str
) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    assert job.to_dict(warnings=False)["resolved_hyperparameters"] is None
    resolved = resolve(Hyperparameters(batch_size=4, compute_multiplier=0.5), train_rows=40)
    await execute(migrated_url, "update jobs set resolved = %s", Jsonb(resolved.model_dump()))
    shown: Any = (await client.fine_tuning.jobs.retrieve(job.id)).to_dict(warnings=False)
    assert shown["resolved_hyperparameters"] == {**resolved.model_dump(), "burst": 16}


async def test_jobs_are_listed_newest_first_and_filtered(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    marks: list[dict[str, str] | None] = [
        {"team": "a", "n": "1"},
        {"team": "b"},
        None,
        {"team": "a"},
        {"metadata": "null"},
    ]
    ids = [(await client.fine_tuning.jobs.create(**order, metadata=mark)).id for mark in marks]
    jobs = client.fine_tuning.jobs
    assert [job.id for job in await collect(jobs.list(limit=2))] == ids[::-1]
    assert [job.id for job in await collect(jobs.list(limit=1, metadata={"team": "a"}))] == [ids[3], ids[0]]
    assert [job.id for job in await collect(jobs.list(metadata={"team": "a", "n": "1"}))] == [ids[0]]
    assert await collect(jobs.list(metadata={"team": "c"})) == []
    with pytest.raises(BadRequestError) as raised:
        await client.get("/fine_tuning/jobs", options={"params": {"metadata": "foo"}}, cast_to=object)
    assert raised.value.param == "metadata"
    unmarked = await client.get("/fine_tuning/jobs", options={"params": {"metadata": "null"}}, cast_to=object)
    assert [job["id"] for job in unmarked["data"]] == [ids[2]]  # pyright: ignore[reportIndexIssue]
    with pytest.raises(BadRequestError) as raised:
        await jobs.list(after="ftjob-unknown")
    assert raised.value.param == "after"


async def test_events_are_newest_first_and_paged(client: AsyncOpenAI, order: dict[str, Any], migrated_url: str) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    other = await client.fine_tuning.jobs.create(**order)
    await execute(
        migrated_url,
        "insert into job_events (id, job_id, level, type, message, data, step)"
        " values ('ftevent-m', %s, 'info', 'metrics', 'Step 1/10', %s, 1)",
        job.id,
        Jsonb({"step": 1, "train_mean_reward": 0.25}),
    )
    events = await collect(client.fine_tuning.jobs.list_events(job.id, limit=1))
    assert [event.message for event in events] == [
        "Step 1/10",
        "Without a validation file training rewards choose the checkpoint.",
        f"Validating training file: {job.training_file}",
        "These fields are not known here; they are kept with the job and have no effect:"
        " method.reinforcement.hyperparameters.future_knob, method.reinforcement.tools[1].our_note",
        f"Created fine-tuning job: {job.id}",
    ]
    newest = events[0].to_dict()
    assert newest["object"] == "fine_tuning.job.event"
    assert (newest["type"], newest["level"]) == ("metrics", "info")
    assert newest["data"] == {"step": 1, "train_mean_reward": 0.25}
    assert all(event.id.startswith("ftevent-") for event in events)
    assert len(await collect(client.fine_tuning.jobs.list_events(other.id))) == 4
    with pytest.raises(BadRequestError) as raised:
        await client.fine_tuning.jobs.list_events(other.id, after="ftevent-m")
    assert raised.value.param == "after"


async def test_events_of_some_codes_are_found_however_many_others_there_are(
    client: AsyncOpenAI, order: dict[str, Any], migrated_url: str
) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    for number, data in enumerate(({"code": "held", "step": 3}, {"code": "no_signal"}, {"code": "resumed", "step": 2})):
        await execute(
            migrated_url,
            "insert into job_events (id, job_id, level, type, message, data)"
            " values (%s, %s, 'info', 'message', 'told', %s)",
            f"ftevent-{number}",
            job.id,
            Jsonb(data),
        )
    path = f"/fine_tuning/jobs/{job.id}/events?limit=2&code=held&code=resumed"
    found = (await client.get(path, cast_to=httpx.Response)).json()
    assert ([event["id"] for event in found["data"]], found["has_more"]) == (["ftevent-2", "ftevent-0"], False)
    with pytest.raises(BadRequestError) as raised:
        await client.get(path + "&code=x" * 20, cast_to=httpx.Response)
    assert raised.value.param == "code"


async def test_scripts_that_ask_for_a_thousand_of_a_list_get_them(client: AsyncOpenAI, order: dict[str, Any]) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    assert [found.id for found in (await client.fine_tuning.jobs.list(limit=1000)).data] == [job.id]
    assert (await client.fine_tuning.jobs.list_events(job.id, limit=1000)).data
    assert (await client.fine_tuning.jobs.checkpoints.list(job.id, limit=1000)).data == []


async def test_a_test_file_is_named_in_a_field_or_in_the_metadata_and_stays_while_it_is_needed(
    client: AsyncOpenAI, order: dict[str, Any]
) -> None:
    content = await client.files.content(order["training_file"])
    file = (await client.files.create(file=("test.jsonl", content.content), purpose="fine-tune")).id
    named: Any = await client.fine_tuning.jobs.create(**order, metadata={"test_file": file})
    given: Any = await client.fine_tuning.jobs.create(**order, extra_body={"test_file": file})
    assert (named.test_file, given.test_file, given.final_figures) == (file, file, None)
    events = (await client.fine_tuning.jobs.list_events(named.id)).data
    assert any(event.message.endswith(f"and test file: {file}") for event in events)
    with pytest.raises(BadRequestError, match="is in use by"):
        await client.files.delete(file)
    label: Any = await client.fine_tuning.jobs.create(**order, metadata={"test_file": "nightly rows"})
    assert label.test_file is None


async def test_a_validation_file_and_a_response_format_are_told_in_the_events(
    client: AsyncOpenAI, order: dict[str, Any]
) -> None:
    order["method"]["reinforcement"]["response_format"] = {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": {"type": "object"}},
    }
    job = await client.fine_tuning.jobs.create(**order, validation_file=order["training_file"])
    newest, _, warning, _ = (await client.fine_tuning.jobs.list_events(job.id)).data
    assert newest.message.endswith(f"and validation file: {job.validation_file}")
    assert (
        warning.level,
        "does not fit response_format is graded 0, the grader's invalid_grade" in warning.message,
    ) == ("info", True)
    assert warning.data == {"code": "response_format"}
    order["method"]["reinforcement"]["response_format"] = {"type": "text"}
    asked_for_nothing = await client.fine_tuning.jobs.create(**order)
    events = (await client.fine_tuning.jobs.list_events(asked_for_nothing.id)).data
    assert not [event for event in events if "response_format" in event.message]


@pytest.mark.parametrize("status", ["validating_files", "queued", "paused"])
async def test_a_job_that_does_not_run_is_cancelled_at_once(
    client: AsyncOpenAI, order: dict[str, Any], migrated_url: str, status: str
) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    await execute(migrated_url, "update jobs set status = %s", status)
    cancelled = await client.fine_tuning.jobs.cancel(job.id)
    assert cancelled.status == "cancelled"
    assert cancelled.finished_at is not None
    assert (await client.fine_tuning.jobs.list_events(job.id)).data[0].message == "Fine-tuning job cancelled"


@pytest.mark.parametrize("hold", [None, {"endpoint": "e", "stage": "tool", "reason": "r", "since": 1, "step": 2}])
async def test_a_job_that_a_worker_runs_is_cancelled_at_once_and_its_file_is_free(
    client: AsyncOpenAI, order: dict[str, Any], migrated_url: str, hold: dict[str, Any] | None
) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    await execute(
        migrated_url,
        "update jobs set status = %s, hold = %s, is_pause_requested = true, lease_owner = 'here/1/a', lease_token = 7,"
        " lease_until = now() + interval '1 minute'",
        "running" if hold is None else "paused",
        None if hold is None else Jsonb(hold),
    )
    over: Any = (await client.fine_tuning.jobs.cancel(job.id)).to_dict(warnings=False)
    assert (over["status"], over["hold"], over["is_cancel_requested"]) == ("cancelled", None, True)
    assert (over["is_pause_requested"], over["finished_at"] is None) == (False, False)
    assert (await client.files.delete(job.training_file)).deleted
    with pytest.raises(BadRequestError, match="is cancelled") as again:
        await client.fine_tuning.jobs.cancel(job.id)
    assert again.value.code == "invalid_state"
    told = [event.message for event in (await client.fine_tuning.jobs.list_events(job.id)).data]
    assert told.count("Fine-tuning job cancelled") == 1


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
async def test_a_job_that_is_over_cannot_be_cancelled(
    client: AsyncOpenAI, order: dict[str, Any], migrated_url: str, status: str
) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    await execute(migrated_url, "update jobs set status = %s", status)
    with pytest.raises(BadRequestError, match=status) as raised:
        await client.fine_tuning.jobs.cancel(job.id)
    assert raised.value.code == "invalid_state"
    assert raised.value.response.headers["x-should-retry"] == "false"


async def test_a_failed_job_shows_its_error(client: AsyncOpenAI, order: dict[str, Any], migrated_url: str) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    error = {"code": "invalid_training_file", "message": "line 3: not JSON", "param": "training_file"}
    await execute(migrated_url, "update jobs set status = 'failed', error = %s", Jsonb(error))
    shown = (await client.fine_tuning.jobs.retrieve(job.id)).error
    assert shown is not None
    assert shown.to_dict() == error


async def test_unknown_jobs_are_not_found(client: AsyncOpenAI) -> None:
    jobs = client.fine_tuning.jobs
    for call in (jobs.retrieve, jobs.cancel, jobs.list_events, jobs.checkpoints.list):
        with pytest.raises(NotFoundError, match="ftjob-none") as raised:
            await call("ftjob-none")
        assert raised.value.code == "fine_tune_not_found"


async def test_a_silent_broker_loses_no_job(client: AsyncOpenAI, order: dict[str, Any], api: Api) -> None:
    api.messages.is_broken = True
    job = await client.fine_tuning.jobs.create(**order)
    assert (await client.fine_tuning.jobs.retrieve(job.id)).status == "validating_files"
    assert api.messages.received == []


async def test_a_refused_order_leaves_nothing(client: AsyncOpenAI, order: dict[str, Any], api: Api) -> None:
    broken = deepcopy(order)
    broken["validation_file"] = "file-none"
    with pytest.raises(BadRequestError):
        await client.fine_tuning.jobs.create(**broken)
    assert await collect(client.fine_tuning.jobs.list()) == []
    assert api.messages.received == []
