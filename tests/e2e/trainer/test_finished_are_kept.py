"""What had finished before a crash or a pause is not rolled out again, and the weights come out the same."""

import signal
from pathlib import Path

import pytest

from rft.core.events import RolloutDone, RolloutsVoided, RunStarted, StepDone
from rft.core.rollout import Split
from rft.core.spec import RunSecrets
from rft.core.step_record import Optimization
from rft.run_directory import layout
from rft.trainer.run import run
from tests.e2e.trainer.grade_gate import only_grades, wait_for_ends
from tests.e2e.trainer.harness import Customer, Trainer, adapter_bytes, events, write_run

pytestmark = pytest.mark.timeout(900)
STEPS, PER_STEP, VALID = 2, 8, 3
LARGEST_ROUNDING = 1e-5


def broken_off_after(
    count: int, how: signal.Signals, customer: Customer, run_dir: Path
) -> tuple[list[RolloutDone], list[str]]:
    """A trainer that is stopped when so many rollouts are graded; those, and the ids that it made known."""
    with only_grades(customer, count):
        trainer = Trainer.start(run_dir)
        ended = wait_for_ends(trainer, count)
        trainer.signal(how)
        assert trainer.wait() == (0 if how == signal.SIGTERM else -how)
    customer.hear_the_last_of(trainer)
    return ended, [one.trace_id for one in customer.received]


def trained(run_dir: Path) -> dict[int, StepDone]:
    return {line.event.step: line.event for line in events(run_dir) if isinstance(line.event, StepDone)}


def exact(update: Optimization | None) -> Optimization:
    """Without the sampler's rounding, which says which prompts shared its forward passes."""
    assert update is not None
    assert update.sampling_logp_difference is not None
    assert update.sampling_logp_difference < LARGEST_ROUNDING
    return update.model_copy(update={"sampling_logp_difference": 0.0})


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_step_that_was_broken_off_only_does_what_is_missing(
    customer: Customer, teachable_model: Path, tmp_path: Path, how: signal.Signals
) -> None:
    def a_run(name: str) -> Path:
        return write_run(
            tmp_path / name, teachable_model, customer.url, steps=STEPS, engine="transformers", max_tokens=6
        )

    straight, disturbed = a_run("straight"), a_run("disturbed")
    assert run(straight, RunSecrets()).outcome == "succeeded"
    customer.received.clear()
    ended, known = broken_off_after(VALID + PER_STEP - 3, how, customer, disturbed)
    kept = {done.trace_id for done in ended if done.key.step == 1}
    assert len(kept) == PER_STEP - 3
    made_by_first = len(customer.received)
    assert run(disturbed, RunSecrets()).outcome == "succeeded"
    told = [line.event for line in events(disturbed)]
    _, resumed = [event for event in told if isinstance(event, RunStarted)]
    assert (resumed.resumed_from_step, set(resumed.kept)) == (0, kept)
    assert not {one.trace_id for one in customer.received[made_by_first:]} & set(known), "nothing is asked for again"
    of_step = [event for event in told if isinstance(event, RolloutDone) and event.key.step == 1]
    places = [done.key for done in of_step]
    assert len(places) == len(set(places)) == PER_STEP, "none is told twice, none is missing"
    assert kept < {done.trace_id for done in of_step}
    assert not [event for event in told if isinstance(event, RolloutsVoided)]
    assert adapter_bytes(disturbed, STEPS) == adapter_bytes(straight, STEPS)
    assert exact(trained(disturbed)[1].optimization) == exact(trained(straight)[1].optimization)
    first, same = trained(straight)[1].train, trained(disturbed)[1].train
    assert first is not None
    assert same is not None
    assert (same.rollouts, same.graded, same.reward_mean) == (PER_STEP, PER_STEP, first.reward_mean)
    assert [tool.calls for tool in same.tools] == [tool.calls for tool in first.tools]
    assert not (disturbed / layout.FINISHED).exists()


def test_killed_in_its_evaluation_a_step_is_trained_again_without_a_single_rollout(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    straight = write_run(tmp_path / "straight", base_model, customer.url, steps=STEPS)
    assert run(straight, RunSecrets()).outcome == "succeeded"
    customer.received.clear()
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=STEPS)
    before = VALID + STEPS * PER_STEP
    ended, known = broken_off_after(before + 1, signal.SIGKILL, customer, run_dir)
    made_by_first = len(customer.received)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    again = customer.received[made_by_first:]
    assert not {one.trace_id for one in again} & set(known)
    assert len({one.trace_id for one in again}) == VALID - 1, "one row of the evaluation had been graded"
    told = [line.event for line in events(run_dir)]
    _, resumed = [event for event in told if isinstance(event, RunStarted)]
    assert set(resumed.kept) == {done.trace_id for done in ended if done.key.step == STEPS}
    of_evaluation = [e.key for e in told if isinstance(e, RolloutDone) and e.key.split is Split.VALID]
    assert len(of_evaluation) == len(set(of_evaluation)) == 2 * VALID
    assert adapter_bytes(run_dir, STEPS) == adapter_bytes(straight, STEPS)


def test_what_was_graded_of_the_baseline_is_kept_too(customer: Customer, base_model: Path, tmp_path: Path) -> None:
    """The untrained adapter is made anew, and is the same."""
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=1)
    ended, known = broken_off_after(VALID - 1, signal.SIGKILL, customer, run_dir)
    made_by_first = len(customer.received)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    assert not {one.trace_id for one in customer.received[made_by_first:]} & set(known)
    told = [line.event for line in events(run_dir)]
    _, resumed = [event for event in told if isinstance(event, RunStarted)]
    assert (resumed.resumed_from_step, set(resumed.kept)) == (None, {done.trace_id for done in ended})
    of_baseline = [event for event in told if isinstance(event, RolloutDone) and event.key.step == 0]
    assert len(of_baseline) == VALID
    assert not [event for event in told if isinstance(event, RolloutsVoided)]


def test_another_url_of_the_grader_lets_nothing_be_kept(customer: Customer, base_model: Path, tmp_path: Path) -> None:
    """It may judge otherwise, and a group has one judge."""
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=1, valid_rows=0)
    ended, _ = broken_off_after(5, signal.SIGKILL, customer, run_dir)
    spec = run_dir / layout.SPEC
    spec.write_text(spec.read_text().replace(f"{customer.url}/grade", f"{customer.url}/grade?v=2"))
    made_by_first = len(customer.received)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    graded = [one.trace_id for one in customer.received[made_by_first:] if one.path == "/grade"]
    assert len(graded) == len(set(graded)) == PER_STEP
    assert not set(graded) & {done.trace_id for done in ended}
    _, resumed = [line.event for line in events(run_dir) if isinstance(line.event, RunStarted)]
    assert resumed.kept == ()
