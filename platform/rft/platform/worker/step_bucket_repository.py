"""Steps in buckets of 256: what all of a bucket's steps come to, and where its curves are lowest and highest."""

from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

BUCKET = 256
"""Steps in a row of `step_buckets`; the last of them is one less than a multiple."""


async def store_buckets(connection: AsyncConnection[TupleRow], job_id: str, *, first: int, last: int) -> None:
    """After steps from `first` to `last` were stored: the buckets they belong to, where these are complete."""
    await connection.execute(STORE_BUCKETS, {"job_id": job_id, "first": first, "last": last})


# The baseline, step 0, has no part in the extremes: it is always shown, and would hide others.
STORE_BUCKETS: LiteralString = """
insert into step_buckets (job_id, last_step, steps, rollouts, excluded, extremes)
select job_id, step, bucket.* from steps as completing cross join lateral (
    with own as materialized (
        select * from steps where job_id = completing.job_id and step between completing.step - 255 and completing.step
    ), curve as (
        select name, step, value from own cross join lateral (values
            (1, train_reward), (2, valid_reward), (3, tool_calls), (4, completion_tokens), (5, excluded),
            (6, duration_s)
        ) as curves (name, value) where value is not null and step > 0
    )
    select count(*), sum(own.rollouts), sum(own.excluded), array(
        (select distinct on (name) step from curve order by name, value, step desc)
        union
        (select distinct on (name) step from curve order by name, value desc, step desc)
    ) from own
) as bucket
where job_id = %(job_id)s and step between %(first)s and %(last)s | 255 and step %% 256 = 255
on conflict (job_id, last_step) do update set steps = excluded.steps, rollouts = excluded.rollouts,
    excluded = excluded.excluded, extremes = excluded.extremes
"""
