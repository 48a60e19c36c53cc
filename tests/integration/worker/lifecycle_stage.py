"""What the jobs' state machine plays on: jobs with real rows, workers and trainers, and what must hold of each."""

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rft.core.events import EventLine, RunEnded, RunStarted, TrainEvent
from rft.platform.api.errors import BadRequest
from rft.platform.store.database import Database
from rft.platform.store.unit_of_work import unit_of_work
from rft.platform.worker.validate_job import validate_job
from tests.integration.worker import quick_trainer
from tests.integration.worker.quick_trainer import ROLLOUTS, STEPS
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import attempts_made, hold_began, hold_ended, rollout_done, step_done
from tests.shared.waiting import until

T = TypeVar("T")
MOST_JOBS = 3
TERMINAL = ("succeeded", "failed", "cancelled")
TEMPLATES: tuple[TrainEvent, ...] = (
    RunStarted(resumed_from_step=None, total_steps=STEPS, pid=1),
    rollout_done("ftjob-template", 0, 0),
    attempts_made(0, "trace_template", None),
    step_done(0, STEPS),
    hold_began(0),
    hold_ended(0),
    RunEnded(outcome="succeeded", best_step=1, error_code="endpoint_down", error_message="It never came back."),
)


@dataclass(slots=True)
class Tracked:
    """One job, and what it must look like."""

    job_id: str
    state: str = "validating_files"
    """A status, or `held`."""
    last_step: int | None = None
    runner: "asyncio.Task[str] | None" = None
    is_stopping: bool = False

    @property
    def has_runner(self) -> bool:
        return self.state in ("running", "held")


class Stage:
    """Some jobs, one slot, and a loop that turns only while somebody does something."""

    def __init__(self, database_url: str) -> None:
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        folder = Path(self.folder.name)
        self.bench = Workbench(folder, database_url, Database(database_url))
        self.bench.control.mkdir()
        events = {event.type: event.model_dump(mode="json") for event in TEMPLATES}
        (self.bench.control / "events.json").write_text(json.dumps(events))
        self.bench.changed_settings = {
            # Neither site packages nor the environment: it starts four times as fast.
            "trainer_command": [sys.executable, "-I", "-S", quick_trainer.__file__, str(self.bench.control)],
            "max_launches_without_progress": 1000,
            "lease_ttl_s": 600.0,
            "heartbeat_s": 0.05,
            "trainer_grace_s": 30.0,
        }
        self.jobs: list[Tracked] = []
        self.do(self.bench.database.open())

    def create(self) -> None:
        """A customer's order, whose files nobody has looked at."""
        self.jobs.append(Tracked(self.do(self.bench.new_job())))

    def validate(self, job: Tracked) -> str:
        """Some worker gets the message of an order; what it says."""
        return self.do(validate_job(job.job_id, self.bench.context()))

    def close(self) -> None:
        """Nothing is left for the next machine to find."""
        self.do(self._end())
        self.runner.close()
        self.folder.cleanup()

    async def _end(self) -> None:
        for job in self.jobs:
            await abandon(job)
        await self.bench.do("delete from jobs")  # Or the next machine would find the slot taken.
        await self.bench.database.close()

    def do(self, work: Awaitable[T]) -> T:
        """Let the loop turn until this is done; workers get on meanwhile, and only then."""

        async def wait() -> T:
            return await work

        return self.runner.run(wait())

    async def check(self, job: Tracked) -> None:
        """Its rows, events and log agree with what happened to it."""
        row = await self.bench.job(job.job_id)
        assert row["status"] == ("paused" if job.state == "held" else job.state)
        assert (row["hold"] is not None) == (job.state == "held")
        assert (row["lease_owner"] is not None) == job.has_runner
        assert (row["finished_at"] is not None) == (job.state in TERMINAL)
        assert row["is_pause_requested"] is False
        assert row["current_step"] == job.last_step
        done = list(range(0 if job.last_step is None else job.last_step + 1))
        for table in ("steps", "checkpoints"):
            assert await self.steps_of(table, job) == done
        for table, wanted in (("rollouts", ROLLOUTS), ("attempts", 1)):
            found = await self.steps_of(table, job)
            assert [step for step in found if step in done] == sorted(done * wanted), table
        metrics = await self.bench.all(
            "select step from job_events where job_id = %s and type = 'metrics' order by seq", job.job_id
        )
        assert [event["step"] for event in metrics] == done
        log = self.bench.run_dir(job.job_id) / "events.jsonl"
        lines = log.read_bytes().splitlines() if log.exists() else []
        assert [EventLine.model_validate_json(line).seq for line in lines] == list(range(1, len(lines) + 1))
        assert row["last_event_seq"] <= len(lines)

    async def steps_of(self, table: str, job: Tracked) -> list[int]:
        """The steps of a table's rows, in order."""
        queries = {
            "steps": "select step from steps where job_id = %s order by step",
            "checkpoints": "select step from checkpoints where job_id = %s order by step",
            "rollouts": "select step from rollouts where job_id = %s order by step",
            "attempts": "select step from attempts where job_id = %s order by step",
        }
        query: Any = queries[table]
        return [row["step"] for row in await self.bench.all(query, job.job_id)]

    def running(self) -> Tracked:
        """The job that has the slot."""
        return next(job for job in self.jobs if job.has_runner)

    def is_free(self) -> bool:
        """Whether nobody has the slot."""
        return not any(job.has_runner for job in self.jobs)

    def one_of(self, number: int, state: str) -> Tracked:
        """One of the jobs in this state; of all, when none is."""
        found = [job for job in self.jobs if job.state == state] or self.jobs
        return found[number % len(found)]

    def launches(self, job: Tracked) -> list[int]:
        """Process ids of all its trainers."""
        path = self.bench.control / f"{job.job_id}.launches"
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []

    async def launched(self, job: Tracked, launches: int) -> None:
        """Its n-th trainer is there, and its first word is stored."""

        def is_there() -> bool:
            assert job.runner is None or not job.runner.done(), job.runner
            return len(self.launches(job)) >= launches

        await until(is_there, "a trainer")
        log = self.bench.run_dir(job.job_id) / "events.jsonl"
        await until(lambda: log.exists() and log.read_bytes().count(b'"run_started"') >= launches, "its first word")
        await self.stored(job)

    async def stored(self, job: Tracked) -> None:
        """All that the trainer said is in the database."""
        log = self.bench.run_dir(job.job_id) / "events.jsonl"
        await self.until_row(job, "last_event_seq", log.read_bytes().count(b"\n"))

    async def until_row(self, job: Tracked, column: str, value: object) -> None:
        """The job's row says so."""

        async def is_so() -> bool:
            return (await self.bench.job(job.job_id))[column] == value

        await until(is_so, f"{column} of {job} to be {value}")

    def command(self, job: Tracked, command: str) -> None:
        """Say it to the job's trainer."""
        with (self.bench.control / f"{job.job_id}.commands").open("a") as commands:
            commands.write(f"{command}\n")

    def outcome(self, job: Tracked) -> str:
        """What the job's worker returns."""
        assert job.runner is not None
        task, job.runner = job.runner, None
        return self.do(task)

    def asks(self, move: Callable[..., Awaitable[object]], job: Tracked, *, is_allowed: bool) -> bool:
        """Whether the customer's wish was granted; it must be exactly when it is allowed."""

        async def ask() -> bool:
            try:
                async with unit_of_work(self.bench.database, lambda message: None) as uow:
                    await move(uow, job.job_id)
            except BadRequest:
                return False
            return True

        granted = self.do(ask())
        assert granted == is_allowed, job
        return granted


async def abandon(job: Tracked) -> None:
    """Its worker is gone in the middle of whatever it did."""
    if job.runner is not None:
        job.runner.cancel()
        await asyncio.wait([job.runner])
        job.runner = None
