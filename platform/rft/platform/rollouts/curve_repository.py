"""What a job's curves are drawn from: the database works it out when a step is stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.platform.rollouts.thinning import Stretch

STRETCH = 256
"""Steps in a row of `step_stretches`, as the database counts them."""


@dataclass(frozen=True, slots=True)
class StretchRow(Stretch):
    """One row, or as much of one as is done."""

    steps: int
    rollouts: int
    """Of both splits."""
    excluded: int


class CurveRepository:
    """Reads `steps` and `step_stretches` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def ends(self, job_id: str) -> tuple[int, int] | None:
        """A job's first and last step; None when no step is done."""
        cursor = await self._connection.execute(_ENDS, (job_id,))
        row = await cursor.fetchone()
        return None if row is None or row[0] is None else (row[0], row[1])

    async def stretches(self, job_id: str, *, first: int, last: int) -> list[StretchRow]:
        """These steps in stretches, in order; at both ends only the part that was asked for."""
        head_end, tail_begin = first - 1, last + 1
        if first % STRETCH:
            head_end = min(last, first - first % STRETCH + STRETCH - 1)
        if tail_begin % STRETCH and head_end < last:
            tail_begin -= tail_begin % STRETCH
        values = {"job_id": job_id, "first": first, "head": head_end, "tail": tail_begin, "last": last}
        async with self._connection.cursor(row_factory=class_row(StretchRow)) as cursor:
            await cursor.execute(_STRETCHES, values)
            return await cursor.fetchall()

    async def marked(self, job_id: str, *, first: int, last: int) -> tuple[list[int], list[int]]:
        """Of these steps the validated ones, and those whose checkpoints are on disk; both in order."""
        cursor = await self._connection.execute(_MARKED, {"job_id": job_id, "first": first, "last": last})
        row = await cursor.fetchone()
        assert row is not None, "a row of two aggregates"
        return row[0], row[1]

    async def points(self, job_id: str, steps: Sequence[int]) -> list[str]:
        """These steps, oldest first, each a `CurvePoint` as JSON."""
        cursor = await self._connection.execute(_POINTS, (job_id, f"{{{','.join(map(str, steps))}}}"))
        return [point for (point,) in await cursor.fetchall()]


_ENDS: LiteralString = "select min(step), max(step) from steps where job_id = %s"
_COLUMNS: LiteralString = "last_step, steps, rollouts, excluded, lowest, lowest_at, highest, highest_at"
_STRETCHES: LiteralString = (
    "select steps, rollouts, excluded, lowest, lowest_at, highest, highest_at from ("
    "select " + _COLUMNS + " from measured_stretch(%(job_id)s, %(first)s, %(head)s)"
    " union all select " + _COLUMNS + " from step_stretches"
    " where job_id = %(job_id)s and last_step > %(head)s and last_step < %(tail)s"
    " union all select " + _COLUMNS + " from measured_stretch(%(job_id)s, %(tail)s, %(last)s)"
    ") as course where steps > 0 order by last_step"
)
_IN_WINDOW: LiteralString = " where job_id = %(job_id)s and step between %(first)s and %(last)s"
_MARKED: LiteralString = (
    "select array(select step from steps" + _IN_WINDOW + " and valid_reward is not null order by step),"
    " array(select step from checkpoints" + _IN_WINDOW + " and is_kept order by step)"
)
_POINTS: LiteralString = (
    "select '{\"step\":' || step || ',\"created_at\":' || floor(extract(epoch from created_at))::bigint"
    " || ',\"record\":' || drawn || '}' from steps where job_id = %s and step = any(%s::integer[]) order by step"
)
