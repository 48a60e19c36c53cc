"""Steps and curves on terminals of all widths."""

from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console, RenderableType

from rft.platform.cli.answers import Answer
from rft.platform.cli.chart import Point, curves_page, to_point
from rft.platform.cli.job_resources import STEP
from rft.platform.cli.pages import table


def figures(reward: float | None, excluded: int = 0) -> dict[str, Any]:
    """One split of a step."""
    return {"rollouts": 8, "excluded": excluded, "excluded_share": excluded / 8, "reward_mean": reward}


def printed(page: Callable[[Console], RenderableType], width: int) -> str:
    """What a terminal shows of a page that is made for it."""
    console = Console(width=width, force_terminal=False, highlight=False)
    with console.capture() as capture:
        console.print(page(console))
    return capture.get()


def drawn(answer: Answer, width: int) -> str:
    """What a terminal shows of a job's curves."""
    return printed(lambda console: curves_page(answer, console.width), width)


def curves(rewards: list[float | None], *, steps: int | None = None) -> Answer:
    """A job's course, one training reward a step."""
    data: list[Any] = [{"step": step, "record": {"train": figures(reward, 1)}} for step, reward in enumerate(rewards)]
    count = len(rewards) if steps is None else steps
    return Answer({"steps": count, "rollouts": 8 * count, "excluded": count, "data": data})


@pytest.mark.parametrize("width", [30, 50, 80, 200])
def test_the_curve_fits_the_page(width: int) -> None:
    shown = drawn(curves([0.1, 0.9, 0.5]), width)
    assert max(map(len, shown.splitlines())) <= width
    assert "┤" in shown


def test_a_page_too_narrow_for_a_curve_is_not_a_job_without_rewards() -> None:
    assert "too narrow" in drawn(curves([0.1]), 15)
    assert "no rewards yet" in drawn(curves([None]), 15)


def test_sums_tell_the_course_and_that_steps_were_left_out() -> None:
    shown = drawn(curves([0.1, 0.9, 0.5], steps=3000), 100)
    assert "0.100 -> 0.500, best 0.900 at step 1" in shown
    assert "3,000, drawn: 3" in shown
    assert "24,000, left out: 12.5%" in shown


def test_validation_rewards_have_their_intervals() -> None:
    records = [
        {"valid": figures(0.5) | {"reward_low": 0.25, "reward_high": 0.75}},
        {"valid": None},
        {"valid": figures(0.625)},
    ]
    data: list[Any] = [{"step": step, "record": record} for step, record in enumerate(records)]
    shown = drawn(Answer({"steps": 3, "rollouts": 24, "excluded": 0, "data": data}), 100)
    assert "0.500 [0.250, 0.750] -> 0.625, best 0.625 at step 2" in shown


@pytest.mark.parametrize(
    ("best_step", "told"),
    [
        (None, "0.500 -> 0.750, best 0.900 at step 1"),
        (2, "0.500 -> 0.750, best 0.750 at step 2"),
        (9, "0.500 -> 0.750 "),
    ],
)
def test_the_best_validation_is_the_one_that_the_job_chose(best_step: int | None, told: str) -> None:
    data: list[Any] = [{"step": step, "record": {"valid": figures(it)}} for step, it in enumerate((0.5, 0.9, 0.75))]
    answer = Answer({"steps": 3, "rollouts": 24, "excluded": 0, "data": data})
    assert told in printed(lambda console: curves_page(answer, console.width, best_step), 100)


def test_a_step_has_the_reward_of_its_rows_where_that_was_estimated() -> None:
    lost_hard_rows = figures(0.923, 2) | {"reward_estimate": {"mean": 0.75, "low": 0.516, "high": 0.894}}
    record: dict[str, Any] = {"train": figures(0.5, 2), "valid": lost_hard_rows, "timing": {"full_step_s": 3.0}}
    step = Answer({"step": 7, "record": record})
    line = printed(lambda console: table(STEP, [step], console), 100).splitlines()[-1]
    assert line.split()[:3] == ["7", "0.500", "0.750"]
    assert to_point(step) == Point(7, 0.5, 0.75, (0.516, 0.894))


@pytest.mark.parametrize("width", [40, 60, 100])
def test_rewards_are_the_last_columns_to_go(width: int) -> None:
    record: dict[str, Any] = {"total_steps": 9, "train": figures(0.5, 2), "valid": None, "timing": {"full_step_s": 3.0}}
    steps = [Answer({"step": 7, "record": record})]
    lines = printed(lambda console: table(STEP, steps, console), width).splitlines()
    assert lines[-1].split()[:3] == ["7", "0.500", "-"]
    assert ("25.0%" in lines[-1]) == (width >= 60)
