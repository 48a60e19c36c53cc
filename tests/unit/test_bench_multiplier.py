"""What `make bench-multiplier` makes of step records; the runs themselves are the demo's."""

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from tests.bench.multiplier import Estimate, Run, case_of, mean_of, points_of
from tests.bench.multiplier_report import curve_picture, markdown_table


def record(step: int, rollouts: int | None, reward: float | None) -> dict[str, Any]:
    estimate = None if reward is None else {"mean": reward, "low": reward - 0.1, "high": reward + 0.1, "rows": 9}
    valid = None if reward is None else {"reward_estimate": estimate}
    return {"step": step, "train": None if rollouts is None else {"rollouts": rollouts}, "valid": valid}


def run(multiplier: float, seed: int, shift: float) -> Run:
    records = [record(0, None, 0.2 + shift), record(1, 64, None), record(2, 64, 0.5 + shift)]
    return Run(multiplier, seed, points_of(records), Estimate(0.6 + shift, 0.5 + shift, 0.7 + shift))


def test_rollouts_of_steps_without_an_evaluation_count_as_spent() -> None:
    points = points_of([record(0, None, 0.2), record(1, 64, None), record(2, 60, 0.5)])
    assert [(point.step, point.train_rollouts, point.reward.mean) for point in points] == [(0, 0, 0.2), (2, 124, 0.5)]


def test_two_seeds_say_more_than_one() -> None:
    both = mean_of([Estimate(0.4, 0.3, 0.5), Estimate(0.6, 0.5, 0.7)])
    assert both.mean == pytest.approx(0.5)
    assert both.high - both.mean == pytest.approx(0.1 / 2**0.5)
    assert mean_of([Estimate(0.99, 0.95, 1.0)] * 2).high <= 1.0


def test_runs_of_a_multiplier_are_told_together() -> None:
    case = case_of([run(2.0, 1, 0.0), run(2.0, 2, 0.1)])
    assert case["rollouts_per_row"] == 16
    assert [point["reward"]["mean"] for point in case["points"]] == pytest.approx([0.25, 0.55])
    assert case["final_by_seed"] == {"1": 0.6, "2": 0.7}


def test_table_and_picture_show_every_case() -> None:
    cases = [case_of([run(multiplier, 1, 0.0)]) for multiplier in (0.5, 4.0)]
    rows = markdown_table(cases).splitlines()
    assert len(rows) == 2 + len(cases)
    assert "| 4 | 32 | 128 |" in rows[-1]
    assert "0.600 [0.50, 0.70]" in rows[-1]
    drawn = ElementTree.fromstring(curve_picture(cases))
    assert len(drawn.findall("{http://www.w3.org/2000/svg}polyline")) == 2 * len(cases)
