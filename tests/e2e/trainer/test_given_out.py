"""Whole runs whose rollouts worker processes run: what they train on and tell is what it would have been here."""

import asyncio
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rft.core.events import HoldBegan, HoldEnded, RolloutDone, RolloutsBegan, RunEnded, RunStarted, StepDone
from rft.core.hyperparameters import ResolvedHyperparameters
from rft.core.job import JobStatus
from rft.core.spec import HoldRule, RetryBudget
from rft.platform.lifecycle.job_lease import release
from rft.run_directory import layout
from tests.e2e.trainer.given_out_run import TOOL_KEY, given_out_run
from tests.e2e.trainer.harness import Customer, events
from tests.e2e.trainer.whole_log import assert_asked_once, assert_none_failed, assert_trained_once
from tests.shared.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
STEPS, BATCH, GROUP = 4, 2, 4


def overlapped(steps: int = STEPS) -> ResolvedHyperparameters:
    """Rollouts of two further steps are under way while one is trained."""
    return ResolvedHyperparameters(
        n_epochs=1, batch_size=BATCH, learning_rate_multiplier=1.0, compute_multiplier=1.0, eval_interval=steps,
        eval_samples=1, group_size=GROUP, steps=steps, max_staleness=2,
    )  # fmt: skip


async def test_a_run_trains_on_what_workers_hand_over(
    customer: Customer, base_model: Path, tmp_path: Path, migrated_url: str, broker_url: str
) -> None:
    place = given_out_run(
        tmp_path, base_model, customer, database_url=migrated_url, broker_url=broker_url, steps=2, valid_rows=2
    )
    async with place as run:
        worker, trainer = run.start_worker(), await run.launch()
        status = await asyncio.to_thread(trainer.wait)
        told = [line.event for line in events(run.run_dir)]
        ended = told[-1]
        assert isinstance(ended, RunEnded)
        assert (status, ended.outcome) == (0, "succeeded"), ended
        assert await run.left_in_inbox() == (0, 0), "nothing is left behind"
        assert worker.stop() == 0
    steps = [event for event in told if isinstance(event, StepDone)]
    assert [step.train and (step.train.rollouts, step.train.graded) for step in steps] == [None, (8, 8), (8, 8)]
    began = [one for event in told if isinstance(event, RolloutsBegan) for one in event.rollouts]
    done = Counter(event.trace_id for event in told if isinstance(event, RolloutDone))
    assert done == Counter(one.trace_id for one in began)
    assert set(done.values()) == {1}
    assert {one.headers.get("x-key") for one in customer.received if one.path == "/tool"} == {TOOL_KEY}
    assert b"secret" not in b"".join(path.read_bytes() for path in run.run_dir.rglob("*") if path.is_file())


async def test_a_launch_that_another_one_has_overtaken_ends_as_if_it_had_been_stopped(
    customer: Customer, base_model: Path, tmp_path: Path, migrated_url: str, broker_url: str
) -> None:
    """Its worker stood still while it began. Whatever else it said of the job's end would hold for good."""
    place = given_out_run(
        tmp_path, base_model, customer, database_url=migrated_url, broker_url=broker_url, steps=2, valid_rows=2
    )
    async with place as run:
        trainer = await run.launch()
        async with run.database.transaction() as connection:
            await release(connection, run.lease, JobStatus.PAUSED)
        status = await asyncio.to_thread(trainer.wait)
        assert (status, events(run.run_dir)[-1].event) == (0, RunEnded(outcome="stopped", best_step=None))


class SlowTool:
    """The customer's tool: calls wait until it is opened, and again once it has answered so many more."""

    def __init__(self, customer: Customer) -> None:
        self.is_waited_for = False
        self._left, self._gate, self._lock = 0, threading.Event(), threading.Lock()
        self._answer = customer.reply
        customer.reply = self._reply

    def open(self, *, calls: int) -> None:
        """All that wait go on, and so many others."""
        with self._lock:
            was, self._gate = self._gate, threading.Event()
            self._left, self.is_waited_for = calls, False
        was.set()

    def _reply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == "/tool":
            with self._lock:
                self._left -= 1
                gate = self._gate if self._left < 0 else None
                self.is_waited_for = self.is_waited_for or gate is not None
            if gate is not None:
                gate.wait()
        return self._answer(path, body)


async def test_kills_of_workers_and_trainer_lose_and_double_nothing_of_the_steps_ahead(
    customer: Customer, base_model: Path, tmp_path: Path, migrated_url: str, broker_url: str
) -> None:
    """Each kill comes when rollouts of the worker wait for a tool; another process takes the dead one's place."""
    place = given_out_run(
        tmp_path, base_model, customer, database_url=migrated_url, broker_url=broker_url, valid_rows=0,
        hyperparameters=overlapped(),
    )  # fmt: skip
    tool = SlowTool(customer)
    async with place as run:
        run.start_worker()
        trainer = await run.launch()
        log = run.run_dir / layout.EVENTS
        for who in ("worker", "trainer", "worker and trainer"):
            await until(lambda: tool.is_waited_for, "a rollout that waits for its tool")
            if "worker" in who:
                run.workers[-1].kill()
                run.start_worker()
            if "trainer" in who:
                trainer.signal(signal.SIGKILL)
                await asyncio.to_thread(trainer.wait)
                trainer = await run.launch()
            else:
                await until(lambda: b"rollout_worker_lost" in log.read_bytes(), "the worker to be missed")
            tool.open(calls=10**9 if who == "worker and trainer" else 12)
        assert await asyncio.to_thread(trainer.wait) == 0, (run.run_dir / layout.LOG).read_text()[-3000:]
        assert await run.left_in_inbox() == (0, 0)
    told = [line.event for line in events(run.run_dir)]
    assert sum(isinstance(event, RunStarted) for event in told) == 3
    assert_trained_once(run.run_dir)
    assert_none_failed(run.run_dir)
    assert_asked_once(customer.received)


async def test_an_outage_holds_rollouts_at_workers_and_costs_none(
    customer: Customer, base_model: Path, tmp_path: Path, migrated_url: str, broker_url: str
) -> None:
    place = given_out_run(
        tmp_path, base_model, customer, database_url=migrated_url, broker_url=broker_url, valid_rows=0,
        hyperparameters=overlapped(), hold=HoldRule(first_trial_s=0.1, max_trial_s=0.2),
        retry=RetryBudget(max_retries=30, first_wait_s=0.05, max_wait_s=0.2),
    )  # fmt: skip
    async with place as run:
        log = run.run_dir / layout.EVENTS
        customer.is_down = lambda path: (
            path == "/tool" and b"step_done" in log.read_bytes() and b"hold_began" not in log.read_bytes()
        )
        run.start_worker()
        trainer = await run.launch()
        assert await asyncio.to_thread(trainer.wait) == 0
    told = [line.event for line in events(run.run_dir)]
    holds = [event.type for event in told if isinstance(event, HoldBegan | HoldEnded)]
    assert holds
    assert holds == ["hold_began", "hold_ended"] * (len(holds) // 2)
    assert_trained_once(run.run_dir)
