"""The API on a real socket with a real database, and a worker's context beside it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from rft.platform.api.key_repository import create_key
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.platform.store.file_store import LocalFileStore
from rft.platform.store.secret_box import SecretBox
from rft.platform.worker.context import WorkerContext
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.rehearsals.stage import Customer, Platform, job, upload
from tests.shared.running_api import ReceivedMessages, Served


@pytest.fixture
async def platform(migrated_url: str, tmp_path: Path) -> AsyncIterator[Platform]:
    """With tables and a key."""
    settings = Settings.model_validate(
        {
            "home": tmp_path / "home",
            "DATABASE_URL": migrated_url,
            "probe_timeout_s": 20.0,
            "lease_ttl_s": 60.0,
            "heartbeat_s": 0.2,
            "max_retries": 1,
            "retry_first_wait_s": 0.01,
            "rehearsal_max_rollouts": 40,
            "rehearsal_max_s": 60.0,
        }
    )
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    messages = ReceivedMessages()
    with Served(settings, messages) as port:
        url, headers = f"http://127.0.0.1:{port}/v1", {"Authorization": f"Bearer {key}"}
        async with (
            httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as http,
            Database(migrated_url) as database,
        ):
            context = WorkerContext(
                settings=settings,
                database=database,
                file_store=LocalFileStore(settings.files_dir),
                secret_box=SecretBox.at(settings.home),
                enqueuer=messages,
            )
            yield Platform(http, context, messages)


@pytest.fixture
async def customer() -> AsyncIterator[LoopbackEndpoint]:
    """The customer's tool and grader."""
    async with LoopbackEndpoint(Customer()) as served:
        yield served


@pytest.fixture
async def order(platform: Platform, customer: LoopbackEndpoint) -> dict[str, Any]:
    """A job's order that passes every check, its file uploaded."""
    return {"model": "tiny", "training_file": await upload(platform.http, 6), **job(customer)}
