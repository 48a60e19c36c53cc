"""What a job's curves are drawn from: the extremes of every 256 steps, stored by the worker, and a few more."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.rollouts.downsampling import Candidate

_MAX_STEP = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Series:
    """What is known of a window of steps from its buckets, and from the steps at its ends that fill none."""

    first: int
    last: int
    """Both are done."""
    validated: list[int]
    saved: list[int]
    """Their checkpoints are on disk."""
    steps: int
    rollouts: int
    """Of both splits."""
    excluded: int
    candidates: list[Candidate]
    """Each bucket's extremes, and all steps outside of buckets."""


class CurveRepository:
    """Reads `steps` and `step_buckets` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def series(self, job_id: str, *, from_step: int | None, to_step: int | None) -> Series | None:
        """A job's steps in a window, by default all; None when none of them is done."""
        window = {"job_id": job_id, "begin": from_step or 0, "end": _MAX_STEP if to_step is None else to_step}
        row = await (await self._connection.execute(_SERIES, window)).fetchone()
        return None if row is None else Series(*row)

    async def points(self, job_id: str, steps: Sequence[int]) -> str:
        """These steps, oldest first, each a `CurvePoint` as JSON, with commas between them."""
        cursor = await self._connection.execute(_POINTS, (job_id, f"{{{','.join(map(str, steps))}}}"))
        row = await cursor.fetchone()
        assert row is not None, "a row of one aggregate"
        return row[0] or ""

    async def rollouts_spent(self, job_id: str, steps: Sequence[int]) -> list[int]:
        """Rollouts up to and with each of these steps, all of which are done; in the order of the steps."""
        cursor = await self._connection.execute(_SPENT, (job_id, list(steps)))
        return [row[0] for row in await cursor.fetchall()]


# Candidates are JSON, which is read faster than rows are. The baseline, step 0, is none: it would hide others.
_SERIES: LiteralString = """
with done as (
    select min(step) as first, max(step) as last from steps where job_id = %(job_id)s
), ends as (
    select greatest(first, %(begin)s) as first, least(last, %(end)s) as last from done
    where first <= %(end)s and last >= %(begin)s and %(begin)s <= %(end)s
), buckets as (
    select step_buckets.* from step_buckets, ends
    where job_id = %(job_id)s and last_step >= %(begin)s::bigint + 255 and last_step <= ends.last
), inside as (
    select coalesce(min(last_step) - 255, max(ends.last) + 1) as first,
        coalesce(max(last_step), max(ends.last)) as last,
        coalesce(sum(steps), 0) as steps, coalesce(sum(rollouts), 0) as rollouts,
        coalesce(sum(excluded), 0) as excluded
    from ends left join buckets on true
), candidates as (
    select step, rollouts, excluded, train_reward, valid_reward, tool_calls, completion_tokens, duration_s
    from steps where job_id = %(job_id)s and step = any (array(
        select unnest(extremes) from buckets
        union all select generate_series(ends.first, inside.first - 1) from ends, inside
        union all select generate_series(inside.last + 1, ends.last) from ends, inside))
), outside as (
    select count(*) as steps, coalesce(sum(rollouts), 0) as rollouts, coalesce(sum(excluded), 0) as excluded
    from candidates where step not between (select first from inside) and (select last from inside)
)
select ends.first, ends.last,
    array(select step from steps where job_id = %(job_id)s and step between ends.first and ends.last
        and valid_reward is not null order by step),
    array(select step from checkpoints where job_id = %(job_id)s and step between ends.first and ends.last
        and is_kept order by step),
    (inside.steps + outside.steps)::bigint, (inside.rollouts + outside.rollouts)::bigint,
    (inside.excluded + outside.excluded)::bigint,
    (select coalesce(json_agg(json_build_array(step, json_build_array(
        train_reward, valid_reward, tool_calls, completion_tokens, excluded, duration_s))), '[]')
        from candidates where step > 0)
from ends, inside, outside
"""
_POINTS: LiteralString = """
select string_agg('{"step":' || step || ',"created_at":' || floor(date_part('epoch', created_at))::bigint
    || ',"record":' || drawn || '}', ',' order by step)
from steps where job_id = %s and step = any(%s::integer[])
"""
_SPENT: LiteralString = """
select spent from (
    select step, (sum(rollouts) over (order by step))::bigint as spent from steps where job_id = %s
) summed where step = any(%s::integer[]) order by step
"""
