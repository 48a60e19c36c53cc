"""What is said of a job's pace."""

import pytest

from rft.core.events import StepDone
from rft.core.pacing import Bound
from rft.platform.rollouts.pace import pace_of
from tests.shared.train_events import step_done


def step(*, update_s: float, rollouts_s: float, staleness: int = 0) -> StepDone:
    record = step_done(3, 9, evaluated=False)
    assert record.train is not None
    assert record.optimization is not None
    timing = record.timing.model_copy(
        update={
            "sampling_s": 0.0 if staleness else rollouts_s / 10,
            "tools_s": 0.0 if staleness else rollouts_s * 0.8,
            "grading_s": 0.0 if staleness else rollouts_s / 10,
            "training_s": update_s,
            "eval_s": 0.0,
        }
    )
    return record.model_copy(
        update={
            "timing": timing,
            "train": record.train.model_copy(update={"rollout_latency_p95_s": rollouts_s}),
            "optimization": record.optimization.model_copy(update={"staleness_max": staleness}),
        }
    )


@pytest.mark.parametrize(
    ("record", "max_staleness", "bound", "message"),
    [
        (
            step(update_s=5.0, rollouts_s=30.0), 0, Bound.ROLLOUTS,
            "A step takes 35.0 s: 30.0 s of rollouts, then 5.0 s of update and evaluation."
            " With max_staleness 4 one would take about 8.0 s.",
        ),
        (
            step(update_s=5.0, rollouts_s=30.0, staleness=1), 1, Bound.ROLLOUTS,
            "Steps wait for their rollouts, 30.0 s from the first to the slowest."
            " With max_staleness 6 one would take about 5.0 s.",
        ),
        (
            step(update_s=30.0, rollouts_s=5.0, staleness=1), 1, Bound.UPDATE,
            "Steps wait for nothing but what is computed: 30.0 s of update and evaluation, and samples."
            " Faster tools would change nothing; more processors or a GPU would.",
        ),
        (
            step(update_s=30.0, rollouts_s=5.0, staleness=4), 4, Bound.UPDATE,
            "Steps wait for nothing but what is computed: 30.0 s of update and evaluation, and samples."
            " max_staleness 1 would be about as fast.",
        ),
    ],
)  # fmt: skip
def test_what_sets_the_pace_is_said_with_what_would_change_it(
    record: StepDone, max_staleness: int, bound: Bound, message: str
) -> None:
    told = pace_of([record], max_staleness)
    assert told is not None
    assert (told.bound, told.message) == (bound, message)


def test_nothing_is_said_before_the_first_update() -> None:
    assert pace_of([step_done(0, 5)], 0) is None
