"""An endpoint that goes away in the middle of a step: the run waits, keeps what was graded, and completes the step."""

import signal
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rft.core.egress_settings import EgressSettings
from rft.core.events import AttemptsMade, HoldBegan, HoldEnded, RolloutDone, RunEnded, StepDone, TrainEvent
from rft.core.failure import FailureCode, Stage
from rft.core.spec import HoldRule, RetryBudget, RunSecrets, ToolServer
from rft.trainer.run import run
from tests.e2e.trainer.harness import Customer, Received, Trainer, events, write_run
from tests.shared.running_platform import until

pytestmark = pytest.mark.timeout(900)

FAST_RETRY = RetryBudget(max_retries=30, first_wait_s=0.05, max_wait_s=0.2)
"""More than a breaker lets through until it opens: few calls at once share these failures among them."""
NO_RETRY = RetryBudget(max_retries=0)


class Outage:
    """The tool turns calls away from the given call on, until it is repaired."""

    def __init__(self, customer: Customer, path: str = "/tool", *, from_call: int) -> None:
        self.path, self.from_call = path, from_call
        self.is_repaired = threading.Event()
        self._customer = customer
        customer.is_down = self.is_down

    def is_down(self, path: str) -> bool:
        if path != self.path or self.is_repaired.is_set():
            return False
        return sum(received.path == path for received in self._customer.received) >= self.from_call


def told(run_dir: Path) -> list[TrainEvent]:
    return [line.event for line in events(run_dir)]


def holds(happened: Sequence[TrainEvent]) -> list[HoldBegan | HoldEnded]:
    return [event for event in happened if isinstance(event, HoldBegan | HoldEnded)]


def ending(happened: Sequence[TrainEvent]) -> RunEnded:
    last = happened[-1]
    assert isinstance(last, RunEnded)
    return last


def steps(happened: Sequence[TrainEvent]) -> Iterator[StepDone]:
    return (event for event in happened if isinstance(event, StepDone))


def assert_graded_ones_were_left_alone(received: Sequence[Received]) -> None:
    """As counted at the server: after its grade nothing is heard of a rollout any more, and it has only one."""
    graded: set[str] = set()
    for one in received:
        assert one.trace_id not in graded
        if one.path == "/grade" and one.is_answered:
            graded.add(one.trace_id)


@pytest.mark.slow
def test_an_outage_within_a_step_excludes_nothing(customer: Customer, base_model: Path, tmp_path: Path) -> None:
    outage = Outage(customer, from_call=5)
    run_dir = write_run(
        tmp_path / "run", base_model, customer.url, steps=2, group_size=16, valid_rows=0, retry=FAST_RETRY,
        egress=EgressSettings(has_adaptive_limits=True), hold=HoldRule(),
    )  # fmt: skip
    trainer = Trainer.start(run_dir)
    trainer.wait_for("hold_began")
    outage.is_repaired.set()
    assert trainer.wait() == 0
    happened = told(run_dir)
    assert ending(happened).outcome == "succeeded"
    began, ended = holds(happened)
    assert isinstance(began, HoldBegan)
    assert isinstance(ended, HoldEnded)
    assert (began.step, began.stage, began.endpoint) == (1, Stage.TOOL, "tool 'search'")
    assert "503" in began.reason
    assert (ended.step, ended.endpoint) == (1, "tool 'search'")
    for step in steps(happened):
        if step.train is not None:
            assert (step.train.graded, step.train.excluded, step.train.replaced) == (32, 0, 0)
    assert any(isinstance(event, RolloutDone) for event in happened[: happened.index(ended)]), "others went on"
    assert_graded_ones_were_left_alone(customer.received)
    attempts = [one for event in happened if isinstance(event, AttemptsMade) for one in event.attempts]
    assert Counter((one.trace_id, one.stage, one.code) for one in attempts) == Counter(
        (
            one.trace_id,
            Stage.GRADER if one.path == "/grade" else Stage.TOOL,
            None if one.is_answered else FailureCode.SERVER_ERROR,
        )
        for one in customer.received
    ), "the ledger has every attempt that the server saw"


@pytest.mark.slow
def test_a_round_whose_grader_failed_is_only_graded_again(customer: Customer, base_model: Path, tmp_path: Path) -> None:
    """The grader is down, and no breaker watches: first in the baseline, which is held like a step."""
    outage = Outage(customer, "/grade", from_call=0)
    run_dir = write_run(
        tmp_path / "run", base_model, customer.url, steps=1, retry=NO_RETRY,
        hold=HoldRule(first_trial_s=0.05, max_trial_s=0.2),
    )  # fmt: skip
    trainer = Trainer.start(run_dir)
    trainer.wait_for("hold_began")
    outage.is_repaired.set()
    assert trainer.wait() == 0
    happened = told(run_dir)
    began, ended = holds(happened)
    assert isinstance(began, HoldBegan)
    assert (began.step, began.stage, began.endpoint) == (0, Stage.GRADER, "grader 'letters'")
    assert began.reason.startswith("3 of 3 rollouts failed, for example: grader 'letters'")
    assert isinstance(ended, HoldEnded)
    baseline, first = steps(happened)
    assert baseline.valid is not None
    assert (baseline.valid.graded, baseline.valid.rollouts, baseline.valid.replaced) == (3, 3, 0)
    untold = [one.path for one in customer.received if one.is_answered is False]
    assert set(untold) == {"/grade"}
    assert len(untold) >= 3
    assert first.train is not None
    assert (first.train.graded, first.train.replaced) == (8, 0)
    assert_graded_ones_were_left_alone(customer.received)


def test_a_hold_that_lasts_too_long_fails_the_run_by_name(customer: Customer, base_model: Path, tmp_path: Path) -> None:
    Outage(customer, "/grade", from_call=0)
    run_dir = write_run(
        tmp_path / "run", base_model, customer.url, steps=1, valid_rows=0, retry=NO_RETRY,
        hold=HoldRule(first_trial_s=0.05, max_trial_s=0.1, max_s=0.5),
    )  # fmt: skip
    ended = run(run_dir, RunSecrets())
    assert (ended.outcome, ended.error_code) == ("failed", "endpoint_down")
    assert ended.error_param == "method.reinforcement.grader"
    assert ended.error_message is not None
    assert "grader 'letters'" in ended.error_message
    happened = told(run_dir)
    assert [event.type for event in holds(happened)][-1] == "hold_began"
    assert [step.step for step in steps(happened)] == [0], "nothing was trained on what was left"


def told_host(customer: Customer, kind: str) -> list[dict[str, Any]]:
    """Callbacks of that kind, as they came."""
    return [one.body for one in customer.received if one.path == "/host" and one.body["type"] == kind]


@pytest.mark.slow
def test_a_held_run_that_is_stopped_ends_at_once_and_frees_what_its_rollouts_had(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    Outage(customer, from_call=3)
    tool = ToolServer(name="search", server_url=f"{customer.url}/tool", callback_url=f"{customer.url}/host")
    run_dir = write_run(
        tmp_path / "run", base_model, customer.url, steps=1, group_size=16, valid_rows=0, retry=FAST_RETRY,
        egress=EgressSettings(has_adaptive_limits=True), hold=HoldRule(), tools=(tool,),
    )  # fmt: skip
    trainer = Trainer.start(run_dir)
    trainer.wait_for("hold_began")
    until(lambda: len(told_host(customer, "rollout.started")) == 32, "all rollouts to have begun")
    trainer.signal(signal.SIGTERM)
    assert trainer.wait(timeout_s=300) == 0, "long before the hold's own end"
    happened = told(run_dir)
    assert ending(happened).outcome == "stopped"
    assert [event.type for event in holds(happened)] == ["hold_began"]
    started = {body["trace_id"] for body in told_host(customer, "rollout.started")}
    ended = {body["trace_id"]: body["outcome"] for body in told_host(customer, "rollout.ended")}
    assert len(started) == 32
    assert set(ended) == started
    graded = {one.trace_id for one in happened if isinstance(one, RolloutDone)}
    assert {trace_id for trace_id, outcome in ended.items() if outcome == "graded"} == graded
    assert set(ended.values()) == {"graded", "cancelled"}
