"""When a running job will be over."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from rft.platform.jobs.repository import JobRow

START_S = 1_790_000_000.0


def estimate(now_s: float, *, mean_s: float | None = 10.0, step: int | None = 2, total: int | None = 5) -> float | None:
    """Of a job whose last step ended at the start of time."""
    last = datetime.fromtimestamp(START_S, UTC)
    job = JobRow.model_construct(recent_step_s=mean_s, last_step_at=last, current_step=step, total_steps=total)
    return job.estimated_finish(now_s)


def test_the_steps_that_are_left_take_as_long_as_the_last_ones() -> None:
    assert estimate(START_S) == START_S + 30
    assert estimate(START_S + 9.5) == START_S + 30
    assert estimate(START_S - 100) == START_S + 30, "the clocks of two machines differ"


def test_a_step_that_takes_longer_is_taken_for_as_many_as_it_has_begun() -> None:
    assert estimate(START_S + 10.5) == estimate(START_S + 19.5) == START_S + 40
    assert estimate(START_S + 95) == START_S + 120


def test_the_work_after_the_last_step_lies_not_in_the_past() -> None:
    assert estimate(START_S + 1, step=5) == START_S + 10
    assert estimate(START_S + 11, step=5) == START_S + 20


def test_steps_too_short_to_be_told_apart_take_no_time() -> None:
    assert estimate(START_S + 1, mean_s=5e-324) == estimate(START_S + 1, mean_s=0) == START_S + 1


def test_nothing_is_known_before_a_step_is_done() -> None:
    assert estimate(START_S, mean_s=None) is None
    assert estimate(START_S, total=None) is None


@given(st.floats(0, 1e7), st.floats(0, 1e6), st.integers(0, 10_000), st.integers(0, 10_000))
def test_it_is_never_in_the_past_and_never_goes_back(elapsed_s: float, mean_s: float, step: int, left: int) -> None:
    now_s = START_S + elapsed_s
    first = estimate(now_s, mean_s=mean_s, step=step, total=step + left)
    later = estimate(now_s + 60, mean_s=mean_s, step=step, total=step + left)
    assert first is not None
    assert later is not None
    assert now_s <= first <= later
