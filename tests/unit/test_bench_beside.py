"""What `make bench-beside` makes of its times."""

from tests.bench.beside_training import case_of


def test_speeds_are_held_against_the_job_alone_of_the_same_repeat() -> None:
    case = case_of([2.0, 4.0, 2.0], [2.0, 4.0, 2.0], [2.5, 5.0, 2.5], pieces=7)
    assert (case["speed_beside_idle_serving"], case["speed_beside_streams"], case["passed"]) == (1.0, 0.8, True)


def test_every_bar_counts_and_so_does_that_somebody_was_answered() -> None:
    times = [2.0]
    assert case_of(times, times, times, pieces=1)["passed"] is True
    assert case_of(times, [2.2], times, pieces=1)["passed"] is False
    assert case_of(times, times, [3.0], pieces=1)["passed"] is False
    assert case_of(times, times, times, pieces=0)["passed"] is False
