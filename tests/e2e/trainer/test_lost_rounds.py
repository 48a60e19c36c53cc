"""Rollouts that the platform lost: the step is trained on the others; too many twice, and the run pauses."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rft.core.events import Notice, RolloutDone, RoundRedone, RunEnded, RunStarted, StepDone
from rft.core.failure import Failure, FailureCode
from rft.core.rollout import Split
from rft.core.spec import RunSecrets
from rft.rollouts.sampler import SampleRequest
from rft.trainer.run import run
from tests.e2e.trainer import losing_engine
from tests.e2e.trainer.harness import Customer, events, write_run

ENGINE = "tests.e2e.trainer.losing_engine:losing_engine"


@pytest.fixture(autouse=True)
def mended() -> Iterator[None]:
    """No test's engine loses what another test wanted lost."""
    yield
    losing_engine.LOSES.clear()


def test_a_step_is_trained_on_what_the_platform_did_not_lose(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=2, engine=ENGINE, replacement_share=0.0)
    lost: list[int] = []

    def one_of_the_second_step(version: int, request: SampleRequest) -> bool:
        if version == 1 and not lost:
            lost.append(request.seed)
        return request.seed in lost

    losing_engine.LOSES.append(one_of_the_second_step)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    told = [line.event for line in events(run_dir)]
    second = next(event for event in told if isinstance(event, StepDone) and event.step == 2)
    assert second.train is not None
    assert (second.train.graded, second.train.excluded) == (7, 1)
    assert second.train.failures_by_code == {"sampler_error": 1}
    assert second.train.excluded_completion_tokens_mean is not None
    assert second.optimization is not None
    assert second.optimization.trained_rollouts == 7
    [notice] = [event for event in told if isinstance(event, Notice) and event.code == "platform_failure"]
    assert notice.message.startswith("Step 2 goes on without 1 of its 8 rollouts")


def test_what_a_lost_round_finished_is_not_kept(customer: Customer, base_model: Path, tmp_path: Path) -> None:
    """Half of the conversations come through, and would be the easy half."""
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=1, engine=ENGINE, valid_rows=0)
    losing_engine.LOSES.append(lambda version, request: request.seed % 2 == 0)
    assert run(run_dir, RunSecrets()).error_code == "platform_failure"
    graded = [e for e in (line.event for line in events(run_dir)) if isinstance(e, RolloutDone) and not is_lost(e)]
    assert graded
    losing_engine.LOSES.clear()
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    assert [e.kept for e in (line.event for line in events(run_dir)) if isinstance(e, RunStarted)] == [(), ()]


def is_lost(done: RolloutDone) -> bool:
    return isinstance(done.outcome, Failure)


def test_too_many_twice_pause_the_run_which_goes_on_once_it_is_mended(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=3, engine=ENGINE)
    losing_engine.LOSES.append(lambda version, request: version == 1)
    ended = run(run_dir, RunSecrets())
    assert (ended.outcome, ended.error_code, ended.best_step) == ("paused", "platform_failure", 0)
    assert ended.error_message is not None
    assert "Twice in a row the platform could not finish 8 of 8 rollouts of step 2" in ended.error_message
    assert "lost on purpose" in ended.error_message
    told = [line.event for line in events(run_dir)]
    [at] = [place for place, event in enumerate(told) if isinstance(event, RoundRedone)]
    redone = told[at]
    assert isinstance(redone, RoundRedone)
    assert (redone.step, redone.split, redone.rollouts, redone.lost) == (2, Split.TRAIN, 8, 8)
    for event in told[at:]:
        if isinstance(event, RolloutDone):
            assert isinstance(event.outcome, Failure)
            assert event.outcome.code is FailureCode.SAMPLER_ERROR
            assert event.key.attempt > 0, "with seeds of their own"
    losing_engine.LOSES.clear()
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    done = [line.event for line in events(run_dir)]
    assert [event.step for event in done if isinstance(event, StepDone)] == [0, 1, 2, 3]
    assert [event.outcome for event in done if isinstance(event, RunEnded)] == ["paused", "succeeded"]


def test_an_evaluation_that_the_platform_lost_is_no_figure(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    """Three rows: one lost rollout is more than a quarter."""
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=1, engine=ENGINE, valid_rows=3)
    lost: list[str] = []

    def the_first(version: int, request: SampleRequest) -> bool:
        lost.append(request.request_id.rpartition("-")[0])
        return request.request_id.startswith(lost[0])

    losing_engine.LOSES.append(the_first)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    told = [line.event for line in events(run_dir)]
    [redone] = [event for event in told if isinstance(event, RoundRedone)]
    assert (redone.step, redone.split, redone.rollouts, redone.lost) == (0, Split.VALID, 3, 1)
    baseline = next(event for event in told if isinstance(event, StepDone))
    assert baseline.valid is not None
    assert (baseline.valid.rollouts, baseline.valid.graded) == (3, 3)
