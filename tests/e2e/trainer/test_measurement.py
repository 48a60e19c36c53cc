"""How a run ends: sooner, where its evaluations say so; and its best checkpoint is measured once more."""

import json
import signal
import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from rft.core.events import Notice, PolicyMeasured, RolloutDone, RunEnded, StepDone
from rft.core.rollout import Split
from rft.core.spec import EarlyStop, HoldRule, RetryBudget, RunSecrets
from rft.run_directory import layout
from rft.trainer.run import run
from tests.e2e.trainer.harness import Customer, Trainer, events, row, write_run

STEPS, TEST_ROWS = 2, 2
PER_STEP = 8
"""Rollouts of a step that trains."""


def measured_run(run_dir: Path, base_model: Path, customer: Customer, *, has_test_file: bool) -> Path:
    write_run(
        run_dir, base_model, customer.url, steps=STEPS, measures_best=True,
        hold=HoldRule(max_s=1.0, first_trial_s=0.2), retry=RetryBudget(max_retries=0),
    )  # fmt: skip
    if has_test_file:
        (run_dir / layout.TEST_ROWS).write_text("\n".join(row(200 + i) for i in range(TEST_ROWS)))
    return run_dir


def told(run_dir: Path) -> list[object]:
    return [line.event for line in events(run_dir)]


def measured(events: Sequence[object]) -> list[PolicyMeasured]:
    return [event for event in events if isinstance(event, PolicyMeasured)]


def of_tests(events: Sequence[object]) -> list[RolloutDone]:
    return [event for event in events if isinstance(event, RolloutDone) and event.key.split is Split.TEST]


def rising(customer: Customer) -> None:
    """Every answer is a little better than the one before it, so that the last checkpoint is the best."""
    numbers = count(1)
    customer.score = lambda text: next(numbers) / 1000


def test_a_test_file_is_measured_before_the_first_step_and_after_the_last(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    rising(customer)
    run_dir = measured_run(tmp_path / "run", base_model, customer, has_test_file=True)
    assert run(run_dir, RunSecrets()) == RunEnded(outcome="succeeded", best_step=STEPS)
    done = told(run_dir)
    assert [one.step for one in measured(done)] == [0, STEPS]
    assert [one.stats.graded for one in measured(done)] == [TEST_ROWS] * 2
    places = [place for place, event in enumerate(done) if isinstance(event, PolicyMeasured | StepDone)]
    assert [type(done[place]) for place in places] == [PolicyMeasured, *[StepDone] * (STEPS + 1), PolicyMeasured]
    assert {(one.key.step, one.policy_version) for one in of_tests(done)} == {(0, 0), (STEPS, STEPS)}


def test_without_a_test_file_the_validation_rows_get_seeds_that_chose_nothing(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    """Also of a checkpoint that is not the last one."""
    scores = iter([0.0] * 3 + [0.1, 0.9] * 4 + [1.0] * 3)  # Nothing for the baseline, all for the first evaluation.
    customer.score = lambda text: next(scores, 0.2)
    run_dir = measured_run(tmp_path / "run", base_model, customer, has_test_file=False)
    spec = run_dir / layout.SPEC
    spec.write_text(spec.read_text().replace('"eval_interval":2', '"eval_interval":1'))
    ended = run(run_dir, RunSecrets())
    assert (ended.outcome, ended.best_step) == ("succeeded", 1)
    done = told(run_dir)
    assert [one.step for one in measured(done)] == [1]
    again = of_tests(done)
    chose = [event for event in done if isinstance(event, RolloutDone) and event.key.split is Split.VALID]
    assert {one.key.row_index for one in again} == {one.key.row_index for one in chose}
    assert not {one.key.seed for one in again} & {one.key.seed for one in chose}
    assert {one.policy_version for one in again} == {1}


def test_without_validation_the_policy_that_sampled_the_best_rollouts_is_chosen(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    """Not the one that the update led to, which earned little."""
    answers = count()
    customer.score = lambda text: 0.9 if next(answers) // PER_STEP == 2 else 0.1
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=4, valid_rows=0)
    assert run(run_dir, RunSecrets()) == RunEnded(outcome="succeeded", best_step=2)
    kept = [event.checkpoint.kept_steps for event in told(run_dir) if isinstance(event, StepDone)]
    assert kept == [(0,), (1, 0), (2, 1, 0), (3, 2, 1), (2, 3, 1, 4)]


def is_over(run_dir: Path) -> bool:
    """Whether the last step is done."""
    path = run_dir / layout.EVENTS
    return path.exists() and f'"step_done","step":{STEPS},'.encode() in path.read_bytes()


def test_a_kill_in_the_measurement_costs_the_measurement_alone(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    rising(customer)
    run_dir, is_measuring, is_released = tmp_path / "run", threading.Event(), threading.Event()
    measured_run(run_dir, base_model, customer, has_test_file=False)

    def hang(path: str) -> bool:
        if path == "/grade" and is_over(run_dir):
            is_measuring.set()
            is_released.wait()
        return False

    customer.is_down = hang
    trainer = Trainer.start(run_dir)
    try:
        assert is_measuring.wait(400)
        trainer.signal(signal.SIGKILL)
        trainer.wait()
    finally:
        is_released.set()
    assert run(run_dir, RunSecrets()) == RunEnded(outcome="succeeded", best_step=STEPS)
    done = told(run_dir)
    assert [event.step for event in done if isinstance(event, StepDone)] == [*range(STEPS + 1)]
    assert [one.step for one in measured(done)] == [STEPS]


def test_an_endpoint_that_is_down_by_then_costs_no_model(customer: Customer, base_model: Path, tmp_path: Path) -> None:
    rising(customer)
    run_dir = measured_run(tmp_path / "run", base_model, customer, has_test_file=False)
    customer.is_down = lambda path: path == "/grade" and is_over(run_dir)
    assert run(run_dir, RunSecrets()) == RunEnded(outcome="succeeded", best_step=STEPS)
    done = told(run_dir)
    assert measured(done) == []
    notices = [event for event in done if isinstance(event, Notice) and event.code == "not_measured"]
    assert [notice.level for notice in notices] == ["warn"]
    assert f"of step {STEPS}, could not be measured once more: The run was held" in notices[0].message


def test_an_evaluation_ends_the_run_and_a_resumed_one_stays_ended(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    rising(customer)
    run_dir = tmp_path / "run"
    write_run(run_dir, base_model, customer.url, steps=9, measures_best=True, early_stop=EarlyStop(target_reward=1e-6))
    assert run(run_dir, RunSecrets()) == RunEnded(outcome="succeeded", best_step=2)
    done = told(run_dir)
    assert [event.step for event in done if isinstance(event, StepDone)] == [0, 1, 2], "evaluated every second step"
    notices = [event for event in done if isinstance(event, Notice) and event.code == "early_stop"]
    assert [notice.data and notice.data["reason"] for notice in notices] == ["target"]
    assert run(run_dir, RunSecrets()) == RunEnded(outcome="succeeded", best_step=2)
    again = told(run_dir)[len(done) :]
    assert [event for event in again if isinstance(event, StepDone | Notice)] == []
    assert [one.step for one in measured(again)] == [2]


def test_an_evaluation_that_lost_most_of_its_rollouts_ends_nothing(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    rising(customer)
    run_dir, answer, graded = tmp_path / "run", customer.reply, count(1)

    def reply(path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Of the second evaluation one rollout has a grade, which reaches the target."""
        if path == "/grade" and "Question 10" in json.dumps(body) and (number := next(graded)) in (4, 5, 6):
            return {"score": 1.0 if number == 4 else "none"}
        return answer(path, body)

    customer.reply = reply
    rule, retry = EarlyStop(target_reward=0.9), RetryBudget(max_retries=0)
    write_run(run_dir, base_model, customer.url, steps=4, early_stop=rule, retry=retry)
    ended = run(run_dir, RunSecrets())
    assert ended.outcome == "succeeded", ended.error_message
    done = told(run_dir)
    [lost] = [event.valid for event in done if isinstance(event, StepDone) and event.step == 2]
    assert lost is not None
    assert (lost.graded, lost.reward) == (1, 1.0)
    assert [event.step for event in done if isinstance(event, StepDone)] == [0, 1, 2, 3, 4]
    assert [event for event in done if isinstance(event, Notice) and event.code == "early_stop"] == []
