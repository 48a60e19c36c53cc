"""Runs that come to their last step and are failures all the same, each with its reason in words."""

from pathlib import Path

import pytest

from rft.core.events import StepDone
from rft.core.spec import RetryBudget, RunSecrets
from rft.trainer.run import run
from tests.e2e.trainer.harness import Broken, Customer, events, write_run

pytestmark = pytest.mark.timeout(600)


def test_the_only_step_without_a_grade(customer: Customer, base_model: Path, tmp_path: Path) -> None:
    customer.fault = lambda path, body: Broken(200, b'{"score": NaN}') if path == "/grade" else None
    retry = RetryBudget(max_retries=0)
    ended = run(write_run(tmp_path / "run", base_model, customer.url, steps=1, valid_rows=0, retry=retry), RunSecrets())
    assert (ended.outcome, ended.error_code) == ("failed", "grader_failed")
    assert ended.error_param == "method.reinforcement.grader"
    assert ended.error_message is not None
    assert "grader 'letters'" in ended.error_message
    assert "the score nan, which is not finite" in ended.error_message
    assert ended.best_step == 0, "nothing that was trained"


def test_a_training_that_diverges(customer: Customer, base_model: Path, tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=2, valid_rows=0, learning_rate=1e21)
    ended = run(run_dir, RunSecrets())
    assert (ended.outcome, ended.error_code) == ("failed", "training_diverged")
    assert ended.error_param == "method.reinforcement.hyperparameters.learning_rate_multiplier"
    assert [line.event.step for line in events(run_dir) if isinstance(line.event, StepDone)] == [0, 1]
