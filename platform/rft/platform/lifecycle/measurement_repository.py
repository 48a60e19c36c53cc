"""Rows of `measurements`, and the rewards behind them."""

from collections import defaultdict

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.events import PolicyMeasured
from rft.core.rollout import Split
from rft.core.step_record import RolloutStats
from rft.platform.store.storable import storable_json

RewardsOfRow = dict[int, list[float]]
"""Graded rewards by the row's place in its file."""


async def store_measurement(connection: AsyncConnection[TupleRow], job_id: str, measured: PolicyMeasured) -> None:
    """A policy was measured; told again, the later one counts."""
    await connection.execute(
        "insert into measurements (job_id, step, stats) values (%s, %s, %s)"
        " on conflict (job_id, step) do update set stats = excluded.stats",
        (job_id, measured.step, storable_json(measured.stats.model_dump_json())),
    )


async def forget_measurements(connection: AsyncConnection[TupleRow], job_id: str, *, after_step: int) -> None:
    """Of later steps."""
    await connection.execute("delete from measurements where job_id = %s and step > %s", (job_id, after_step))


async def is_measured(connection: AsyncConnection[TupleRow], job_id: str, step: int) -> bool:
    """Whether the step's policy was measured to the end."""
    cursor = await connection.execute("select 1 from measurements where job_id = %s and step = %s", (job_id, step))
    return await cursor.fetchone() is not None


async def measured_stats(connection: AsyncConnection[TupleRow], job_id: str) -> list[RolloutStats]:
    """Of every measurement that came to its end."""
    cursor = await connection.execute("select stats::text from measurements where job_id = %s order by step", (job_id,))
    return [RolloutStats.model_validate_json(row[0]) for row in await cursor.fetchall()]


async def measured_steps(connection: AsyncConnection[TupleRow], job_id: str) -> list[int]:
    """Steps that have rollouts which choose nothing, also of a measurement that did not come to its end."""
    cursor = await connection.execute(
        "select distinct step from rollouts where job_id = %s and split = 'test'"
        " union select step from begun_rollouts where job_id = %s and split = 'test' and not is_void",
        (job_id, job_id),
    )
    return [row[0] for row in await cursor.fetchall()]


async def rewards_by_row(
    connection: AsyncConnection[TupleRow], job_id: str, *, step: int, split: Split
) -> RewardsOfRow:
    """Rows without a graded rollout are not there."""
    cursor = await connection.execute(
        "select row_index, reward from rollouts"
        " where job_id = %s and step = %s and split = %s and reward is not null order by row_index, group_index",
        (job_id, step, split),
    )
    found: RewardsOfRow = defaultdict(list)
    for row_index, reward in await cursor.fetchall():
        found[row_index].append(reward)
    return dict(found)
