"""The API with a judge, and little patience."""

from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from rft.platform.api.key_repository import create_key
from rft.platform.settings import Settings
from rft.testing.judge import Completion, ScriptedJudge
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.running_api import Api, ReceivedMessages, Served


@pytest.fixture
async def judge() -> ScriptedJudge:
    """What the judge says is set by each test."""
    return ScriptedJudge(Completion('{"steps": [], "result": 0.75}', cached_tokens=10), api_key="sk-judge-secret")


@pytest.fixture
async def api(migrated_url: str, tmp_path: Path, judge: ScriptedJudge) -> AsyncIterator[Api]:
    """The API with a judge, and little patience."""
    async with LoopbackEndpoint(judge) as courtroom:
        settings = Settings.model_validate(
            {
                "home": tmp_path / "home",
                "DATABASE_URL": migrated_url,
                "judge_base_url": f"{courtroom.base_url}/v1",
                "judge_api_key": "sk-judge-secret",
                "max_retries": 1,
                "retry_first_wait_s": 0.01,
            }
        )
        async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
            key = await create_key(connection, "tests")
        messages = ReceivedMessages()
        with Served(settings, messages) as port:
            yield Api(url=f"http://127.0.0.1:{port}", key=key, settings=settings, messages=messages)
