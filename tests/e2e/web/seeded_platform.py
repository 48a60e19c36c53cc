"""A platform whose database is filled by the real ingest, without a worker or a trainer."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rft.core.base import JsonObject
from rft.core.events import TrainEvent
from rft.core.hyperparameters import ResolvedHyperparameters
from rft.core.ids import public_id
from rft.core.job import JobStatus
from rft.core.progress import RunProgress
from rft.platform.lifecycle.ending import add_paused_event, pause_for_failure
from rft.platform.lifecycle.job_lease import release, take
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.records import JobError, NewJob
from rft.platform.lifecycle.repository import LifecycleRepository
from rft.platform.lifecycle.run_repository import RunRepository
from rft.platform.store.database import Database
from rft.platform.worker.ingest import Ingest
from rft.platform.worker.log_line import read_line
from rft.platform.worker.metrics_event import GraderLabel
from tests.e2e.web.run_records import RunShape, lines

CUSTOMER = "http://127.0.0.1:9301"
METHOD: JsonObject = {
    "type": "reinforcement",
    "reinforcement": {
        "grader": {"type": "endpoint", "name": "answer_credit", "url": f"{CUSTOMER}/grade"},
        "tools": [{"name": name, "server_url": f"{CUSTOMER}/tools/{name}"} for name in ("search", "list", "cat")],
        "max_episode_steps": 10,
        "hyperparameters": {"batch_size": 4, "n_epochs": "auto"},
    },
}


@dataclass(slots=True)
class SeededJob:
    """A job and the pen that writes its history."""

    database: Database
    shape: RunShape
    suffix: str
    ingest: Ingest | None = None
    last_seq: int = 0

    @property
    def id(self) -> str:
        """The job's id."""
        return self.shape.job_id

    async def start(self) -> None:
        """Take the lease, as a worker does."""
        async with self.database.connection() as connection:
            lease = await take(connection, self.id, owner="here/1/a", ttl_s=600, slots=100)
        assert isinstance(lease, Lease)
        name = f"ft:starter:local:{self.suffix}:{self.id[-8:]}"
        self.ingest = Ingest(lease, (GraderLabel("answer_credit", "endpoint"),), name)

    async def stop(self) -> None:
        """Let the job rest, as a worker does whose customer asked for a pause."""
        assert self.ingest is not None, "start the job first"
        async with self.database.transaction() as connection:
            await release(connection, self.ingest.lease, JobStatus.PAUSED)
            await add_paused_event(connection, self.id, None, key="paused")

    async def fail_as_platform(self, message: str) -> None:
        """Pause the job, as a worker does where the platform failed it."""
        assert self.ingest is not None, "start the job first"
        async with self.database.transaction() as connection:
            error = JobError(code="platform_failure", message=message)
            await pause_for_failure(connection, self.ingest.lease, error, key="failed")

    async def tell(self, progress: RunProgress) -> None:
        """Say what it is doing now, as a worker does."""
        assert self.ingest is not None, "start the job first"
        async with self.database.transaction() as connection:
            await RunRepository(connection, self.ingest.lease).set_progress(progress)

    async def write(self, events: Sequence[TrainEvent]) -> None:
        """Store events as the worker does."""
        assert self.ingest is not None, "start the job first"
        numbered = lines(events, first_seq=self.last_seq + 1, at=self.shape.started_at + self.last_seq / 10)
        logged = [read_line(line.model_dump_json().encode() + b"\n") for line in numbered]
        async with self.database.transaction() as connection:
            self.last_seq = (await self.ingest.batch(connection, logged)).last_seq


@dataclass(slots=True)
class Platform:
    """A served dashboard and what stands behind it."""

    url: str
    key: str
    database: Database
    jobs: list[SeededJob] = field(default_factory=list[SeededJob])

    async def new_job(
        self,
        *,
        suffix: str,
        seed: int = 1,
        total_steps: int = 8,
        failing_share: float = 0.0,
        valid_rows: int = 12,
        began_s_ago: float = 600,
    ) -> SeededJob:
        """A queued job whose files were validated."""
        job_id = public_id("ftjob-", secrets.token_bytes(24))
        shape = RunShape(
            job_id=job_id,
            seed=seed,
            total_steps=total_steps,
            failing_share=failing_share,
            valid_rows=valid_rows,
            eval_interval=2,
            started_at=time.time() - began_s_ago,
        )
        resolved = ResolvedHyperparameters(
            n_epochs=2,
            batch_size=shape.rows,
            learning_rate_multiplier=1.0,
            compute_multiplier=1.0,
            eval_interval=shape.eval_interval,
            eval_samples=1,
            group_size=shape.group_size,
            steps=total_steps,
        )
        async with self.database.transaction() as connection:
            await LifecycleRepository(connection).insert(_order(job_id, suffix))
            await connection.execute(
                "update jobs set status = 'queued', resolved = %s where id = %s", (resolved.model_dump_json(), job_id)
            )
        self.jobs.append(SeededJob(self.database, shape, suffix))
        return self.jobs[-1]


def _order(job_id: str, suffix: str) -> NewJob:
    return NewJob(
        id=job_id,
        model="starter",
        base_model_path="starter",
        training_file="file-3Kd91jWmzQpLxV5Tn8RbYc",
        validation_file="file-7Hs22kPqYvNcXw4Lm9TgZa",
        suffix=suffix,
        seed=17,
        metadata={"team": "reports"},
        method=METHOD,
        request={"model": "starter"},
        secrets=None,
    )
