"""What `make bench-shards` makes of its times."""

from dataclasses import replace

import pytest

from tests.bench.shards import NOTICED_S, Burst, Size, report

LOCAL = Burst(wall_s=10.0, rollouts=500, graded=500, began=500, longest_s=8.0, cpu_s=4.0)
KEPT = {
    "in_process": LOCAL,
    "workers": replace(LOCAL, wall_s=11.5),
    "two_killed": replace(LOCAL, wall_s=19.5 + NOTICED_S, began=600),
}


def test_bars_are_held_against_the_same_in_the_trainers_process() -> None:
    cases = report(KEPT, Size())
    assert all(case["passed"] for case in cases.values()), cases
    assert [case["times_in_process"] for case in cases.values()] == [1.0, 1.15, 2.95]
    assert cases["two_killed"]["began_anew"] == 100


@pytest.mark.parametrize(
    ("name", "burst"),
    [
        ("workers", replace(LOCAL, wall_s=11.6)),
        ("workers", replace(LOCAL, rollouts=499)),
        ("workers", replace(LOCAL, graded=499)),
        ("two_killed", replace(KEPT["two_killed"], wall_s=19.6 + NOTICED_S)),
        ("two_killed", replace(KEPT["two_killed"], began=500)),
    ],
)
def test_every_bar_counts_and_so_does_that_somebody_was_at_work_when_killed(name: str, burst: Burst) -> None:
    assert report(KEPT | {name: burst}, Size())[name]["passed"] is False
