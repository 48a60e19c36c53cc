"""Customers, trainers and workers do what they like in any order: the job's row keeps telling the truth."""

import asyncio
import os
import signal
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rft.platform.jobs import service
from rft.platform.lifecycle.owner import is_alive
from rft.platform.store.unit_of_work import unit_of_work
from rft.platform.worker import job_run, trainer_run
from rft.platform.worker.reconciler import reconcile_once
from rft.platform.worker.run_job import run_job
from tests.integration.worker.lifecycle_stage import MOST_JOBS, TERMINAL, Stage, Tracked, abandon
from tests.integration.worker.quick_trainer import STEPS
from tests.integration.worker.workbench import AT_ONCE

PATIENT_MOVES = 12
NOT_TO_BE_PAUSED = (*TERMINAL, "validating_files")
ALL = st.integers(0, MOST_JOBS - 1)


class Lifecycle(RuleBasedStateMachine):
    """Up to three jobs, one slot, one customer, workers and trainers that come and go."""

    database_url: ClassVar[str]
    stage: Stage

    def __init__(self) -> None:
        super().__init__()
        self.moves = 0

    @initialize()
    def open(self) -> None:
        """A stage of its own over the common database."""
        self.stage = Stage(self.database_url)
        self.stage.create()
        self.validate(0)
        self.stage.create()

    def teardown(self) -> None:
        if hasattr(self, "stage"):
            self.stage.close()

    @property
    def jobs(self) -> list[Tracked]:
        """None before the stage is set."""
        return self.stage.jobs if hasattr(self, "stage") else []

    def some(self, number: int) -> Tracked:
        """Whatever its state."""
        return self.jobs[number % len(self.jobs)]

    # What workers do.

    @precondition(lambda self: any(job.state == "validating_files" for job in self.jobs))
    @rule(number=ALL)
    def validate(self, number: int) -> None:
        """Some worker reads a new job's files."""
        job = self.stage.one_of(number, "validating_files")
        assert self.stage.validate(job) == "queued"
        job.state = "queued"

    @precondition(lambda self: self.moves % 4 == 1)
    @rule(number=ALL)
    def stray_order(self, number: int) -> None:
        """An order's message that was sent twice, or too late."""
        job = self.some(number)
        if job.state != "validating_files":
            assert self.stage.validate(job) == "not to be validated"

    @precondition(lambda self: self.stage.is_free() and any(job.state == "queued" for job in self.jobs))
    @rule(number=ALL)
    def message(self, number: int) -> None:
        """Some worker gets the message of a queued job."""
        self.deliver(self.stage.one_of(number, "queued"))

    @precondition(lambda self: self.moves % 4 == 3)
    @rule(number=ALL)
    def stray_message(self, number: int) -> None:
        """A message that was sent twice, or too late, or for a host that is full."""
        self.deliver(self.some(number))

    def deliver(self, job: Tracked) -> None:
        """Have a worker run the job if it may."""
        is_runnable = job.state == "queued"
        if is_runnable:  # The oldest goes first, whosever message it was.
            job = next(other for other in self.jobs if other.state == "queued")
        is_full = any(other.has_runner for other in self.jobs if other is not job)
        launches = len(self.stage.launches(job))

        async def run() -> None:
            task = asyncio.create_task(
                run_job(job.job_id, self.stage.bench.context(is_stopping=lambda: job.is_stopping))
            )
            if not is_runnable or is_full:
                refusal = "no_slot" if is_full else "not_runnable"
                ended = {"was over"} if job.state in ("cancelled", "failed", "succeeded") else set[str]()
                assert await task in {refusal} | ended
                return
            job.runner, job.is_stopping = task, False
            await self.stage.launched(job, launches + 1)

        self.stage.do(run())
        if is_runnable and not is_full:
            job.state = "running"

    @precondition(lambda self: self.moves % 2 == 0)
    @rule()
    def reconcile(self) -> None:
        """Nobody is lost, so nothing changes."""
        self.stage.do(reconcile_once(self.stage.bench.database, AT_ONCE, reconcile_s=0, enqueuer=lambda message: None))

    @precondition(lambda self: any(job.has_runner for job in self.jobs))
    @rule(is_to_pause=st.booleans())
    def worker_dies(self, is_to_pause: bool) -> None:
        """Without a word; its trainer dies with it."""
        job = self.stage.running()

        async def die() -> None:
            if is_to_pause:
                async with unit_of_work(self.stage.bench.database, lambda message: None) as uow:
                    await service.pause_job(uow, job.job_id)
            await abandon(job)
            await self.stage.bench.do(
                "update jobs set lease_until = clock_timestamp() where id = %s and lease_owner is not null", job.job_id
            )
            await reconcile_once(self.stage.bench.database, AT_ONCE, reconcile_s=0, enqueuer=lambda message: None)

        self.stage.do(die())
        job.state = "paused" if is_to_pause else "queued"

    @precondition(lambda self: any(job.has_runner for job in self.jobs))
    @rule()
    def worker_stops(self) -> None:
        """It shuts down in order."""
        job = self.stage.running()
        job.is_stopping = True
        assert self.stage.outcome(job) == "given back"
        job.state = "queued"

    # What trainers do.

    @precondition(lambda self: any(job.state == "running" for job in self.jobs))
    @rule()
    def step(self) -> None:
        """A whole one; the last one ends the run."""
        job = self.stage.running()
        job.last_step = 0 if job.last_step is None else job.last_step + 1
        self.stage.command(job, "step")
        self.stage.do(self.stage.until_row(job, "current_step", job.last_step))
        if job.last_step == STEPS:
            assert self.stage.outcome(job) == "over"
            job.state = "succeeded"

    @precondition(lambda self: any(job.state == "running" for job in self.jobs))
    @rule()
    def half_a_step(self) -> None:
        """One rollout of the next step."""
        self.stage.command(self.stage.running(), "half")

    @precondition(lambda self: any(job.state == "running" for job in self.jobs))
    @rule()
    def hold(self) -> None:
        """An endpoint fails."""
        job = self.stage.running()
        self.stage.command(job, "hold")
        self.stage.do(self.stage.until_row(job, "status", "paused"))
        job.state = "held"

    @precondition(lambda self: any(job.state == "held" for job in self.jobs))
    @rule(is_back=st.booleans())
    def hold_ends(self, is_back: bool) -> None:
        """The endpoint is back, or the trainer has waited long enough."""
        job = self.stage.running()
        if is_back:
            self.stage.command(job, "release")
            self.stage.do(self.stage.until_row(job, "status", "running"))
            job.state = "running"
        else:
            self.stage.command(job, "give up")
            assert self.stage.outcome(job) == "over"
            job.state = "failed"

    @precondition(lambda self: any(job.has_runner for job in self.jobs))
    @rule()
    def trainer_dies(self) -> None:
        """The worker starts another."""
        job = self.stage.running()
        pids = self.stage.launches(job)
        os.kill(pids[-1], signal.SIGKILL)
        self.stage.do(self.stage.launched(job, len(pids) + 1))
        job.state = "running"

    # What the customer does.

    @precondition(lambda self: len(self.jobs) < MOST_JOBS)
    @rule()
    def create(self) -> None:
        """Another job."""
        self.stage.create()

    @precondition(lambda self: self.moves % 3 == 2)
    @rule(number=ALL)
    def pause(self, number: int) -> None:
        """Whatever the state."""
        job = self.some(number)
        if not self.stage.asks(service.pause_job, job, is_allowed=job.state not in NOT_TO_BE_PAUSED):
            return
        if job.has_runner:
            assert self.stage.outcome(job) == "paused"
        job.state = "paused"

    @precondition(lambda self: any(job.state == "paused" for job in self.jobs))
    @rule(number=ALL)
    def resume(self, number: int) -> None:
        """What is paused; `test_customer_moves` asks in every state."""
        job = self.stage.one_of(number, "paused")
        if self.stage.asks(service.resume_job, job, is_allowed=job.state == "paused"):
            job.state = "queued"

    @precondition(lambda self: self.moves > PATIENT_MOVES or self.moves % 6 == 5)
    @rule(number=ALL)
    def cancel(self, number: int) -> None:
        """Whatever the state; seldom at first, because nothing comes after it."""
        job = self.some(number)
        if not self.stage.asks(service.cancel_job, job, is_allowed=job.state not in TERMINAL):
            return
        if job.has_runner:
            assert self.stage.outcome(job) == "cancelled"
        job.state = "cancelled"

    # What must hold at any time.

    @invariant()
    def rows_tell_the_truth(self) -> None:
        """Status, steps and events of every job."""
        self.moves += 1
        for job in self.jobs:
            self.stage.do(self.stage.check(job))

    @invariant()
    def one_trainer_at_a_time(self) -> None:
        """One slot: one trainer, and only while a job is run."""
        assert not hasattr(self, "stage") or not (self.stage.bench.control / "two-trainers").exists()
        for job in self.jobs:
            alive = [pid for pid in self.stage.launches(job) if is_alive(pid)]
            assert len(alive) == (1 if job.has_runner else 0), (job, alive)


def test_no_order_of_events_loses_or_doubles_a_step(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Patience that costs a machine of states its time.
    monkeypatch.setattr(trainer_run, "POLL_S", 0.01)
    monkeypatch.setattr(job_run, "POLL_S", 0.01)
    monkeypatch.setattr(job_run, "_FIRST_BACKOFF_S", 0.01)
    monkeypatch.setattr(job_run, "_MAX_BACKOFF_S", 0.01)
    Lifecycle.database_url = migrated_url
    run_state_machine_as_test(
        Lifecycle,
        settings=settings(
            max_examples=6,
            stateful_step_count=24,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
            # The failing order is told as it happened: shrinking it would take an hour.
            phases=(Phase.explicit, Phase.generate),
        ),
    )
