"""A worker's surroundings: settings, database, files, jobs, and what the scripted trainer is to do."""

import json
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString

from psycopg.rows import dict_row

from rft.core.base import JsonObject
from rft.core.chat_spec import JobChat
from rft.core.ids import public_id
from rft.core.spec import RunSecrets
from rft.platform.files.repository import FileRepository
from rft.platform.lifecycle.expired_leases import ExpiredLeases
from rft.platform.lifecycle.records import NewJob
from rft.platform.lifecycle.repository import LifecycleRepository
from rft.platform.queue.messages import TaskMessage
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.platform.store.file_store import LocalFileStore
from rft.platform.store.secret_box import SecretBox
from rft.platform.worker.context import WorkerContext
from rft.platform.worker.validate_job import validate_job
from tests.integration.worker.scripted_trainer import Plan

TOOL = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
ROW = {"messages": [{"role": "user", "content": "How much?"}], "tools": [TOOL], "answer": 7}
AT_ONCE = ExpiredLeases(patience_s=0.0)
"""For a reconciler that waits for nobody whose lease has run out."""
SECRETS = RunSecrets(
    tool_headers={"search": {"Authorization": "Bearer tool-secret-value"}},
    grader_headers={"X-Key": "grader-secret-value"},
)


def jsonl(*rows: object) -> bytes:
    """Rows as a file."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@dataclass(slots=True)
class Workbench:
    """Everything a test of the worker needs."""

    folder: Path
    database_url: str
    database: Database
    enqueued: list[TaskMessage] = field(default_factory=list[TaskMessage])
    changed_settings: dict[str, object] = field(default_factory=dict[str, object])
    _read: tuple[object, Settings] | None = field(default=None, init=False)

    @property
    def environment(self) -> dict[str, object]:
        """Settings of a worker, by name."""
        return {
            "home": str(self.folder / "home"),
            "DATABASE_URL": self.database_url,
            "trainer_command": [sys.executable, "-m", "tests.integration.worker.scripted_trainer", str(self.control)],
            "lease_ttl_s": 60.0,
            "heartbeat_s": 0.5,
            "reconcile_s": 0.5,
            "trainer_grace_s": 2.0,
            **self.changed_settings,
        }

    @property
    def settings(self) -> Settings:
        """The same, read: anew once they have changed."""
        given = (self.environment, dict(os.environ))
        if self._read is None or self._read[0] != given:
            self._read = (given, Settings.model_validate(self.environment))
        return self._read[1]

    @property
    def control(self) -> Path:
        """Where the scripted trainer looks for its plan and leaves its traces."""
        return self.folder / "control"

    @property
    def launches(self) -> list[int]:
        """Process ids of all trainers started so far."""
        path = self.control / "launches"
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []

    def context(self, *, is_stopping: Callable[[], bool] = lambda: False) -> WorkerContext:
        """What a task gets."""
        return WorkerContext(
            settings=self.settings,
            database=self.database,
            file_store=LocalFileStore(self.settings.files_dir),
            secret_box=SecretBox.at(self.settings.home),
            is_stopping=is_stopping,
            enqueuer=self.enqueued.append,
        )

    def plan(self, plan: Plan) -> None:
        """What the scripted trainer is to do from its next launch on."""
        self.control.mkdir(exist_ok=True)
        (self.control / "plan.json").write_text(plan.model_dump_json())

    def run_dir(self, job_id: str) -> Path:
        """The job's run directory."""
        return self.settings.runs_dir / job_id

    async def upload(self, content: bytes) -> str:
        """A file, as if it had been uploaded."""
        file_id = public_id("file-", secrets.token_bytes(22), length=22)

        async def chunks() -> AsyncIterator[bytes]:
            yield content

        size = await LocalFileStore(self.settings.files_dir).put(file_id, chunks())
        async with self.database.transaction() as connection:
            await FileRepository(connection).insert(
                id=file_id, filename="rows.jsonl", purpose="fine-tune", bytes=size, storage_key=file_id
            )
        return file_id

    async def new_job(
        self,
        train: bytes | None = None,
        valid: bytes | None = None,
        *,
        base_model_path: str = "",
        tools: Any = None,
        chat: JobChat | None = None,
        hyperparameters: JsonObject | None = None,
        more: JsonObject | None = None,
    ) -> str:
        """A job that waits for validation; `hyperparameters` beside those that all have, `more` of the order."""
        reinforcement: JsonObject = {
            "grader": {"type": "endpoint", "name": "judge", "url": "http://127.0.0.1:9/grade"},
            "tools": [{"name": "search", "server_url": "http://127.0.0.1:9/tool"}] if tools is None else tools,
            "hyperparameters": {
                "batch_size": 2,
                "n_epochs": 1,
                "compute_multiplier": 0.5,
                **(hyperparameters or {}),
            },
            **(more or {}),
        }
        job = NewJob(
            id=public_id("ftjob-", secrets.token_bytes(24)),
            model="tiny",
            base_model_path=base_model_path or str(self.folder),
            chat=chat,
            training_file=await self.upload(jsonl(*({**ROW, "n": n} for n in range(6))) if train is None else train),
            validation_file=None if valid is None else await self.upload(valid),
            suffix="unit",
            seed=1,
            metadata=None,
            method={"type": "reinforcement", "reinforcement": reinforcement},
            request={"model": "tiny"},
            secrets=SecretBox.at(self.settings.home).seal(SECRETS),
        )
        async with self.database.transaction() as connection:
            await LifecycleRepository(connection).insert(job)
        return job.id

    async def queued_job(self) -> str:
        """A job whose files are validated."""
        job_id = await self.new_job()
        assert await validate_job(job_id, self.context()) == "queued"
        return job_id

    async def all(self, query: LiteralString, *values: object) -> list[dict[str, Any]]:
        """Rows of a query."""
        async with self.database.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
            return await (await cursor.execute(query, values)).fetchall()

    async def do(self, query: LiteralString, *values: object) -> None:
        """A change from outside."""
        async with self.database.transaction() as connection:
            await connection.execute(query, values)

    async def job(self, job_id: str) -> dict[str, Any]:
        """The job's row."""
        return (await self.all("select * from jobs where id = %s", job_id))[0]

    async def messages(self, job_id: str) -> list[str]:
        """What the job's events say, oldest first; metrics left out."""
        query = "select message from job_events where job_id = %s and type = 'message' order by seq"
        return [row["message"] for row in await self.all(query, job_id)]

    async def assert_every_step_once(self, job_id: str, *, steps: int, rollouts: int = 3) -> None:
        """Each step with its metrics event, its checkpoint and exactly its rollouts."""
        wanted = list(range(steps + 1))
        queries: list[LiteralString] = [
            "select step from steps where job_id = %s order by step",
            "select step from checkpoints where job_id = %s order by step",
            "select step from job_events where job_id = %s and type = 'metrics' order by step, seq",
        ]
        for query in queries:
            assert [row["step"] for row in await self.all(query, job_id)] == wanted, query
        counted = await self.all(
            "select step, split, count(*) as n from rollouts where job_id = %s group by step, split", job_id
        )
        assert {(row["step"], row["split"]): row["n"] for row in counted} == {
            (step, split): n for step in wanted for split, n in (("train", rollouts), ("valid", 1))
        }
        row = await self.job(job_id)
        assert row["trained_tokens"] == 100 * steps
