"""The API on a real socket with a real database, and the official SDK as its only caller."""

import socket
from collections.abc import AsyncIterator, Iterator
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
async def api(migrated_url: str, tmp_path: Path, base_model: Path) -> AsyncIterator[Api]:
    """The API, served by uvicorn."""
    settings = Settings.model_validate(
        {
            "home": tmp_path / "home",
            "DATABASE_URL": migrated_url,
            "base_models": {"tiny": str(base_model), "lab/tiny": str(base_model), "lost": str(tmp_path / "nowhere")},
            "probe_timeout_s": 20.0,
        }
    )
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    messages = ReceivedMessages()
    with Served(settings, messages) as port:
        yield Api(url=f"http://127.0.0.1:{port}", key=key, settings=settings, messages=messages)


@pytest.fixture
async def client(api: Api) -> AsyncIterator[AsyncOpenAI]:
    """The official SDK."""
    async with AsyncOpenAI(base_url=f"{api.url}/v1", api_key=api.key, max_retries=0) as sdk:
        yield sdk


@pytest.fixture
async def customer() -> AsyncIterator[LoopbackEndpoint]:
    """The customer's tools and grader."""
    async with LoopbackEndpoint(ScriptedEndpoint()) as endpoint:
        yield endpoint


@pytest.fixture
def refused_url() -> Iterator[str]:
    """A port of this machine where nobody listens, and nobody can as long as the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/"


@pytest.fixture
async def training_file(client: AsyncOpenAI) -> str:
    """The id of an uploaded training file."""
    return (await upload(client)).id


@pytest.fixture
def order(training_file: str, customer: LoopbackEndpoint) -> dict[str, Any]:
    """Arguments of `jobs.create` that pass every check."""
    return {
        "model": "tiny",
        "training_file": training_file,
        "method": {
            "type": "reinforcement",
            "reinforcement": {
                "grader": {
                    "type": "endpoint",
                    "name": "judge",
                    "url": customer.grader_url,
                    "headers": {"Authorization": "Bearer grader-secret"},
                    "rate_limit": 50,
                },
                "tools": [
                    {"name": "search", "server_url": customer.tool_url, "headers": {"X-Key": "tool-secret"}},
                    {"name": "cat", "server_url": customer.tool_url, "our_note": "kept"},
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
