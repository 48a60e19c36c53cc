"""A thinned course: of bounded size, with its ends and every peak."""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rft.platform.rollouts.thinning import FEWEST, Stretch, thinned

LENGTH = 16
Curve = list[float | None]
LEVELS = (None, 0.0, 0.1, 0.5, 0.5, 0.5, 0.9, 7.0)


@st.composite
def courses(draw: st.DrawFn) -> tuple[Curve, Curve, Curve]:
    """A curve measured always, one measured now and then, and one that counts what is bad; indexes are steps."""
    steps, every = draw(st.integers(1, 400)), draw(st.integers(1, 20))
    levels = draw(st.sets(st.sampled_from(LEVELS), min_size=1)) | {0.5}
    chance = random.Random(draw(st.integers(0, 2**32)))
    pool = sorted(levels, key=str)
    always: Curve = chance.choices(pool, k=steps)
    sometimes: Curve = [chance.choice(pool) if step % every == 0 else None for step in range(steps)]
    bad: Curve = chance.choices((0.0, 1.0, 5.0), weights=(50, 1, 1), k=steps)
    return always, sometimes, bad


def stretches_of(curves: Sequence[Curve], with_lowest: int) -> list[Stretch]:
    return [
        Stretch(
            lowest=[value_of(curve, begin, min) for curve in curves[:with_lowest]],
            lowest_at=[step_of(curve, begin, min) for curve in curves[:with_lowest]],
            highest=[value_of(curve, begin, max) for curve in curves],
            highest_at=[step_of(curve, begin, max) for curve in curves],
        )
        for begin in range(0, len(curves[0]), LENGTH)
    ]


def value_of(curve: Curve, begin: int, extreme: Callable[[list[float]], float]) -> float | None:
    measured = [value for value in curve[begin : begin + LENGTH] if value is not None]
    return extreme(measured) if measured else None


def step_of(curve: Curve, begin: int, extreme: Callable[[list[float]], float]) -> int | None:
    value = value_of(curve, begin, extreme)
    here = range(begin, min(begin + LENGTH, len(curve)))
    return None if value is None else max(step for step in here if curve[step] == value)


@given(course=courses(), points=st.integers(FEWEST, 120), data=st.data())
def test_a_course_keeps_its_ends_and_its_peaks_within_the_points_it_has(
    course: tuple[Curve, Curve, Curve], points: int, data: st.DataObject
) -> None:
    always, sometimes, bad = course
    last = len(always) - 1
    validated = [step for step, value in enumerate(sometimes) if value is not None]
    wanted = sorted(data.draw(st.sets(st.integers(0, last), max_size=4)))
    chosen = thinned(stretches_of(course, 2), validated, wanted, first=0, last=last, points=points)
    assert chosen == sorted(set(chosen))
    assert len(chosen) <= points
    assert {0, last, *wanted, *validated[-1:]} <= set(chosen)
    if last < points:
        assert chosen == list(range(last + 1))
    for curve in (always, sometimes):
        assert extremes(curve, range(last + 1)) == extremes(curve, chosen)
    assert max(value or 0 for value in bad) == max(bad[step] or 0 for step in chosen)


def extremes(curve: Curve, steps: Sequence[int]) -> tuple[float, float] | None:
    measured = [value for step in steps if (value := curve[step]) is not None]
    return (min(measured), max(measured)) if measured else None


def test_flat_curves_leave_all_points_to_an_even_spread() -> None:
    flat: Curve = [0.5] * 1000
    chosen = thinned(stretches_of([flat, flat], 1), [], [], first=0, last=999, points=100)
    assert max(b - a for a, b in pairwise(chosen)) <= 11


def test_a_validated_step_stands_for_its_neighbours() -> None:
    flat: Curve = [0.5] * 1000
    validated = list(range(0, 1000, 20))
    chosen = thinned(stretches_of([flat], 1), validated, [], first=0, last=999, points=60)
    assert len(set(validated) & set(chosen)) >= 49


def test_every_part_of_the_course_keeps_its_own_peaks() -> None:
    spikes = {step: 10.0 if step % 200 == 77 else 1.0 for step in range(1000)}
    curve: Curve = [spikes[step] for step in range(1000)]
    chosen = thinned(stretches_of([curve], 1), [], [], first=0, last=999, points=200)
    assert {77, 277, 477, 677, 877} <= set(chosen)
