"""What every reply has in common: keys, envelope, request id, OpenAPI."""

from typing import Any

import httpx
import psycopg
import pytest
from openai import (
    APIStatusError,
    AsyncOpenAI,
    AuthenticationError,
    InternalServerError,
    NotFoundError,
)
from psycopg import sql

from rft.platform.api.key_repository import create_key, revoke_key, verify_key
from rft.platform.app import create_app
from rft.platform.settings import Settings
from tests.shared.running_api import Api


def sdk(api: Api, key: str) -> AsyncOpenAI:
    """The SDK with another key."""
    return AsyncOpenAI(base_url=f"{api.url}/v1", api_key=key, max_retries=0)


@pytest.mark.parametrize("damage", ["wrong", "rft_", "rft_abc", "rft__x", "rft_{id}_guess", "{key}x", "Rft{key}"])
async def test_a_wrong_key_is_refused(api: Api, damage: str) -> None:
    key = damage.format(key=api.key, id=api.key.split("_")[1])
    async with sdk(api, "placeholder") as client:
        with pytest.raises(AuthenticationError) as raised:
            await client.get("/models", cast_to=object, options={"headers": {"authorization": f"Bearer {key}"}})
    error = raised.value
    assert (error.code, error.type, error.param) == ("invalid_api_key", "invalid_request_error", None)
    assert key not in error.message


async def test_no_key_is_refused(api: Api) -> None:
    async with sdk(api, "placeholder") as client:
        with pytest.raises(AuthenticationError) as raised:
            await client.get("/models", cast_to=object, options={"headers": {"authorization": "Basic abc"}})
    assert raised.value.code == "missing_api_key"


async def test_a_revoked_key_is_refused(api: Api, migrated_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        key = await create_key(connection, "short-lived")
        key_id = await verify_key(connection, key)
        assert key_id is not None
        async with sdk(api, key) as client:
            await client.models.list()
            assert await revoke_key(connection, key_id)
            with pytest.raises(AuthenticationError):
                await client.models.list()
        assert not await revoke_key(connection, "none")
        row = await (
            await connection.execute("select api_keys::text from api_keys where id = %s", (key_id,))
        ).fetchone()
    assert row is not None
    assert key.split("_", 2)[2] not in row[0]


@pytest.mark.parametrize("path", ["/nothing", "/fine_tuning", "/files/", "/fine_tuning/jobs/a/b/c"])
async def test_unknown_urls_are_in_the_envelope(client: AsyncOpenAI, path: str) -> None:
    with pytest.raises(NotFoundError) as raised:
        await client.get(path, cast_to=object)
    error = raised.value
    assert (error.type, error.code) == ("invalid_request_error", "unknown_url")
    assert f"Invalid URL (GET /v1{path})" in error.message


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", None])
async def test_json_that_is_sent_as_something_else_is_told_by_the_header_that_it_lacks(
    client: AsyncOpenAI, kind: str | None
) -> None:
    """As curl sends what `-d` names."""
    headers = {"Authorization": f"Bearer {client.api_key}"} | ({} if kind is None else {"Content-Type": kind})
    async with httpx.AsyncClient(base_url=str(client.base_url), headers=headers, timeout=60) as plain:
        reply = await plain.post("fine_tuning/jobs", content=b'{"model": "starter"}')
    error = reply.json()["error"]
    assert (reply.status_code, error["type"], error["code"]) == (400, "invalid_request_error", "invalid_json")
    assert "with the header `Content-Type: application/json`" in error["message"]
    assert (kind or "which is missing") in error["message"]


async def test_wrong_methods_are_in_the_envelope(client: AsyncOpenAI) -> None:
    with pytest.raises(APIStatusError) as raised:
        await client.put("/files", cast_to=object)
    assert (raised.value.status_code, raised.value.code) == (405, "method_not_allowed")
    assert raised.value.response.headers["allow"]


async def test_every_reply_has_its_own_request_id(client: AsyncOpenAI) -> None:
    ids = [(await client.models.with_raw_response.list()).headers["x-request-id"] for _ in range(2)]
    with pytest.raises(NotFoundError) as raised:
        await client.models.retrieve("none")
    assert raised.value.request_id
    assert len({*ids, raised.value.request_id}) == 3


async def test_a_crash_tells_nothing_but_its_id(
    client: AsyncOpenAI, migrated_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        await connection.execute("alter table files rename column purpose to secret_plan")
    with pytest.raises(InternalServerError) as raised:
        await client.files.list()
    error = raised.value
    assert error.request_id is not None
    assert (error.type, error.param, error.code) == ("server_error", None, None)
    assert error.request_id in error.message
    assert "purpose" not in error.message
    assert error.request_id in caplog.text


async def test_a_missing_database_is_503_and_comes_back(
    client: AsyncOpenAI, api: Api, migrated_url: str, postgres_url: str
) -> None:
    name = migrated_url.rsplit("/", 1)[1].split("?")[0]
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        await connection.execute(sql.SQL("alter database {} allow_connections false").format(sql.Identifier(name)))
        await connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))
        with pytest.raises(InternalServerError) as raised:
            await client.models.list()
        assert (raised.value.status_code, raised.value.code) == (503, "database_unavailable")
        await connection.execute(sql.SQL("alter database {} allow_connections true").format(sql.Identifier(name)))
    assert (await client.models.list()).data


async def test_health_needs_no_key(api: Api) -> None:
    async with AsyncOpenAI(base_url=api.url, api_key="none", max_retries=0) as client:
        assert await client.get("/health", cast_to=object) == {"status": "ok"}


async def test_openapi_tells_the_truth(api: Api) -> None:
    async with AsyncOpenAI(base_url=api.url, api_key="none", max_retries=0) as client:
        document: Any = await client.get("/openapi.json", cast_to=object)
    operations = {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert {
        "POST /v1/files",
        "GET /v1/files",
        "GET /v1/files/{file_id}",
        "DELETE /v1/files/{file_id}",
        "GET /v1/files/{file_id}/content",
        "POST /v1/fine_tuning/jobs",
        "GET /v1/fine_tuning/jobs",
        "GET /v1/fine_tuning/jobs/{fine_tuning_job_id}",
        "POST /v1/fine_tuning/jobs/{fine_tuning_job_id}/cancel",
        "GET /v1/fine_tuning/jobs/{fine_tuning_job_id}/events",
        "GET /v1/fine_tuning/jobs/{fine_tuning_job_id}/checkpoints",
        "GET /v1/models",
        "GET /v1/models/{model}",
        "DELETE /v1/models/{model}",
        "GET /health",
    } <= set(operations)
    names = [operation["operationId"] for operation in operations.values()]
    assert len(set(names)) == len(names)
    for name, operation in operations.items():
        assert "422" not in operation["responses"], name
        if " /v1/" in name:
            assert operation["security"], name
            assert operation["responses"]["401"]["content"]["application/json"]["schema"]["$ref"].endswith("Envelope")
    assert "HTTPValidationError" not in document["components"]["schemas"]


async def test_without_a_database_the_app_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(ValueError, match="DATABASE_URL"):
        create_app(Settings.model_validate({"home": tmp_path_factory.mktemp("home"), "DATABASE_URL": None}))


async def test_without_a_queue_it_does_not_start(tmp_path_factory: pytest.TempPathFactory) -> None:
    given = {
        "home": tmp_path_factory.mktemp("home"),
        "DATABASE_URL": "postgresql://x@127.0.0.1:1/x",
        "BROKER_URL": None,
    }
    app = create_app(Settings.model_validate(given))
    with pytest.raises(ValueError, match="BROKER_URL"):
        async with app.router.lifespan_context(app):
            pass
