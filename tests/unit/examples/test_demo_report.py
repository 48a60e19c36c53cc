"""What the demo tells at its end: the figure of rows that chose nothing, beside its control."""

from typing import Any

import pytest
from examples.demo_report import best_step, make_report, sentences, table
from rich.console import Console


def split(reward: float, **codes: int) -> dict[str, Any]:
    return {"reward_mean": reward, "rollouts": 200, "excluded": sum(codes.values()), "failures_by_code": codes}


def step(number: int, valid: float | None, kept: list[int], **codes: int) -> dict[str, Any]:
    return {
        "step": number,
        "train": split(0.5, **codes) if number else None,
        "valid": None if valid is None else split(valid),
        "checkpoint": {"kept_steps": kept},
    }


def evaluation(step: int, temperature: float, mean: float | None) -> dict[str, Any]:
    reward = None if mean is None else {"mean": mean, "low": mean - 0.02, "high": mean + 0.02, "rows": 200}
    stats = {"tool_calls_mean": 2.5, "completion_tokens_mean": 44.4, "rollouts": 200, "excluded": 3}
    return {"step": step, "temperature": temperature, "reward": reward, "stats": stats}


STEPS = [
    step(0, 0.3, [0]),
    step(10, 0.97, [10, 0], timeout=4),
    step(20, 0.96, [10, 20, 0], timeout=1, connection_reset=2),
]
EVALUATIONS = [
    evaluation(number, temperature, reward)
    for number, rewards in ((0, (0.28, 0.7, 0.49)), (10, (0.948, 0.98, 1.0)))
    for temperature, reward in zip((1.0, 0.3, 0.0), rewards, strict=True)
]


def report() -> dict[str, Any]:
    return make_report(STEPS, EVALUATIONS, seconds_training=200.4, seconds_evaluation=21.0, seconds_total=300.0)


def test_the_reward_told_is_that_of_the_test_rows_and_never_that_of_the_choice() -> None:
    made = report()
    assert best_step(STEPS) == made["best_step"] == 10
    assert made["test"]["trained"]["T=1"]["reward"] == 0.948
    assert made["test"]["trained"]["T=1"]["reward_interval_95"] == pytest.approx([0.928, 0.968])
    assert {name: told["reward"] for name, told in made["test"]["untrained"].items()} == {
        "T=1": 0.28,
        "T=0.3": 0.7,
        "greedy": 0.49,
    }
    assert made["validation"] == {0: 0.3, 10: 0.97, 20: 0.96}
    shown = rendered(200)
    assert "0.948 [0.93, 0.97]" in shown
    assert "0.97 " not in shown, "the validation reward that chose the checkpoint"


def test_every_setting_of_the_trained_policy_stands_beside_the_untrained_one() -> None:
    lines = rendered(200).splitlines()
    for name, untrained, trained in (("T=1", 0.28, 0.948), ("T=0.3", 0.7, 0.98), ("greedy", 0.49, 1.0)):
        (line,) = [line for line in lines if f"reward, {name}" in line]
        assert line.index(f"{untrained:.3f} [") < line.index(f"{trained:.3f} [")


def rendered(width: int) -> str:
    console = Console(width=width, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(table(report()))
    return capture.get()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_table_can_be_drawn_at_any_width(width: int) -> None:
    assert max(map(len, rendered(width).splitlines())) <= width


def test_excluded_rollouts_are_told_by_code() -> None:
    made = report()
    assert made["rollouts"] == 1000
    assert made["excluded_rollouts"] == 7
    assert made["excluded_by_code"] == {"connection_reset": 2, "timeout": 5}
    assert sentences(made)[0] == "training: 1000 rollouts, 7 excluded (2 connection_reset, 5 timeout)"


def test_nothing_graded_is_a_dash_and_no_zero() -> None:
    made = make_report(STEPS, [evaluation(number, t, None) for number in (0, 10) for t in (1.0, 0.3, 0.0)])
    console = Console(width=100)
    with console.capture() as capture:
        console.print(table(made))
    (line,) = [line for line in capture.get().splitlines() if "reward, greedy" in line]
    assert "0.0" not in line
    assert line.count(" - ") == 2
