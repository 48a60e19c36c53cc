"""Rewards of `rollouts`, row by row."""

from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.core.rollout import Split
from rft.platform.rollouts.policy_change import GradedRollout

_GRADED: LiteralString = (
    "select row_index, trace_id, reward, tool_calls, completion_tokens, duration_s,"
    " case when tool_calls > 0 then record -> 'tool_calls' else '{}' end as calls_by_tool from rollouts"
    " where job_id = %s and split = %s and step = %s and reward is not null"
    " order by row_index, group_index, attempt limit %s"
)


async def rewards_by_row(
    connection: AsyncConnection[TupleRow], job_id: str, split: Split, step: int
) -> dict[int, list[float]]:
    """Of the graded rollouts of one step; rows without one are missing."""
    cursor = await connection.execute(
        "select row_index, array_agg(reward order by group_index, attempt) from rollouts"
        " where job_id = %s and split = %s and step = %s and reward is not null group by row_index",
        (job_id, split.value, step),
    )
    return {row[0]: row[1] for row in await cursor.fetchall()}


async def graded_rollouts(
    connection: AsyncConnection[TupleRow], job_id: str, split: Split, step: int, *, limit: int
) -> list[GradedRollout]:
    """Those of one step, row by row."""
    async with connection.cursor(row_factory=class_row(GradedRollout)) as cursor:
        await cursor.execute(_GRADED, (job_id, split.value, step, limit))
        return await cursor.fetchall()
