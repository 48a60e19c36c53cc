"""A fifth of a real run's rollouts breaks: none of them is in loss or baseline, and each is labelled right."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from trl.trainer.grpo_trainer import GRPOTrainer

from rft.core.events import RolloutDone, StepDone
from rft.core.failure import Failure, FailureCode, Fault, Stage
from rft.core.grade import Grade
from rft.core.group import advantages_G
from rft.core.rollout import Split
from rft.core.spec import RetryBudget, RunSecrets
from rft.rollouts import wiring
from rft.rollouts.setup import RolloutSetup
from rft.testing.trace_ids import trace_ids
from rft.trainer.run import run
from tests.e2e.trainer.harness import Broken, Customer, events, write_run

FAULTS = [
    (Broken(503, b"{}"), FailureCode.SERVER_ERROR),
    (Broken(), FailureCode.CONNECTION_RESET),
    (Broken(200, b"<html>Bad gateway</html>"), FailureCode.INVALID_REPLY),
]
"""What breaks the first call of a rollout, be it a tool's or the grader's."""
GRADER_FAULTS = [
    (Broken(200, b'{"score": NaN}'), FailureCode.INVALID_SCORE),
    (Broken(401, b'{"error": "who are you"}'), FailureCode.UNAUTHORIZED),
]


def plan(trace_id: str) -> tuple[Broken, FailureCode, bool] | None:
    """What is done to a rollout, how that is called, and whether only its grader does it; None for four in five."""
    draw = hashlib.sha256(trace_id.encode()).digest()
    if draw[0] >= 256 // 5:
        return None
    broken, code = [*FAULTS, *GRADER_FAULTS][draw[1] % 5]
    return broken, code, draw[1] % 5 >= len(FAULTS)


def fault(path: str, body: dict[str, Any]) -> Broken | None:
    done = plan(body["trace_id"])
    if done is None:
        return None
    broken, _, is_graders = done
    return broken if path == "/grade" or not is_graders else None


class Loss:
    """What TRL's loss reads: sampled tokens and advantage of each row, micro-batch by micro-batch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_step: dict[int, list[tuple[int, float]]] = defaultdict(list)
        compute = GRPOTrainer._compute_loss  # pyright: ignore[reportPrivateUsage]

        def read(trainer: Any, model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
            sampled = inputs["tool_mask"].sum(dim=1)
            rows = [(int(n), float(a)) for n, a in zip(sampled, inputs["advantages"], strict=True) if n > 0]
            self.by_step[trainer.state.global_step + 1].extend(rows)
            return compute(trainer, model, inputs)

        monkeypatch.setattr(GRPOTrainer, "_compute_loss", read)


def slots(told: Sequence[RolloutDone]) -> list[list[RolloutDone]]:
    """The groups of a step: the last rollout of each slot."""
    last = {(one.key.row_index, one.key.index): one for one in sorted(told, key=lambda one: one.key.attempt)}
    by_row = groupby(sorted(last.items()), key=lambda item: item[0][0])
    return [[one for _, one in group] for _, group in by_row]


def expected_rows(told: Sequence[RolloutDone]) -> list[tuple[int, float]]:
    """Graded rollouts of groups with signal, their advantages over the graded ones of the group alone."""
    rows: list[tuple[int, float]] = []
    for group in slots(told):
        rewards = [one.outcome.reward if isinstance(one.outcome, Grade) else None for one in group]
        rows.extend(
            (one.completion_tokens, advantage)
            for one, advantage in zip(group, advantages_G(rewards), strict=True)
            if advantage is not None
        )
    return sorted(rows)


def test_what_is_trained_on_is_exactly_what_was_graded(
    customer: Customer, base_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    customer.fault = fault
    # Which rollouts break hangs on their ids: the same ones in each run of this test.
    monkeypatch.setattr(wiring, "RolloutSetup", partial(RolloutSetup, draw_trace_id=trace_ids()))
    loss = Loss(monkeypatch)
    run_dir = write_run(
        tmp_path / "run", base_model, customer.url, steps=3, group_size=16, valid_rows=0,
        retry=RetryBudget(max_retries=1, first_wait_s=0.001),
    )  # fmt: skip
    assert run(run_dir, RunSecrets()).outcome == "succeeded"
    told = [line.event for line in events(run_dir)]
    ended = [event for event in told if isinstance(event, RolloutDone) and event.key.split is Split.TRAIN]
    first_paths = {one.trace_id: one.path for one in reversed(customer.received)}
    seen: set[FailureCode] = set()
    for one in ended:
        planned = plan(one.trace_id)
        if planned is None:
            assert isinstance(one.outcome, Grade)
            continue
        assert isinstance(one.outcome, Failure)
        _, code, is_graders = planned
        is_tool = first_paths[one.trace_id] == "/tool" and not is_graders
        stage, endpoint = (Stage.TOOL, "search") if is_tool else (Stage.GRADER, "letters")
        assert (one.outcome.stage, one.outcome.endpoint, one.outcome.code) == (stage, endpoint, code)
        assert one.outcome.fault is Fault.ENDPOINT
        seen.add(code)
    assert len(seen) >= 3
    steps = [event for event in told if isinstance(event, StepDone) and event.train is not None]
    assert [step.step for step in steps] == [1, 2, 3]
    for step in steps:
        of_step = [one for one in ended if one.key.step == step.step]
        wanted = expected_rows(of_step)
        read = sorted(loss.by_step[step.step])
        assert [tokens for tokens, _ in read] == [tokens for tokens, _ in wanted]
        torch.testing.assert_close(
            torch.tensor([advantage for _, advantage in read]),
            torch.tensor([advantage for _, advantage in wanted]),
        )
        assert step.optimization is not None
        assert step.optimization.trained_rollouts == len(wanted)
        assert step.optimization.trained_tokens == sum(tokens for tokens, _ in wanted)
        assert step.train is not None
        rewards = [one.outcome.reward for one in of_step if isinstance(one.outcome, Grade)]
        assert step.train.reward_mean == pytest.approx(sum(rewards) / len(rewards))
        assert step.train.excluded == len(of_step) - len(rewards)
        assert step.train.reward_mean_if_failures_were_zero == pytest.approx(sum(rewards) / len(of_step))
