"""A run whose rollouts worker processes run: queue, database, inbox and gateway services are real."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from rft.core.spec import RolloutWorkersSpec, RunSecrets, VllmSpec
from rft.gateway_service.settings import ServiceSettings
from rft.grader_gateway import app as grader_gateway
from rft.platform.lifecycle.lease import Lease
from rft.platform.rollout_inbox.repository import open_inbox
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.testing.loopback import LoopbackEndpoint
from rft.tool_gateway import app as tool_gateway
from tests.e2e.trainer.harness import Customer, Trainer, write_run
from tests.shared.given_out_run import CONTEXT_TOKENS, GATEWAY_TOKEN, VLLM_KEY, TalkingVllm, WorkerProcess, leased_job
from tests.shared.running_api import ReceivedMessages, Served
from tests.shared.running_service import RunningService

TOOL_KEY = "tool-secret"
ENGINE = "tests.e2e.trainer.unprobed_vllm:unprobed_vllm"


@dataclass(slots=True)
class GivenOutRun:
    """One run directory; trainers and workers are started as a test wants them."""

    run_dir: Path
    database: Database
    lease: Lease
    broker_url: str
    workers: list[WorkerProcess] = field(default_factory=list[WorkerProcess])

    async def launch(self) -> Trainer:
        """A trainer, with an empty inbox before it, as the platform does it."""
        async with self.database.transaction() as connection:
            token = await open_inbox(connection, self.lease)
        secrets = RunSecrets(
            tool_headers={"search": {"X-Key": TOOL_KEY}}, gateway_token=GATEWAY_TOKEN, vllm_api_key=VLLM_KEY,
            broker_url=self.broker_url, inbox_token=str(token),
        )  # fmt: skip
        return Trainer.start(self.run_dir, secrets)

    def start_worker(self) -> WorkerProcess:
        """One more."""
        log = self.run_dir.with_name(f"worker-{len(self.workers)}.log")
        self.workers.append(WorkerProcess(self.broker_url, log))
        return self.workers[-1]

    async def left_in_inbox(self) -> tuple[int, int]:
        """Shards, and rollouts that nobody has read."""
        async with self.database.transaction() as connection:
            cursor = await connection.execute(
                "select (select count(*) from rollout_shards), (select count(*) from inbox_rollouts)"
            )
            [(shards, rollouts)] = await cursor.fetchall()
        return shards, rollouts


@asynccontextmanager
async def given_out_run(
    folder: Path, base_model: Path, customer: Customer, *, database_url: str, broker_url: str, **changes: Any
) -> AsyncGenerator[GivenOutRun]:
    """`changes`: of the run's specification. Workers that are left are killed at the end."""
    settings = Settings.model_validate({"home": folder / "home", "DATABASE_URL": database_url})
    services = ServiceSettings(gateway_token=SecretStr(GATEWAY_TOKEN))
    async with (
        Database(database_url) as database,
        LoopbackEndpoint(TalkingVllm(base_model, max_model_len=CONTEXT_TOKENS)) as vllm,
    ):
        lease = await leased_job(database)
        with (
            Served(settings, ReceivedMessages()) as port,
            RunningService(tool_gateway.create_app(services)) as tools,
            RunningService(grader_gateway.create_app(services)) as graders,
        ):
            run_dir = write_run(
                folder / "run", base_model, customer.url, engine=ENGINE, job_id=lease.id,
                tool_gateway_url=tools.url, grader_gateway_url=graders.url, vllm=VllmSpec(servers=(vllm.base_url,)),
                rollout_workers=RolloutWorkersSpec(platform_url=f"http://127.0.0.1:{port}"), **changes,
            )  # fmt: skip
            run = GivenOutRun(run_dir, database, lease, broker_url)
            try:
                yield run
            finally:
                for worker in run.workers:
                    worker.end()
