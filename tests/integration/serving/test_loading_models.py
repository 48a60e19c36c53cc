"""A model that is being loaded for somebody is not stopped for another one, nor is its memory promised to others."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rft.core.chat_spec import ChatSpec
from rft.platform.api.errors import Unavailable
from rft.platform.serving import processes as processes_module
from rft.platform.serving.process import ServingProcess, start_process
from rft.platform.serving.processes import ServingProcesses
from rft.platform.serving.served_model import ServedModel
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.platform.store.stop_tasks import stop_tasks
from rft.serving_wire.endpoint_file import read_endpoint
from tests.shared.waiting import until

LOADER = """
import os, socket, sys, time
from pathlib import Path
from rft.serving_wire.endpoint_file import endpoint_file
from rft.serving_wire.records import ServingEndpoint, ServingSpec

spec = ServingSpec.model_validate_json(sys.stdin.read())
while not (Path(spec.folder) / "loaded").exists():
    time.sleep(0.01)
server = socket.create_server(("127.0.0.1", 0))
with endpoint_file(Path(spec.folder), ServingEndpoint(port=server.getsockname()[1], token="t", pid=os.getpid())):
    server.accept()
"""
"""Listens once a file says that the model is loaded, and gives way to whoever asks it to."""
ONE, OTHER = ServedModel("org/one", ChatSpec(), None), ServedModel("org/other", ChatSpec(), None)


@asynccontextmanager
async def opened(url: str, home: Path, **changes: Any) -> AsyncGenerator[ServingProcesses]:
    settings = Settings.model_validate({"home": home, "serving_models": 1, **changes})
    async with Database(url) as database:
        processes = ServingProcesses(settings, database, command=(sys.executable, "-c", LOADER))
        try:
            yield processes
        finally:
            await processes.aclose()


async def ask(processes: ServingProcesses, model: ServedModel) -> str:
    """What comes of a request that ends at once."""
    try:
        async with processes.serving(model):
            return "answered"
    except Unavailable as error:
        return str(error.code)


async def starting(processes: ServingProcesses, model: ServedModel) -> "asyncio.Task[str]":
    """A request whose model's process runs and does not listen yet."""
    asked = asyncio.create_task(ask(processes, model))
    await until(lambda: (processes.folder_of(model) / "serving.log").exists(), "its process runs")
    return asked


def load(processes: ServingProcesses, model: ServedModel) -> None:
    folder = processes.folder_of(model)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "loaded").touch()


async def test_a_model_that_somebody_waits_for_is_not_stopped_for_another_one(
    migrated_url: str, tmp_path: Path
) -> None:
    async with opened(migrated_url, tmp_path) as processes:
        first = await starting(processes, ONE)
        load(processes, OTHER)
        assert await ask(processes, OTHER) == "serving_slots_in_use"
        load(processes, ONE)
        assert await first == "answered"
        assert await ask(processes, OTHER) == "answered"  # The first one is idle now.


async def test_a_model_is_not_stopped_while_who_was_told_to_come_again_may_come(
    migrated_url: str, tmp_path: Path
) -> None:
    async with opened(migrated_url, tmp_path, serving_start_s=0.5) as processes:
        assert await ask(processes, ONE) == "model_loading"
        load(processes, OTHER)
        assert await ask(processes, OTHER) == "serving_slots_in_use"
        load(processes, ONE)
        await until(lambda: read_endpoint(processes.folder_of(ONE)) is not None, "it listens")
        assert await ask(processes, ONE) == "answered"


async def test_a_model_that_nobody_waits_for_any_more_gives_way(migrated_url: str, tmp_path: Path) -> None:
    async with opened(migrated_url, tmp_path) as processes:
        first = await starting(processes, ONE)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        load(processes, OTHER)
        assert await ask(processes, OTHER) == "answered"


async def test_memory_that_a_model_will_take_is_not_free(
    migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "free_bytes", lambda: 12 << 30)  # As long as neither has read its weights.
    one, other = weighing(tmp_path / "one", 8 << 30), weighing(tmp_path / "other", 8 << 30)
    async with opened(migrated_url, tmp_path / "home", serving_models=2) as processes:
        first = await starting(processes, one)
        load(processes, other)
        assert await ask(processes, other) == "not_enough_memory"
        load(processes, one)
        assert await first == "answered"
        assert await ask(processes, other) == "answered"  # What the system says counts once more.


def weighing(folder: Path, size: int) -> ServedModel:
    """A model whose weights take no room on the disk."""
    folder.mkdir()
    with (folder / "model.safetensors").open("wb") as weights:
        weights.truncate(size)
    return ServedModel(str(folder), ChatSpec(), None)


@pytest.mark.parametrize("is_told_again", [False, True], ids=["once", "until it has ended"])
async def test_a_client_that_hangs_up_while_the_process_starts_leaves_one_that_is_known(
    migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_told_again: bool
) -> None:
    """Neither its lease nor the process itself is left to nobody: the next request is answered at once."""
    begins = asyncio.Event()

    async def start_slowly(*wanted: Any) -> ServingProcess:
        begins.set()
        await asyncio.sleep(0.5)
        return await start_process(*wanted)

    monkeypatch.setattr(processes_module, "start_process", start_slowly)
    async with opened(migrated_url, tmp_path) as processes:
        load(processes, ONE)
        asked = asyncio.create_task(ask(processes, ONE))
        await begins.wait()
        asked.cancel()
        if is_told_again:
            await stop_tasks(asked)
        assert isinstance(*await asyncio.gather(asked, return_exceptions=True), asyncio.CancelledError)
        async with asyncio.timeout(processes.settings.lease_ttl_s / 2):
            assert await ask(processes, ONE) == "answered"
