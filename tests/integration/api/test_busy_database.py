"""More requests than connections to the database: refused by name, to be sent again; lost jobs are found anyway."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from rft.platform.api.key_repository import create_key
from rft.platform.app import create_app
from rft.platform.settings import Settings
from rft.platform.store import database as database_module
from rft.platform.store.database import Database, NoFreeConnection
from tests.shared.running_api import ReceivedMessages
from tests.shared.waiting import until


async def test_a_pool_whose_connections_are_all_lent_says_so(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Database(migrated_url, max_connections=2) as database, AsyncExitStack() as lent:
        for _ in range(2):
            await lent.enter_async_context(database.transaction())
        monkeypatch.setattr(database_module, "LEND_TIMEOUT_S", 0.1)  # only now: a new connection may take longer
        with pytest.raises(NoFreeConnection, match="all 2 connections"):
            async with database.connection():
                pass
        await lent.aclose()
        async with database.transaction() as connection:
            await connection.execute("select 1")


async def test_an_exhausted_pool_is_a_503_by_its_name_and_the_reconciler_goes_on(
    migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = ReceivedMessages()
    app = create_app(
        Settings.model_validate({"home": tmp_path, "DATABASE_URL": migrated_url, "reconcile_s": 0.05}),
        enqueuer=messages,
    )
    async with app.router.lifespan_context(app), AsyncExitStack() as lent:
        database = database_of(app)
        async with database.transaction() as connection:
            key = await create_key(connection, "tests")
        for _ in range(9):
            await lent.enter_async_context(database.connection())
        held = await lent.enter_async_context(database.connection())
        monkeypatch.setattr(database_module, "LEND_TIMEOUT_S", 0.1)  # only now: a new connection may take longer
        for path in ("/v1/files", "/health"):
            reply = await ask(app, path, key)
            assert (reply.status_code, reply.json()["error"]["code"]) == (503, "no_free_connection"), path
            assert reply.json()["error"]["message"] == "Too many requests at once; try again."
            assert int(reply.headers["retry-after"]) > 0
            assert "x-should-retry" not in reply.headers
        await held.execute(
            "insert into jobs (id, status, model, base_model_path, training_file, seed, method, request)"
            " values ('ftjob-lost', 'queued', 'm', '/m', 'file-1', 1, '{}', '{}')"
        )
        await until(
            lambda: any(message.job_id == "ftjob-lost" for message in messages.received), "the lost job's message"
        )
        await lent.aclose()
        assert (await ask(app, "/v1/files", key)).status_code == 200


def database_of(app: FastAPI) -> Database:
    """The pool that requests share."""
    return app.state.services.database


async def ask(app: FastAPI, path: str, key: str) -> httpx.Response:
    """One request, without a socket."""
    async with (
        asyncio.timeout(60),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app),
            base_url="http://here",
            headers={"authorization": f"Bearer {key}"},
            timeout=60.0,
        ) as caller,
    ):
        return await caller.get(path)
