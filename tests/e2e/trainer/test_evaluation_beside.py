"""An evaluation goes on beside the next update: it belongs to its own step, whatever becomes of the other."""

import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rft.core.events import (
    Notice,
    RolloutsBegan,
    StepDone,
)
from rft.core.rollout import Split
from rft.core.spec import EarlyStop, HoldRule, RetryBudget, RunSecrets
from rft.run_directory import layout
from rft.trainer.run import run
from tests.e2e.trainer.harness import Broken, Customer, Trainer, events
from tests.e2e.trainer.overlapped import (
    STEPS,
    VALID,
    done,
    is_of_evaluation,
    overlapped_run,
    steps_of,
    trained_on,
)

pytestmark = pytest.mark.timeout(900)


def saved(run_dir: Path, step: int) -> Path:
    """What there is of a step once its update is done."""
    return run_dir / layout.checkpoint_dir(step) / "adapter_model.safetensors"


def evaluated_beside(customer: Customer, run_dir: Path, step: int) -> list[bool]:
    """Grades of a step's evaluation wait until the update of the next step is done; whether it was, for each."""
    told: list[bool] = []

    def wait(path: str, body: dict[str, Any]) -> None:
        if path != "/grade" or not is_of_evaluation(body) or step_of(run_dir, body["trace_id"]) != step:
            return
        deadline = time.monotonic() + 400
        while not saved(run_dir, step + 1).exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        told.append(saved(run_dir, step + 1).exists())

    customer.fault = wait
    return told


def step_of(run_dir: Path, trace_id: str) -> int:
    """The step that a rollout was begun for; its beginning is told before it calls anybody."""
    begun = [line.event for line in events(run_dir) if isinstance(line.event, RolloutsBegan)]
    (found,) = {one.key.step for event in begun for one in event.rollouts if one.trace_id == trace_id}
    return found


def test_an_evaluation_goes_on_beside_the_next_update_and_belongs_to_its_own_step(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    run_dir = overlapped_run(tmp_path / "run", base_model, customer, max_staleness=1)
    beside = evaluated_beside(customer, run_dir, 2)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    assert beside == [True] * VALID
    lines = events(run_dir)
    steps = steps_of(lines)
    assert [record.step for record in steps] == list(range(STEPS + 1)), "each is told of once, in order"
    assert [record.step for record in steps if record.valid is not None] == [0, 2, 4, 5]
    assert all(record.valid.graded == VALID for record in steps if record.valid is not None)
    assert all(one.policy_version == one.key.step for one in done(lines, Split.VALID))
    ends = {line.event.step: line.seq for line in lines if isinstance(line.event, StepDone)}
    first_of_version_3 = next(
        line.seq
        for line in lines
        if isinstance(line.event, RolloutsBegan) and any(one.policy_version == 3 for one in line.event.rollouts)
    )
    assert ends[2] < first_of_version_3, "its step is complete before another policy samples"
    assert all(record.timing.full_step_s > record.timing.eval_s >= 0 for record in steps)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_is_stopped_while_it_evaluates_beside_an_update_loses_and_repeats_no_step(
    customer: Customer, base_model: Path, tmp_path: Path, end: signal.Signals
) -> None:
    """The update that was done before its step was complete is done again on the same rollouts."""
    run_dir = overlapped_run(tmp_path / "run", base_model, customer, max_staleness=1)
    released = threading.Event()

    def wait(path: str, body: dict[str, Any]) -> None:
        if path == "/grade" and is_of_evaluation(body) and step_of(run_dir, body["trace_id"]) == 2:
            released.wait()

    customer.fault = wait
    trainer = Trainer.start(run_dir)
    deadline = time.monotonic() + 400
    while not saved(run_dir, 3).exists():
        assert trainer.process.poll() is None, (run_dir / layout.LOG).read_text()[-2000:]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    trainer.signal(end)
    assert trainer.wait() == (0 if end == signal.SIGTERM else -end)
    customer.fault = lambda path, body: None
    released.set()
    assert [record.step for record in steps_of(events(run_dir))] == [0, 1]
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    lines = events(run_dir)
    assert [record.step for record in steps_of(lines)] == list(range(STEPS + 1))
    assert set(map(len, trained_on(lines).values())) == {1}, "no rollout is trained on twice"


def test_a_step_is_kept_that_was_evaluated_beside_one_that_broke(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    run_dir = overlapped_run(tmp_path / "run", base_model, customer, max_staleness=1, max_importance_gap=1e-9)
    ended = run(run_dir, RunSecrets())
    assert (ended.outcome, ended.error_code) == ("paused", "importance_gap")
    paused_in = max(record.step for record in steps_of(events(run_dir))) + 1
    assert (run_dir / layout.checkpoint_dir(paused_in - 1) / layout.COMPLETE).exists()


@pytest.mark.parametrize("broken", ["the step's update", "the step's grades"])
def test_a_run_that_has_ended_early_is_not_failed_by_the_step_beside_it(
    customer: Customer, base_model: Path, tmp_path: Path, broken: str
) -> None:
    """The evaluation of step 1 reaches the target; nothing that breaks in step 2 matters any more."""
    run_dir = overlapped_run(
        tmp_path / "run", base_model, customer, max_staleness=1, eval_interval=1, valid_rows=VALID, measures_best=True,
        early_stop=EarlyStop(target_reward=0.0), hold=HoldRule(max_s=0.1, first_trial_s=0.01),
        retry=RetryBudget(max_retries=0),
        # Step 1 is sampled by the policy that it updates, step 2 by an older one.
        max_importance_gap=1e-4 if broken == "the step's update" else 1e3,
    )  # fmt: skip

    def fault(path: str, body: dict[str, Any]) -> Broken | None:
        if path != "/grade" or is_of_evaluation(body) or step_of(run_dir, body["trace_id"]) != 2:
            return None
        return Broken(500, b"{}") if broken == "the step's grades" else None

    customer.fault = fault
    ended = run(run_dir, RunSecrets())
    assert ended.outcome == "succeeded", ended.error_message
    lines = events(run_dir)
    assert [record.step for record in steps_of(lines)] == [0, 1]
    assert [line.event.code for line in lines if isinstance(line.event, Notice)].count("early_stop") == 1
    assert ended.best_step in (0, 1)
    assert not (run_dir / layout.checkpoint_dir(2)).exists()
