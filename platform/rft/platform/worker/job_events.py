"""Writing one line into a job's event list."""

import json

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.base import JsonObject
from rft.core.ids import digest, public_id
from rft.platform.worker.storable import storable_json, storable_text


async def add_event(
    connection: AsyncConnection[TupleRow],
    job_id: str,
    message: str,
    *,
    level: str = "info",
    data: JsonObject | None = None,
    key: str,
    at: float | None = None,
) -> None:
    """A message event. `key` makes its id: the same key is written once per job. `at`: Unix seconds, else now."""
    await connection.execute(
        "insert into job_events (id, job_id, created_at, level, type, message, data)"
        " values (%s, %s, coalesce(to_timestamp(%s), clock_timestamp()), %s, 'message', %s, %s)"
        " on conflict (id) do nothing",
        (
            event_id(job_id, key),
            job_id,
            at,
            level,
            storable_text(message),
            None if data is None else storable_json(json.dumps(data)),
        ),
    )


async def add_metrics_event(
    connection: AsyncConnection[TupleRow],
    job_id: str,
    step: int,
    message: str,
    data: JsonObject,
    *,
    key: str,
    at: float,
) -> None:
    """The metrics event of a step: one per step, the last writer's."""
    await connection.execute(
        "insert into job_events (id, job_id, created_at, level, type, message, data, step)"
        " values (%s, %s, to_timestamp(%s), 'info', 'metrics', %s, %s, %s)"
        " on conflict (job_id, step) where type = 'metrics' do update"
        " set message = excluded.message, data = excluded.data, created_at = excluded.created_at",
        (event_id(job_id, key), job_id, at, message, storable_json(json.dumps(data)), step),
    )


def event_id(job_id: str, key: str) -> str:
    """Derived, so that a repeated write is no second event."""
    return public_id("ftevent-", digest(job_id, "event", key))
