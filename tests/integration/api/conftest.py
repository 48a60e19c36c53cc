"""The API on a real socket with a real database, and the official SDK as its only caller."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from openai import AsyncOpenAI

from rft.platform.api.key_repository import create_key
from rft.platform.settings import Settings
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.running_api import EXACT, Api, ReceivedMessages, Served, upload


@pytest.fixture
def base_model(tmp_path: Path) -> Path:
    """A directory that stands for a base model."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    return folder


@pytest.fixture
def probe_timeout_s() -> float:
    """How long an endpoint is waited for when a job is ordered."""
    return 20.0


@asynccontextmanager
async def served_api(
    database_url: str, folder: Path, base_model: Path, probe_timeout_s: float = 20.0, **set_too: Any
) -> AsyncGenerator[Api]:
    """The API over that database, served by uvicorn; what it keeps itself lies in `folder`. `set_too`: settings."""
    settings = Settings.model_validate(
        {
            "home": folder / "home",
            "DATABASE_URL": database_url,
            "base_models": {"tiny": str(base_model), "lab/tiny": str(base_model), "lost": str(folder / "nowhere")},
            "probe_timeout_s": probe_timeout_s,
            **set_too,
        }
    )
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    messages = ReceivedMessages()
    with Served(settings, messages) as port:
        yield Api(url=f"http://127.0.0.1:{port}", key=key, settings=settings, messages=messages)


@pytest.fixture
async def api(migrated_url: str, tmp_path: Path, base_model: Path, probe_timeout_s: float) -> AsyncIterator[Api]:
    """One for each test."""
    async with served_api(migrated_url, tmp_path, base_model, probe_timeout_s) as served:
        yield served


def client_of(api: Api) -> AsyncOpenAI:
    """The official SDK, to be closed."""
    return AsyncOpenAI(base_url=f"{api.url}/v1", api_key=api.key, max_retries=0)


@pytest.fixture
async def client(api: Api) -> AsyncIterator[AsyncOpenAI]:
    """The official SDK."""
    async with client_of(api) as sdk:
        yield sdk


@pytest.fixture
async def customer() -> AsyncIterator[LoopbackEndpoint]:
    """The customer's tools and grader."""
    async with LoopbackEndpoint(ScriptedEndpoint()) as endpoint:
        yield endpoint


@pytest.fixture
def refused_url(refused_port: int) -> str:
    """An address of this machine where nobody listens."""
    return f"http://127.0.0.1:{refused_port}/"


@pytest.fixture
async def training_file(client: AsyncOpenAI) -> str:
    """The id of an uploaded training file."""
    return (await upload(client)).id


@pytest.fixture
def order(training_file: str, customer: LoopbackEndpoint) -> dict[str, Any]:
    """Arguments of `jobs.create` that pass every check."""
    return order_of(training_file, customer.tool_url, customer.grader_url)


def order_of(training_file: str, tool_url: str, grader_url: str) -> dict[str, Any]:
    """Such arguments for that file and these endpoints."""
    return {
        "model": "tiny",
        "training_file": training_file,
        "method": {
            "type": "reinforcement",
            "reinforcement": {
                "grader": {
                    "type": "endpoint",
                    "name": "judge",
                    "url": grader_url,
                    "headers": {"Authorization": "Bearer grader-secret"},
                    "rate_limit": 50,
                },
                "tools": [
                    {"name": "search", "server_url": tool_url, "headers": {"X-Key": "tool-secret"}},
                    {"name": "cat", "server_url": tool_url, "our_note": "kept"},
                ],
                "max_episode_steps": 10,
                "hyperparameters": {"batch_size": 4, "compute_multiplier": 0.5, "future_knob": 3},
            },
        },
    }


@pytest.fixture
def plain_order(training_file: str) -> dict[str, Any]:
    """An order that uses nothing the SDK has no types for."""
    method = {"type": "reinforcement", "reinforcement": {"grader": EXACT, "hyperparameters": {"batch_size": 2}}}
    return {"model": "tiny", "training_file": training_file, "method": method, "metadata": {"team": "a"}, "seed": 7}
