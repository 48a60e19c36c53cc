"""What a job's curves are drawn from: the database works it out when a step is stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.rollouts.thinning import Stretch

STRETCH = 256
"""Steps in a row of `step_stretches`, as the database counts them."""
_MAX_STEP = 2**31 - 1


@dataclass(frozen=True, slots=True)
class StretchRow(Stretch):
    """One row, or as much of one as is done."""

    steps: int
    rollouts: int
    """Of both splits."""
    excluded: int


@dataclass(frozen=True, slots=True)
class Course:
    """What is known of a window of steps without looking at any of them."""

    first: int
    last: int
    """Both are done."""
    stretches: list[StretchRow]
    """In order; at both ends only the part that is in the window."""
    validated: list[int]
    saved: list[int]
    """Their checkpoints are on disk."""


class CurveRepository:
    """Reads `steps` and `step_stretches` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def course(self, job_id: str, *, from_step: int | None, to_step: int | None) -> Course | None:
        """A job's steps in a window, by default all; None when none of them is done."""
        # From the very beginning, stretches are whole, also where a job has no step 0.
        begin, end = from_step or 0, _MAX_STEP if to_step is None else to_step
        head_end = begin - 1 if begin % STRETCH == 0 else min(end, begin - begin % STRETCH + STRETCH - 1)
        values = {"job_id": job_id, "begin": begin, "end": end, "head_end": head_end}
        cursor = await self._connection.execute(_COURSE if head_end < begin else _COURSE_WITH_HEAD, values)
        row = await cursor.fetchone()
        if row is None:
            return None
        first, last, validated, saved, stretches = row
        if first > last:
            return None
        return Course(first, last, [StretchRow(*stretch) for stretch in stretches], validated, saved)

    async def points(self, job_id: str, steps: Sequence[int]) -> str:
        """These steps, oldest first, each a `CurvePoint` as JSON, with commas between them."""
        cursor = await self._connection.execute(_POINTS, (job_id, f"{{{','.join(map(str, steps))}}}"))
        row = await cursor.fetchone()
        assert row is not None, "a row of one aggregate"
        return row[0] or ""


_COLUMNS: LiteralString = "last_step, steps, rollouts, excluded, lowest, lowest_at, highest, highest_at"
_HEAD: LiteralString = "select " + _COLUMNS + " from measured_stretch(%(job_id)s, %(begin)s, %(head_end)s) union all "
_STRETCHES: LiteralString = (
    "select " + _COLUMNS + " from step_stretches"
    " where job_id = %(job_id)s and last_step > %(head_end)s and last_step <= ends.last"
    " union all select " + _COLUMNS + " from measured_stretch("
    "%(job_id)s, greatest(least(%(head_end)s, ends.last) + 1, ends.last + 1 - (ends.last + 1) %% 256), ends.last)"
)


def _course(head: LiteralString) -> LiteralString:
    """One row, or none where no step is done. The stretches are JSON, which is read faster than arrays are."""
    in_window: LiteralString = " where job_id = %(job_id)s and step between %(begin)s and ends.last"
    return (
        "with done as (select min(step) as first, max(step) as last from steps where job_id = %(job_id)s),"
        " ends as (select greatest(first, %(begin)s) as first, least(last, %(end)s) as last"
        " from done where first is not null)"
        " select first, last,"
        " array(select step from steps" + in_window + " and valid_reward is not null order by step),"
        " array(select step from checkpoints" + in_window + " and is_kept order by step),"
        " (select coalesce(json_agg(json_build_array(lowest, lowest_at, highest, highest_at, steps, rollouts, excluded)"
        " order by last_step), '[]') from (" + head + _STRETCHES + ") as course where steps > 0)"
        " from ends"
    )


_COURSE: LiteralString = _course("")
_COURSE_WITH_HEAD: LiteralString = _course(_HEAD)
_POINTS: LiteralString = (
    "select string_agg('{\"step\":' || step || ',\"created_at\":' || floor(date_part('epoch', created_at))::bigint"
    " || ',\"record\":' || drawn || '}', ',' order by step) from steps"
    " where job_id = %s and step = any(%s::integer[])"
)
