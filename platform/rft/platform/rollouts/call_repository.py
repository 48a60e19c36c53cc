"""Reads calls out of the records of `rollouts`."""

from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.rollout import Split
from rft.platform.rollouts.call_change import CallsOfRollout, MadeCall

_CALLS: LiteralString = (
    "select row_index, trace_id, (select json_agg(json_build_array("
    "call ->> 'name', md5(call ->> 'arguments'), left(call ->> 'arguments', 300)) order by place)"
    " from jsonb_path_query(record, '$.messages[*].tool_calls[*]') with ordinality as made (call, place))"
    " from rollouts where job_id = %s and split = %s and step = %s and reward is not null"
    " order by row_index, group_index, attempt limit %s"
)


async def calls_of_graded(
    connection: AsyncConnection[TupleRow], job_id: str, split: Split, step: int, *, limit: int
) -> list[CallsOfRollout]:
    """Of the graded rollouts of one step, row by row."""
    cursor = await connection.execute(_CALLS, (job_id, split.value, step, limit))
    return [
        CallsOfRollout(row_index, trace_id, [MadeCall(*call) for call in calls or ()])
        async for row_index, trace_id, calls in cursor
    ]
