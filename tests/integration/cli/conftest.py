"""The command line against the API on a real socket, with a real database and a customer on this machine."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from rft.core.events import TrainEvent
from rft.core.progress import RunProgress
from rft.platform.api.key_repository import create_key
from rft.platform.cli.app import app
from rft.platform.lifecycle.events import notify
from rft.platform.lifecycle.job_lease import take
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.run_repository import RunRepository
from rft.platform.settings import settings
from rft.platform.store.database import Database
from rft.platform.worker.ingest import Ingest
from rft.platform.worker.metrics_event import GraderLabel
from rft.testing.endpoint import ScriptedEndpoint, ScriptedTools
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.worker.workbench import Workbench
from tests.shared.running_api import ReceivedMessages, Served
from tests.shared.train_events import logged


@dataclass(frozen=True, slots=True)
class Done:
    """A command that ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What `--json` printed."""
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Shell:
    """Where commands are typed: an environment that names the platform."""

    environment: dict[str, str]
    folder: Path

    async def rft(self, *arguments: object, typed: str | None = None, **changed: str) -> Done:
        """Run a command beside the test's loop, which serves the customer."""
        result = await asyncio.to_thread(
            CliRunner().invoke,
            app,
            [str(argument) for argument in arguments],
            input=typed,
            env={**self.environment, **changed},
        )
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    async def ok(self, *arguments: object, typed: str | None = None) -> Done:
        """Run a command that has to succeed."""
        done = await self.rft(*arguments, typed=typed)
        assert done.status == 0, done.err + done.out
        return done

    def start(self, *arguments: object, **more: Any) -> subprocess.Popen[str]:
        """A command in a process of its own, whose terminal has the size that it tells itself."""
        command = [sys.executable, "-m", "rft.platform.cli", *(str(argument) for argument in arguments)]
        around = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        environment = {**around, **self.environment, "TERM": "xterm-256color"}
        return subprocess.Popen(command, env=environment, text=True, **more)

    def write(self, name: str, content: object) -> str:
        """A JSON file in the current directory."""
        return self.put(name, json.dumps(content).encode())

    def put(self, name: str, content: bytes) -> str:
        """Any file in the current directory."""
        (self.folder / name).write_bytes(content)
        return name

    def content(self, name: str) -> bytes:
        """What a file holds."""
        return (self.folder / name).read_bytes()


@pytest.fixture
async def bench(migrated_url: str, tmp_path: Path) -> AsyncIterator[Workbench]:
    """Settings, database and files of a platform with one base model."""
    (tmp_path / "tiny").mkdir()
    async with Database(migrated_url) as database:
        changed: dict[str, object] = {
            "base_models": {"tiny": str(tmp_path / "tiny")},
            "probe_timeout_s": 20.0,
            "max_retries": 0,
        }
        yield Workbench(tmp_path, migrated_url, database, changed_settings=changed)


@pytest.fixture
async def shell(bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shell]:
    """A shell whose environment names the running API."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "RFT_BASE_URL", "RFT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RFT_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path)
    settings.cache_clear()
    async with await psycopg.AsyncConnection.connect(bench.database_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    with Served(bench.settings, ReceivedMessages()) as port:
        named = {"RFT_BASE_URL": f"http://127.0.0.1:{port}/v1", "RFT_API_KEY": key}
        yield Shell({**named, "RFT_HOME": str(tmp_path / "elsewhere")}, tmp_path)
    settings.cache_clear()


@pytest.fixture
async def customer() -> AsyncIterator[LoopbackEndpoint]:
    """The customer's tools and grader."""
    tools = ScriptedTools({"search": lambda arguments, row: f"{arguments['query']}: {row.get('answer')}"})
    async with LoopbackEndpoint(ScriptedEndpoint(tools)) as endpoint:
        yield endpoint


class Run:
    """A running job and the one who writes its events."""

    def __init__(self, bench: Workbench, ingest: Ingest) -> None:
        self._bench, self._ingest = bench, ingest
        self._seq = 0
        self.job_id = ingest.lease.id

    async def tell(self, *events: TrainEvent) -> None:
        """Store what a trainer would have written."""
        async with self._bench.database.transaction() as connection:
            stored = await self._ingest.batch(connection, logged(events, after=self._seq))
        self._seq = stored.last_seq

    async def now(self, progress: RunProgress) -> None:
        """Store what its trainer says that it is doing, as its worker does with each heartbeat."""
        async with self._bench.database.transaction() as connection:
            await RunRepository(connection, self._ingest.lease).set_progress(progress)
            await notify(connection, self.job_id)


@pytest.fixture
async def run(bench: Workbench) -> Run:
    """A job whose trainer has just been started."""
    job_id = await bench.queued_job()
    async with bench.database.connection() as connection:
        lease = await take(connection, job_id, owner="here/1/a", ttl_s=600, slots=1)
    assert isinstance(lease, Lease)
    return Run(bench, Ingest(lease, (GraderLabel("judge", "endpoint"),), f"ft:tiny:local:unit:{job_id[-8:]}"))
