"""Reads calls out of the records of `rollouts`."""

from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.rollout import Split
from rft.platform.rollouts.call_change import CallsOfRollout, MadeCall

# Rows may hold assistant messages of their own: the rollout's are the last `turns`. What it wrote beyond the calls that
# are counted was refused, as its budget was used up, and never made.
_CALLS: LiteralString = """
select row_index, trace_id, (
    select json_agg(json_build_array(name, md5(arguments), left(arguments, 300)) order by said, place) from (
        select call ->> 'name' as name, call ->> 'arguments' as arguments, said, place from (
            select message, said
            from jsonb_array_elements(record -> 'messages') with ordinality as messages (message, said)
            where message ->> 'role' = 'assistant' order by said desc limit (record ->> 'turns')::integer
        ) own cross join lateral jsonb_array_elements(message -> 'tool_calls') with ordinality as calls (call, place)
        order by said, place limit tool_calls
    ) made
) from rollouts where job_id = %s and split = %s and step = %s and reward is not null
order by row_index, group_index, attempt limit %s
"""


async def calls_of_graded(
    connection: AsyncConnection[TupleRow], job_id: str, split: Split, step: int, *, limit: int
) -> list[CallsOfRollout]:
    """Of the graded rollouts of one step, row by row."""
    cursor = await connection.execute(_CALLS, (job_id, split.value, step, limit))
    return [
        CallsOfRollout(row_index, trace_id, [MadeCall(*call) for call in calls or ()])
        async for row_index, trace_id, calls in cursor
    ]
