"""A platform with a base model and a finished job, whose checkpoints can be asked; one serving process for a module."""

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from openai import AsyncOpenAI
from psycopg.types.json import Jsonb

from rft.platform.api.key_repository import create_key
from rft.platform.settings import Settings
from rft.serving_wire.endpoint_file import read_endpoint
from tests.shared.emptied_database import EmptiedDatabase
from tests.shared.running_api import EXACT, Api, ReceivedMessages, Served, upload

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
STEPS = {2: True, 4: False, 6: True}
"""Steps of the job, and whether their checkpoint is kept; the last one is its model."""


@dataclass(frozen=True, slots=True)
class ServedPlatform:
    """A running API."""

    api: Api
    database_url: str
    job_id: str

    @property
    def model(self) -> str:
        """The job's."""
        return f"ft:tiny:local::{self.job_id[-8:]}"

    def checkpoint(self, step: int) -> str:
        """Its name as a model."""
        return f"{self.model}:ckpt-step-{step}"

    def folder(self, step: int) -> Path:
        """Of a checkpoint."""
        return self.api.settings.runs_dir / self.job_id / f"checkpoints/checkpoint-{step}"

    def sdk(self, max_retries: int = 0) -> AsyncOpenAI:
        """The official SDK."""
        return AsyncOpenAI(base_url=f"{self.api.url}/v1", api_key=self.api.key, max_retries=max_retries, timeout=600.0)


@contextmanager
def served_platform(
    database: EmptiedDatabase, home: Path, base_model: Path, **changes: Any
) -> Generator[ServedPlatform]:
    """`changes`: settings. Its checkpoints have no adapters yet."""
    with database.lend() as url:
        settings = Settings.model_validate(
            {
                "home": home,
                "DATABASE_URL": url,
                "base_models": {"tiny": str(base_model), "other": str(base_model.parent / "other")},
                "torch_threads": 1,
                "serving_start_s": 600.0,
                "serving_queue_s": 600.0,
                "serving_reserve_bytes": 0,
                **changes,
            }
        )
        key = asyncio.run(_key(url))
        messages = ReceivedMessages()
        with Served(settings, messages) as port:
            api = Api(url=f"http://127.0.0.1:{port}", key=key, settings=settings, messages=messages)
            yield ServedPlatform(api, url, asyncio.run(finished_job(api, url)))


@contextmanager
def scripted_platform(
    database: EmptiedDatabase, home: Path, base_model: Path, **more: Any
) -> Generator[ServedPlatform]:
    """One whose models write what `tests.shared.scripted_engine` has them write, one request at a time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        engine = "tests.shared.scripted_engine:scripted_engine"
        changes: Any = {"engine": engine, "serving_requests_at_once": 1, "serving_models": 1, **more}
        with served_platform(database, home, base_model, **changes) as running:
            yield running


def serving_pid(platform: ServedPlatform) -> int | None:
    """Of the one serving process; None where none listens."""
    folders = platform.api.settings.serving_dir.iterdir()
    found = [endpoint.pid for endpoint in map(read_endpoint, folders) if endpoint is not None]
    assert len(found) < 2
    return found[0] if found else None


async def _key(url: str) -> str:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        return await create_key(connection, "tests")


async def finished_job(api: Api, url: str) -> str:
    """The id of a job that has succeeded, with checkpoints whose folders are empty. `url`: of the database."""
    method: Any = {"type": "reinforcement", "reinforcement": {"grader": EXACT, "hyperparameters": {"batch_size": 2}}}
    async with AsyncOpenAI(base_url=f"{api.url}/v1", api_key=api.key, max_retries=0) as client:
        file = await upload(client)
        job = await client.fine_tuning.jobs.create(model="tiny", training_file=file.id, method=method, seed=7)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for step, is_kept in STEPS.items():
            path = f"checkpoints/checkpoint-{step}"
            await connection.execute(
                "insert into checkpoints (id, job_id, step, path, metrics, is_kept) values (%s, %s, %s, %s, %s, %s)",
                (f"ftckpt_{step}", job.id, step, path, Jsonb({"full_valid_mean_reward": step / 10}), is_kept),
            )
            if is_kept:
                (api.settings.runs_dir / job.id / path).mkdir(parents=True)
        await connection.execute(
            "update jobs set status = 'succeeded', best_step = %s, finished_at = now(), fine_tuned_model = %s",
            (max(STEPS), f"ft:tiny:local::{job.id[-8:]}"),
        )
    return job.id
