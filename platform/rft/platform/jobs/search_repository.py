"""Which jobs a search finds, and in which order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from rft.core.job import JobStatus
from rft.platform.api.pagination import Order

JobSort = Literal["created", "reward", "gain", "burst", "duration"]


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What a job must be to be listed; all of it."""

    metadata: dict[str, str] | None = None
    """Pairs that it has."""
    is_metadata_null: bool = False
    search: str | None = None
    """Words that its id, suffix, model, fine-tuned model and metadata hold between them, whatever their case."""
    statuses: Sequence[JobStatus] = ()
    """One of these; none: any."""


async def search_jobs(
    connection: AsyncConnection[TupleRow],
    wanted: JobFilter,
    *,
    sort: JobSort,
    order: Order,
    after: str | None,
    limit: int,
) -> list[str]:
    """Ids of up to `limit` jobs. Those without the figure that is sorted by come last, newest first among equals.

    `after`: a job that exists, whether it is among them or not; by age, one that was deleted within the last day, too.
    """
    cursor = await connection.execute(
        _SEARCH,
        {
            "metadata": None if wanted.metadata is None else Jsonb(wanted.metadata),
            "is_metadata_null": wanted.is_metadata_null,
            "words": (wanted.search or "").lower().split(),
            "statuses": [status.value for status in wanted.statuses],
            "sort": sort,
            "sign": 1 if order == "desc" else -1,
            "after": after,
            "limit": limit,
        },
    )
    return [row[0] for row in await cursor.fetchall()]


# The figures that lists show: a reward is that of the final figures, and before there are any the latest validation's.
# What still runs has no duration: one that grows from page to page would pass others by, which no page would show.
_SEARCH: LiteralString = """
with keyed as (
    select id, created_at,
        coalesce(%(sign)s * case %(sort)s
            when 'created' then date_part('epoch', created_at)
            when 'reward' then coalesce((final_figures #>> '{reward,mean}')::double precision,
                (select valid_reward from steps where job_id = jobs.id and step > 0 and valid_reward is not null
                    order by step desc limit 1))
            when 'gain' then case when final_figures #>> '{reward,mean}' is not null
                then coalesce((final_figures #>> '{gain,difference}')::double precision,
                    (final_figures #>> '{reward,mean}')::double precision
                    - (final_figures #>> '{untrained,mean}')::double precision)
                else (select valid_reward from steps where job_id = jobs.id and step > 0 and valid_reward is not null
                    order by step desc limit 1)
                - (select valid_reward from steps where job_id = jobs.id and step = 0) end
            when 'burst' then (resolved ->> 'batch_size')::double precision
                * (resolved ->> 'group_size')::double precision
                * (1 + coalesce((resolved ->> 'max_staleness')::double precision, 0))
            when 'duration' then date_part('epoch', finished_at - started_at)
        end, '-infinity') as key,
        (%(metadata)s::jsonb is null or metadata @> %(metadata)s::jsonb)
        and (not %(is_metadata_null)s or metadata is null)
        and (%(statuses)s::text[] = '{}' or status = any(%(statuses)s::text[]))
        and not exists (select 1 from unnest(%(words)s::text[]) word
            where position(word in lower(concat_ws(' ', id, suffix, model, fine_tuned_model, metadata::text))) = 0)
        as is_wanted
    from jobs
), place as (
    select key, created_at, id from keyed where id = %(after)s
    union all
    select %(sign)s * date_part('epoch', created_at), created_at, id from deleted_cursors
    where id = %(after)s and list = 'jobs' and %(sort)s = 'created'
)
select id from keyed
where is_wanted and (%(after)s::text is null
    or (key, created_at, id) < (select key, created_at, id from place))
order by key desc, created_at desc, id desc limit %(limit)s
"""
