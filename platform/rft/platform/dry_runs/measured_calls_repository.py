"""How often a tool was called in jobs that had it."""

from dataclasses import dataclass
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from rft.core.secret_urls import redact_url
from rft.platform.orders.tool_schemas import Tool


@dataclass(frozen=True, slots=True)
class MeasuredCalls:
    """Of one tool in the last step of one job."""

    job_id: str
    per_rollout: float


async def measured_calls(connection: AsyncConnection[TupleRow], tool: Tool, *, model: str) -> MeasuredCalls | None:
    """Of the newest job that had this tool at this address, of the same base model if there is one."""
    wanted = {"reinforcement": {"tools": [{"name": tool.name, "server_url": redact_url(tool.server_url)}]}}
    values = {"wanted": Jsonb(wanted), "name": tool.name, "model": model}
    row = await (await connection.execute(_NEWEST, values)).fetchone()
    return None if row is None else MeasuredCalls(*row)


_NEWEST: LiteralString = """
select jobs.id, (called ->> 'calls_per_rollout_mean')::double precision
from jobs join steps on steps.job_id = jobs.id and steps.step = jobs.current_step,
    jsonb_array_elements(steps.record -> 'train' -> 'tools') called
where jobs.method @> %(wanted)s and jsonb_typeof(steps.record -> 'train') = 'object'
    and called ->> 'name' = %(name)s and called ->> 'calls_per_rollout_mean' is not null
order by jobs.model = %(model)s desc, jobs.created_at desc limit 1
"""
