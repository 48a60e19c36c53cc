"""Rewards of `rollouts`, row by row."""

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.rollout import Split


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
