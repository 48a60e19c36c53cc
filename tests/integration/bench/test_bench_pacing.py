"""The settings of `make bench-pacing`: what is measured are whole cycles of steps, in jobs that have rows for them."""

import pytest

from rft.core.hyperparameters import MAX_STALENESS
from tests.bench.pacing import CALIBRATED, FEWEST_MEASURED, SETTINGS, Run, Setting, calibration, compared

TRAIN_ROWS = 400


@pytest.mark.parametrize("staleness", range(MAX_STALENESS + 1))
def test_whole_cycles_are_measured_after_the_first_and_before_the_last_begin_nothing_more(staleness: int) -> None:
    setting = Setting(1.0, staleness)
    measured = setting.measured_steps
    assert len(measured) % (1 + staleness) == 0
    assert len(measured) >= FEWEST_MEASURED
    assert measured[0] == 2 + staleness, "the first cycle begins with nothing under way"
    assert setting.steps == measured[-1] + staleness


def test_there_are_eight_settings_that_differ_and_rows_for_each() -> None:
    assert len(SETTINGS) == len({*SETTINGS.values(), CALIBRATED}) - 1 == 8
    assert all(setting.rows * setting.steps <= TRAIN_ROWS for setting in SETTINGS.values())
    assert CALIBRATED.max_staleness == 0


def test_a_prediction_is_missed_by_the_share_that_the_measured_rate_is_off() -> None:
    setting = Setting(0.5)
    run = Run(steps_per_hour=480.0, update_s=1.6, rollouts_s=5.4, calls=4.0, calls_of_slowest=10.0, steps=())
    known = calibration(run, setting)
    assert known.sampling_s * setting.rollouts == pytest.approx(0.4)
    case = compared(setting, known, run)
    assert (case["told_step_s"], case["measured_step_s"]) == (7.0, 7.5)
    assert (case["missed"], case["passed"]) == (pytest.approx(-0.067), True)
    assert compared(setting, known, Run(360.0, 1.6, 5.4, 4.0, 10.0, ()))["passed"] is False
