"""How long updates of a base model took in jobs."""

from dataclasses import dataclass
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow


@dataclass(frozen=True, slots=True)
class MeasuredUpdates:
    """Of the last steps of one job."""

    job_id: str
    s_per_rollout: float
    """Seconds of an update for each rollout of its step."""


async def measured_updates(connection: AsyncConnection[TupleRow], *, model: str) -> MeasuredUpdates | None:
    """Of the model's newest job that trained."""
    row = await (await connection.execute(_NEWEST, {"model": model})).fetchone()
    return None if row is None else MeasuredUpdates(*row)


_NEWEST: LiteralString = """
select newest.id, avg((record -> 'timing' ->> 'training_s')::double precision)
    / greatest(1, avg((record -> 'train' ->> 'rollouts')::double precision))
from (select id, current_step from jobs where model = %(model)s and current_step >= 1 order by created_at desc limit 1)
    as newest
join steps on steps.job_id = newest.id and steps.step between newest.current_step - 9 and newest.current_step
where jsonb_typeof(record -> 'train') = 'object' and jsonb_typeof(record -> 'optimization') = 'object'
group by newest.id
"""
