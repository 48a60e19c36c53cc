"""Further rows in place of groups without signal: a run that is killed and resumed takes the same ones."""

import signal
from pathlib import Path

from rft.core.events import RolloutDone, StepDone
from rft.core.hyperparameters import ResolvedHyperparameters
from rft.core.rollout import Split
from rft.core.spec import RunSecrets
from rft.run_directory.files import read_spec
from rft.trainer.run import run
from tests.e2e.trainer.harness import Customer, Trainer, adapter_bytes, events, write_run

STEPS = 3


def has_an_a(text: str) -> float:
    return float("a" in text)


def resampling_run(path: Path, base_model: Path, customer: Customer) -> Path:
    """Two rows of five a step, four rollouts each, two further rounds."""
    wanted = ResolvedHyperparameters(
        n_epochs=1, batch_size=2, learning_rate_multiplier=1.0, compute_multiplier=1.0, eval_interval=9,
        eval_samples=1, group_size=4, steps=STEPS, resample_zero_variance=2,
    )  # fmt: skip
    return write_run(path, base_model, customer.url, valid_rows=0, hyperparameters=wanted)


def records(run_dir: Path) -> list[StepDone]:
    told = [line.event for line in events(run_dir)]
    return [event for event in told if isinstance(event, StepDone) and event.step]


def test_where_nothing_tells_rollouts_apart_each_spare_row_is_tried_once(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    customer.score = lambda text: 0.5
    run_dir = resampling_run(tmp_path / "run", base_model, customer)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    for step in records(run_dir):
        assert step.train is not None
        assert (step.train.resampled_rollouts, step.train.rollouts, step.train.groups) == (12, 20, 5)
        assert step.train.zero_variance_groups == 5
    keys = [line.event.key for line in events(run_dir) if isinstance(line.event, RolloutDone)]
    assert len(set(keys)) == len(keys) == STEPS * 20
    assert {key.split for key in keys} == {Split.TRAIN}


def test_a_killed_run_takes_the_same_rows_and_ends_with_the_same_bytes(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    customer.score = has_an_a
    straight = resampling_run(tmp_path / "straight", base_model, customer)
    assert run(straight, RunSecrets()).outcome == "succeeded"
    resampled = [step.train.resampled_rollouts for step in records(straight) if step.train is not None]
    assert 0 < sum(resampled) < 12 * STEPS, "some groups have signal and some do not"
    disturbed = resampling_run(tmp_path / "disturbed", base_model, customer)
    trainer = Trainer.start(disturbed)
    whole = len(events(straight))
    trainer.wait_for_events(whole // 2)
    trainer.signal(signal.SIGKILL)
    trainer.wait()
    assert run(disturbed, RunSecrets()).outcome == "succeeded"
    assert adapter_bytes(disturbed, STEPS) == adapter_bytes(straight, STEPS)
    by_step = {step.step: step.train for step in records(disturbed)}
    assert [train.resampled_rollouts for train in by_step.values() if train is not None] == resampled
    assert read_spec(disturbed).hyperparameters.resample_zero_variance == 2
