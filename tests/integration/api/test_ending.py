"""The API ends when it is told to, also where what goes on in it loses a cancellation."""

import asyncio
from pathlib import Path

import pytest

from rft.platform import app as app_module
from rft.platform.api import task_set
from rft.platform.api.task_set import TaskSet
from rft.platform.settings import Settings
from tests.shared.running_api import ReceivedMessages

PATIENCE_S = 20.0


async def loses_one(*_args: object, **_options: object) -> None:
    """As `asyncio.wait_for` of Python 3.11 does when what it waits for ends in the same moment."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()


async def test_a_chore_that_loses_its_cancellation_does_not_keep_it_alive(
    migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "reconcile_forever", loses_one)
    settings = Settings.model_validate({"home": tmp_path, "DATABASE_URL": migrated_url})
    app = app_module.create_app(settings, enqueuer=ReceivedMessages())
    async with asyncio.timeout(PATIENCE_S), app.router.lifespan_context(app):
        await asyncio.sleep(0)  # The chores have begun.


async def test_nor_does_a_task_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_set, "_END_S", 0.05)
    tasks = TaskSet()
    tasks.start(loses_one(), name="heavy")
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        await tasks.aclose()
