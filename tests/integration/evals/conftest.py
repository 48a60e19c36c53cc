"""The API on a real socket with a real database, and a worker's context beside it."""

import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rft.platform.api.key_repository import create_key
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.platform.store.file_store import LocalFileStore
from rft.platform.store.secret_box import SecretBox
from rft.platform.worker.context import WorkerContext
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.provider import ScriptedProvider
from tests.integration.evals.sampling import KEY, lab, says
from tests.integration.evals.stage import PartlySilent, Stage
from tests.shared.running_api import ReceivedMessages, Served


@pytest.fixture
async def stage(migrated_url: str, tmp_path: Path) -> AsyncIterator[Stage]:
    """With tables and a key."""
    settings = Settings.model_validate(
        {
            "home": tmp_path / "home",
            "DATABASE_URL": migrated_url,
            "lease_ttl_s": 60.0,
            "heartbeat_s": 0.2,
            "max_retries": 1,
            "retry_first_wait_s": 0.01,
        }
    )
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    messages = ReceivedMessages()
    with Served(settings, messages) as port:
        async with Database(migrated_url) as database:
            context = WorkerContext(
                settings=settings,
                database=database,
                file_store=LocalFileStore(settings.files_dir),
                secret_box=SecretBox.at(settings.home),
                enqueuer=messages,
            )
            async with Stage.open(f"http://127.0.0.1:{port}/v1", key, context, messages) as opened:
                yield opened


@pytest.fixture
async def customer() -> AsyncIterator[LoopbackEndpoint]:
    """The customer's tools and grader."""
    async with LoopbackEndpoint(ScriptedEndpoint()) as endpoint:
        yield endpoint


@pytest.fixture
async def provider(stage: Stage) -> AsyncIterator[ScriptedProvider]:
    """The lab, which says what `says` does."""
    async with lab(stage, ScriptedProvider(says, api_key=KEY)) as scripted:
        yield scripted


@pytest.fixture
async def judged() -> AsyncIterator[tuple[PartlySilent, dict[str, Any]]]:
    """The grader, and the criterion that asks it."""
    grader = PartlySilent()
    async with LoopbackEndpoint(grader) as served:
        yield grader, {"type": "endpoint", "name": "judge", "url": served.grader_url}


@pytest.fixture
def refused_url() -> Iterator[str]:
    """A port of this machine where nobody listens, and nobody can as long as the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/"
