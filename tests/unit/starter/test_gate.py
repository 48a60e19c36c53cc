"""The gate: a starter that cannot copy, or leaves no room to improve, is refused."""

import pytest

from rft.starter.gate import Gate
from rft.starter.report import Baseline, Probes

GOOD_PROBES = Probes(
    year_accuracy=0.99,
    page_accuracy=0.96,
    metric_accuracy=0.95,
    value_accuracy=1.0,
    year_probability=0.9,
    page_probability=0.9,
    metric_probability=0.5,
    value_probability=0.9,
)


def baseline(reward: float) -> Baseline:
    return Baseline(rollouts=100, reward=reward, calls=5, sampled_tokens=90, answered=0.9, greedy_reward=0.5)


@pytest.mark.parametrize("reward", [0.24, 0.32, 0.41])
def test_good_starters_pass(reward: float) -> None:
    assert Gate().problems(GOOD_PROBES, baseline(reward)) == []


@pytest.mark.parametrize("reward", [0.23, 0.42])
def test_reward_must_leave_room_both_ways(reward: float) -> None:
    (problem,) = Gate().problems(GOOD_PROBES, baseline(reward))
    assert problem == f"baseline reward {reward:.2f} is outside 0.24-0.41"


@pytest.mark.parametrize("name", ["year", "page", "metric", "value"])
def test_each_skill_counts(name: str) -> None:
    (problem,) = Gate().problems(GOOD_PROBES.model_copy(update={f"{name}_accuracy": 0.94}), baseline(0.3))
    assert problem == f"{name} accuracy 0.94 is below 0.95"


def test_all_problems_are_told() -> None:
    probes = GOOD_PROBES.model_copy(update={"year_accuracy": 0.1, "value_accuracy": 0.2})
    assert len(Gate().problems(probes, baseline(0.0))) == 3
