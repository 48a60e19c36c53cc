"""Downsampled curves: a bounded number of steps, with both ends and every extreme."""

import random
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rft.platform.rollouts.downsampling import CURVES, FEWEST, Candidate, downsample

BUCKET = 16
Curve = list[float | None]
LEVELS = (None, 0.0, 0.1, 0.5, 0.5, 0.5, 0.9, 7.0)


@st.composite
def series(draw: st.DrawFn) -> tuple[Curve, ...]:
    """Curves that are measured always, one that is now and then, one that counts what is bad; indexes are steps."""
    steps, every = draw(st.integers(1, 400)), draw(st.integers(1, 20))
    levels = draw(st.sets(st.sampled_from(LEVELS), min_size=1)) | {0.5}
    chance = random.Random(draw(st.integers(0, 2**32)))
    pool = sorted(levels, key=str)
    always: list[Curve] = [chance.choices(pool, k=steps) for _ in range(CURVES - 2)]
    sometimes: Curve = [chance.choice(pool) if step % every == 0 else None for step in range(steps)]
    bad: Curve = chance.choices((0.0, 1.0, 5.0), weights=(50, 1, 1), k=steps)
    return sometimes, bad, *always


def candidates_of(curves: Sequence[Curve]) -> list[Candidate]:
    """As the database has them: the extremes of each bucket, the latest of those that tie."""
    steps: set[int] = set()
    for begin in range(0, len(curves[0]), BUCKET):
        for curve in curves:
            here = range(begin, min(begin + BUCKET, len(curve)))
            measured = [(value, step) for step in here if (value := curve[step]) is not None]
            if measured:
                steps |= {max(measured)[1], max((-value, step) for value, step in measured)[1]}
    return [(step, [curve[step] for curve in curves]) for step in sorted(steps)]


@given(curves=series(), points=st.integers(FEWEST, 120), data=st.data())
def test_both_ends_and_every_extreme_are_kept_within_the_points(
    curves: tuple[Curve, ...], points: int, data: st.DataObject
) -> None:
    last = len(curves[0]) - 1
    validated = [step for step, value in enumerate(curves[0]) if value is not None]
    wanted = sorted(data.draw(st.sets(st.integers(0, last), max_size=8)))
    chosen = downsample(candidates_of(curves), validated, wanted, first=0, last=last, points=points)
    assert chosen == sorted(set(chosen))
    assert len(chosen) <= points
    assert {0, last, *wanted, *validated[-1:]} <= set(chosen)
    if last < points:
        assert chosen == list(range(last + 1))
    for curve in curves:
        assert extremes(curve, range(last + 1)) == extremes(curve, chosen)


def extremes(curve: Curve, steps: Sequence[int]) -> tuple[float, float] | None:
    measured = [value for step in steps if (value := curve[step]) is not None]
    return (min(measured), max(measured)) if measured else None


def test_flat_curves_leave_the_points_to_an_even_spread() -> None:
    flat: Curve = [0.5] * 1000
    chosen = downsample(candidates_of([flat] * CURVES), [], [], first=0, last=999, points=100)
    assert max(b - a for a, b in pairwise(chosen)) <= 11


def test_a_validated_step_stands_for_its_neighbours() -> None:
    flat: Curve = [0.5] * 1000
    validated = list(range(0, 1000, 20))
    chosen = downsample(candidates_of([flat]), validated, [], first=0, last=999, points=60)
    assert len(set(validated) & set(chosen)) >= 49


def test_every_part_keeps_its_own_extremes() -> None:
    curve: Curve = [10.0 if step % 200 == 77 else 1.0 for step in range(1000)]
    chosen = downsample(candidates_of([curve]), [], [], first=0, last=999, points=200)
    assert {77, 277, 477, 677, 877} <= set(chosen)
