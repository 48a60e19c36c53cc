"""The official SDK's errors, raw replies and repeated requests."""

from typing import Any

import pytest
from openai import (
    APIStatusError,
    AsyncOpenAI,
    AuthenticationError,
    BadRequestError,
    DefaultAsyncHttpxClient,
    NotFoundError,
)

from tests.shared.running_api import ROW, Api, changed, collect


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
