"""Rollouts of later steps are under way while a step is trained: bounded in age, in order, none twice and none lost."""

import random
import signal
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from rft.core.events import (
    EventLine,
    HoldBegan,
    HoldEnded,
    PolicyMeasured,
    RolloutDone,
    RolloutsBegan,
    RolloutsVoided,
    RunEnded,
    RunStarted,
    StepDone,
)
from rft.core.grade import Grade
from rft.core.rollout import Split
from rft.core.spec import EarlyStop, HoldRule, RetryBudget, RunSecrets
from rft.run_directory import layout
from rft.trainer.run import run
from tests.e2e.trainer.grade_gate import only_grades, wait_for_ends
from tests.e2e.trainer.harness import Customer, Trainer, events
from tests.e2e.trainer.overlapped import (
    BATCH,
    GROUP,
    STEPS,
    VALID,
    done,
    is_of_evaluation,
    overlapped_run,
    place,
    steps_of,
    trained_on,
)

pytestmark = pytest.mark.timeout(900)


def began_at(lines: list[EventLine], step: int) -> int:
    """Number of the event that told of the first training rollout of a step."""
    return next(
        line.seq
        for line in lines
        if isinstance(line.event, RolloutsBegan)
        and any(one.key.step == step and one.key.split is Split.TRAIN for one in line.event.rollouts)
    )


@pytest.mark.parametrize("max_staleness", [1, 2])
def test_steps_are_rolled_out_ahead_each_by_the_policy_that_its_bound_allows(
    customer: Customer, base_model: Path, tmp_path: Path, max_staleness: int
) -> None:
    run_dir = overlapped_run(tmp_path / "run", base_model, customer, max_staleness=max_staleness)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    lines = events(run_dir)
    ends = {line.event.step: line.seq for line in lines if isinstance(line.event, StepDone)}
    assert list(ends) == list(range(STEPS + 1))
    for step in range(2, STEPS + 1):
        assert began_at(lines, step) < ends[step - 1], "it did not wait for the step before it"
    expected = {step: max(0, step - 1 - max_staleness) for step in range(1, STEPS + 1)}
    assert {(one.key.step, one.policy_version) for one in done(lines)} == set(expected.items())
    assert all(one.policy_version == one.key.step for one in done(lines, Split.VALID))
    updates = {record.step: record.optimization for record in steps_of(lines) if record.optimization is not None}
    for step, update in updates.items():
        staleness = min(step - 1, max_staleness)
        assert (update.staleness_mean, update.staleness_max) == (staleness, staleness)
        assert update.truncated_share is not None
        assert update.sampling_logp_difference is not None
        # An older policy sampled what the trainer sees with its own eyes; the same one differs by rounding alone.
        assert (update.sampling_logp_difference > 1e-4) == (staleness > 0)


def test_the_rows_are_those_of_a_run_that_takes_turns_and_so_is_the_first_step(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    taking_turns = overlapped_run(tmp_path / "turns", base_model, customer, max_staleness=0)
    overlapped = overlapped_run(tmp_path / "overlapped", base_model, customer, max_staleness=2)
    for run_dir in (taking_turns, overlapped):
        assert run(run_dir, RunSecrets()).outcome == "succeeded"
    one, other = events(taking_turns), events(overlapped)
    assert {place(rollout.key) for rollout in done(one)} == {place(rollout.key) for rollout in done(other)}
    ends = {line.event.step: line.seq for line in one if isinstance(line.event, StepDone)}
    assert all(began_at(one, step) > ends[step - 1] for step in range(1, STEPS + 1)), "the control takes turns"
    first = [
        {place(r.key): [(m.role, m.content) for m in r.messages] for r in done(lines) if r.key.step == 1}
        for lines in (one, other)
    ]
    assert first[0] == first[1]


def test_a_run_killed_anywhere_trains_no_step_twice_and_skips_none(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    """What finished before a kill is told once, and keeps its place where the bound still allows it."""
    moments, whole = random.Random(4), 2 * (STEPS * BATCH * GROUP + 4 * 3)
    run_dir = overlapped_run(tmp_path / "run", base_model, customer, max_staleness=2)
    for kill in range(4):
        trainer = Trainer.start(run_dir)
        trainer.wait_for_events(moments.randrange(whole // 5) + (kill * whole) // 5)
        trainer.signal(signal.SIGKILL)
        trainer.wait()
        customer.hear_the_last_of(trainer)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    lines = events(run_dir)
    assert [record.step for record in steps_of(lines)] == list(range(STEPS + 1))
    for record in steps_of(lines)[1:]:
        assert record.train is not None
        assert record.optimization is not None
        assert (record.train.rollouts, record.train.graded) == (BATCH * GROUP,) * 2
        assert record.optimization.trained_rollouts <= BATCH * GROUP
        assert (record.optimization.staleness_max or 0) <= 2
    assert isinstance(lines[-1].event, RunEnded)
    assert len(trained_on(lines)) == STEPS * BATCH * GROUP
    assert all(len(ids) == len(set(ids)) for ids in trained_on(lines).values())


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_stopped_run_goes_on_with_what_had_finished_of_the_steps_ahead(
    customer: Customer, base_model: Path, tmp_path: Path, end: signal.Signals
) -> None:
    """The customer's tools are not asked again for what an older policy had finished, where it may still be used."""
    run_dir = overlapped_run(tmp_path / "run", base_model, customer, max_staleness=2, valid_rows=VALID)
    graded = BATCH * GROUP + BATCH * GROUP // 2  # So that some of them are of a step ahead.
    with only_grades(customer, graded, is_counted=lambda body: not is_of_evaluation(body)):
        trainer = Trainer.start(run_dir)
        wait_for_ends(trainer, VALID + graded)
        trainer.wait_for("step_done")
        trainer.signal(end)
        assert trainer.wait() == (0 if end == signal.SIGTERM else -end)
    customer.hear_the_last_of(trainer)
    before = events(run_dir)
    finished = {one.trace_id for one in done(before) if isinstance(one.outcome, Grade)}
    completed = max((record.step for record in steps_of(before)), default=-1)
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    lines = events(run_dir)
    void = {name for line in lines if isinstance(line.event, RolloutsVoided) for name in line.event.trace_ids}
    told = Counter(one.trace_id for one in done(lines))
    assert set(told.values()) == {1}, "each is told of once"
    ahead = {
        one.trace_id
        for one in done(before)
        if one.trace_id in finished and one.key.step > completed and one.policy_version <= completed
    }
    assert ahead
    assert not ahead & void, "what may be used keeps its place"
    assert sum(isinstance(line.event, RunStarted) for line in lines) == 2


def test_an_outage_holds_all_steps_under_way_and_costs_none_of_them_a_rollout(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    run_dir = overlapped_run(
        tmp_path / "run", base_model, customer, max_staleness=2,
        hold=HoldRule(first_trial_s=0.1, max_trial_s=0.2),
        retry=RetryBudget(max_retries=1, total_s=2.0, first_wait_s=0.05),
    )  # fmt: skip
    log = run_dir / layout.EVENTS
    customer.is_down = lambda path: (
        path == "/grade" and b"step_done" in log.read_bytes() and b"hold_began" not in log.read_bytes()
    )
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    lines = events(run_dir)
    kinds = [line.event.type for line in lines if isinstance(line.event, HoldBegan | HoldEnded)]
    assert kinds
    assert kinds == ["hold_began", "hold_ended"] * (len(kinds) // 2)
    for record in steps_of(lines)[1:]:
        assert record.train is not None
        assert (record.train.rollouts - record.train.replaced, record.train.graded) == (BATCH * GROUP,) * 2


def test_a_run_that_ends_early_gives_up_what_runs_ahead_and_measures_its_best_policy(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    run_dir = overlapped_run(
        tmp_path / "run", base_model, customer, max_staleness=2, early_stop=EarlyStop(plateau_evaluations=1),
        measures_best=True, eval_interval=1,
    )  # fmt: skip
    answer, numbers = customer.reply, count()

    def reply(path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The first evaluation after an update is the best, the one after it ends the run."""
        if path == "/grade" and is_of_evaluation(body):
            return {"score": (0.1, 0.9, 0.2, 0.5)[next(numbers) // 3]}
        return answer(path, body)

    customer.reply = reply
    ended = run(run_dir, RunSecrets())
    assert ended.outcome == "succeeded", ended.error_message
    lines = events(run_dir)
    assert [record.step for record in steps_of(lines)] == [0, 1, 2]
    [measured] = [line.event for line in lines if isinstance(line.event, PolicyMeasured) and line.event.step]
    assert (measured.step, ended.best_step) == (1, 1)
    assert {one.policy_version for one in done(lines, Split.TEST) if one.key.step} == {1}
    assert not (run_dir / layout.checkpoint_dir(3)).exists(), "what was trained beside the last evaluation"
    last_step = next(line.seq for line in lines if isinstance(line.event, StepDone) and line.event.step == 2)
    late = [line.event for line in lines if line.seq > last_step and isinstance(line.event, RolloutDone)]
    assert {one.key.split for one in late} <= {Split.TEST}, "nothing that ran ahead went on"


def samples(run_dir: Path, version: int) -> bool:
    """Whether a policy version was published: the first rollouts under it have begun."""
    begun = [line.event for line in events(run_dir) if isinstance(line.event, RolloutsBegan)]
    return any(one.policy_version == version for event in begun for one in event.rollouts)


def test_turns_may_follow_the_policy_within_a_rollout(customer: Customer, base_model: Path, tmp_path: Path) -> None:
    """Tools of steps that run ahead answer once there is a newer policy."""
    run_dir = overlapped_run(
        tmp_path / "run", base_model, customer, max_staleness=1, policy_pin="turn",
        engine="tests.e2e.trainer.holding_engine:holding_engine",
    )  # fmt: skip
    answer = customer.reply

    def reply(path: str, body: dict[str, Any]) -> dict[str, Any]:
        step = next(
            (
                one.key.step
                for line in events(run_dir)
                if isinstance(line.event, RolloutsBegan)
                for one in line.event.rollouts
                if path == "/tool" and one.trace_id == body["trace_id"] and one.key.split is Split.TRAIN
            ),
            0,
        )
        while step > 1 and not samples(run_dir, version=step - 1):
            time.sleep(0.02)
        return answer(path, body)

    customer.reply = reply
    ended = run(run_dir, RunSecrets())
    assert ended.outcome == "succeeded", ended.error_message
    lines = events(run_dir)
    followed = [one for one in done(lines) if one.turn_versions is not None]
    assert followed
    for one in followed:
        assert one.turn_versions is not None
        assert one.key.step - 2 == one.policy_version == one.turn_versions[0]
        assert set(one.turn_versions[1:]) == {one.key.step - 1}
    assert all(one.turn_versions is None for one in done(lines) if one.key.step == 1 or one.turns == 1)
    assert all(one.turn_versions is None for one in done(lines, Split.VALID))
    stale = [one.optimization for one in steps_of(lines) if one.optimization and one.optimization.staleness_max]
    assert any(0 < (update.staleness_mean or 0) < 1 == update.staleness_max for update in stale)


def test_an_engine_of_one_version_is_refused_in_words(customer: Customer, base_model: Path, tmp_path: Path) -> None:
    run_dir = overlapped_run(
        tmp_path / "run", base_model, customer, max_staleness=1, engine="rft.testing.samplers:fake_engine"
    )
    ended = run(run_dir, RunSecrets())
    assert (ended.outcome, ended.error_code) == ("failed", "engine_holds_one_version")
    assert ended.error_param == "method.reinforcement.hyperparameters.max_staleness"
    assert ended.error_message is not None
    assert "holds one policy version at a time" in ended.error_message
