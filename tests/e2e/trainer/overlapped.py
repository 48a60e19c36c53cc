"""A run whose rollouts of later steps are under way while a step is trained, and what its log tells."""

import json
from pathlib import Path
from typing import Any

from rft.core.events import (
    EventLine,
    RolloutDone,
    RolloutsVoided,
    StepDone,
)
from rft.core.grade import Grade
from rft.core.hyperparameters import PolicyPin, ResolvedHyperparameters
from rft.core.rollout import RolloutKey, Split
from tests.e2e.trainer.harness import Customer, write_run

STEPS, BATCH, GROUP, VALID = 5, 2, 4, 3


def overlapped_run(
    path: Path,
    base_model: Path,
    customer: Customer,
    *,
    max_staleness: int,
    engine: str = "transformers",
    eval_interval: int = 2,
    policy_pin: PolicyPin = "rollout",
    **changes: Any,
) -> Path:
    wanted = ResolvedHyperparameters(
        n_epochs=1, batch_size=BATCH, learning_rate_multiplier=1.0, compute_multiplier=1.0, eval_interval=eval_interval,
        eval_samples=1, group_size=GROUP, steps=STEPS, max_staleness=max_staleness, policy_pin=policy_pin,
    )  # fmt: skip
    return write_run(path, base_model, customer.url, max_tokens=24, engine=engine, hyperparameters=wanted, **changes)


def is_of_evaluation(body: dict[str, Any]) -> bool:
    """Whether a call is made for one of the validation rows."""
    return "Question 10" in json.dumps(body)


def done(lines: list[EventLine], split: Split = Split.TRAIN) -> list[RolloutDone]:
    told = [line.event for line in lines if isinstance(line.event, RolloutDone)]
    return [event for event in told if event.key.split is split]


def steps_of(lines: list[EventLine]) -> list[StepDone]:
    return [line.event for line in lines if isinstance(line.event, StepDone)]


def place(key: RolloutKey) -> tuple[int, int, int]:
    return key.step, key.row_index, key.index


def trained_on(lines: list[EventLine]) -> dict[tuple[int, int, int], list[str]]:
    """Ids by place of the graded training rollouts that are not void."""
    void = {name for line in lines if isinstance(line.event, RolloutsVoided) for name in line.event.trace_ids}
    found: dict[tuple[int, int, int], list[str]] = {}
    for rollout in done(lines):
        if isinstance(rollout.outcome, Grade) and rollout.trace_id not in void:
            found.setdefault(place(rollout.key), []).append(rollout.trace_id)
    return found
