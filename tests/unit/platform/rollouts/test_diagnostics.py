"""How fast tokens were sampled, where rollouts have their own time in a step and where they go on all of it."""

import pytest

from rft.platform.rollouts.diagnostics import diagnostics_of
from tests.shared.train_events import step_done


@pytest.mark.parametrize(("staleness", "seconds"), [(None, 1.75), (0, 1.75), (2, 4.0)])
def test_tokens_are_counted_over_the_time_in_which_they_were_sampled(staleness: int | None, seconds: float) -> None:
    record = step_done(3, 5)
    assert record.train is not None
    assert record.optimization is not None
    update = record.optimization.model_copy(update={"staleness_max": staleness})
    [point] = diagnostics_of([record.model_copy(update={"optimization": update})]).data
    assert point.sampled_tokens_per_s == pytest.approx(record.train.completion_tokens_total / seconds)
