"""The reward curve in characters."""

from hypothesis import example, given
from hypothesis import strategies as st

from rft.platform.cli.chart import DOT, Point, draw

_rewards = st.one_of(st.none(), st.floats())
_points = st.lists(
    st.builds(Point, step=st.integers(0, 10**6), train=_rewards, valid=_rewards),
    max_size=40,
    unique_by=lambda p: p.step,
)


def braille(text: str) -> set[str]:
    """Cells with dots in them."""
    return {letter for letter in text if "\u2801" <= letter <= "\u28ff"}


def test_a_rising_reward_rises_from_left_to_right() -> None:
    drawn = draw([Point(step, step / 10, None) for step in range(11)], 40, 10).splitlines()
    heights = {column: row for row, line in enumerate(drawn[:-2]) for column, cell in enumerate(line) if braille(cell)}
    columns = sorted(heights)
    assert [heights[column] for column in columns] == sorted(heights.values(), reverse=True)
    assert (heights[columns[0]], heights[columns[-1]]) == (7, 0)


def test_the_axes_name_the_ends() -> None:
    lines = draw([Point(0, None, 0.25), Point(50, 0.75, 0.5)], 60, 12).splitlines()
    assert lines[0].startswith("0.75 ┤")
    assert lines[-3].startswith("0.25 ┤")
    assert lines[-1].split() == ["step", "0", "50"]


def test_validations_are_dots_at_their_height() -> None:
    lines = draw([Point(0, 0.0, None), Point(1, 1.0, 1.0), Point(2, 0.0, 0.0)], 40, 10).splitlines()
    assert [row for row, line in enumerate(lines) if DOT in line] == [0, 7]
    assert lines[7].endswith(DOT)


def test_one_point_is_drawn_with_its_value() -> None:
    drawn = draw([Point(3, 0.5, None)], 40, 6)
    assert "0.50 ┤" in drawn
    assert braille(drawn)
    assert "step 3" in drawn


def test_more_steps_than_columns_are_averaged() -> None:
    noisy = [Point(step, float(step % 2), None) for step in range(10_000)]
    lines = draw([*noisy, Point(10_000, 1.0, None)], 40, 12).splitlines()
    assert sum(bool(braille(line)) for line in lines) < 8, "a band around one half, and the way to the last point"


def test_nothing_to_draw_and_no_room_give_nothing() -> None:
    assert draw([], 40, 10) == ""
    assert draw([Point(1, None, None), Point(2, float("nan"), float("inf"))], 40, 10) == ""
    assert draw([Point(1, 0.5, 0.5)], 15, 10) == ""
    assert draw([Point(1, 0.5, 0.5)], 40, 3) == ""


_SMALLEST, _LARGEST = 5e-324, 1.7976931348623157e308


@example([Point(7, -_SMALLEST, _SMALLEST)], 16, 4)
@example([Point(step, 1.0, -_LARGEST) for step in range(6)], 16, 4)
@example([Point(step, -1.0, _LARGEST) for step in range(60)], 17, 4)
@given(_points, st.integers(0, 120), st.integers(0, 40))
def test_any_curve_fits_its_frame(points: list[Point], width: int, height: int) -> None:
    drawn = draw(points, width, height)
    if drawn:
        assert len(drawn.splitlines()) == height
        assert max(map(len, drawn.splitlines())) <= width


@given(_points, st.integers(40, 120), st.integers(4, 40))
def test_what_is_there_is_drawn(points: list[Point], width: int, height: int) -> None:
    drawn = draw(points, width, height)
    values = [(point.train, point.valid) for point in points]
    has_valid = any(valid is not None and abs(valid) < float("inf") for _, valid in values)
    assert (DOT in drawn) == has_valid
    if any(train is not None and abs(train) < float("inf") for train, _ in values) and not has_valid:
        assert braille(drawn)
