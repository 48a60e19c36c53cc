"""Lines of a job's event list, and the notification that a job changed."""

import json
from collections.abc import Sequence
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.base import JsonObject
from rft.core.ids import digest, public_id
from rft.platform.store.deleted_cursors import MOVE_CURSOR
from rft.platform.store.storable import storable_json, storable_text


def validating_message(files: Sequence[tuple[str, str]]) -> str:
    """Of the files' fields and ids."""
    return "Validating " + " and ".join(f"{param.replace('_', ' ')}: {file_id}" for param, file_id in files)


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
        _ADD_MESSAGE,
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
        _ADD_METRICS,
        (event_id(job_id, key), job_id, at, message, storable_json(json.dumps(data)), step),
    )


def event_id(job_id: str, key: str) -> str:
    """Derived, so that a repeated write is no second event."""
    return public_id("ftevent-", digest(job_id, "event", key))


async def forget_metrics_events(connection: AsyncConnection[TupleRow], job_id: str, *, after_step: int) -> None:
    """The metrics events of later steps. Their places stay known, to whoever pages through the job's events."""
    await connection.execute(_FORGET_METRICS, (job_id, after_step, events_list(job_id)))


def events_list(job_id: str) -> str:
    """What `deleted_cursors` calls the list of the job's events."""
    return f"events of {job_id}"


async def metrics_data(connection: AsyncConnection[TupleRow], job_id: str) -> list[JsonObject]:
    """The data of all metrics events, in the order of their steps."""
    cursor = await connection.execute(_METRICS_DATA, (job_id,))
    return [row[0] for row in await cursor.fetchall()]


async def notify(connection: AsyncConnection[TupleRow], job_id: str) -> None:
    """Tell whoever watches this job that its rows changed; heard when the transaction commits."""
    await connection.execute("select pg_notify('rft_jobs', %s)", (job_id,))


async def listen(connection: AsyncConnection[TupleRow]) -> None:
    """Hear of every job that changes, on a connection that commits by itself."""
    await connection.execute("listen rft_jobs")


_ADD_MESSAGE: LiteralString = (
    "insert into job_events (id, job_id, created_at, level, type, message, data)"
    " values (%s, %s, coalesce(to_timestamp(%s), clock_timestamp()), %s, 'message', %s, %s)"
    " on conflict (id) do nothing"
)
_ADD_METRICS: LiteralString = (
    "insert into job_events (id, job_id, created_at, level, type, message, data, step)"
    " values (%s, %s, to_timestamp(%s), 'info', 'metrics', %s, %s, %s)"
    " on conflict (job_id, step) where type = 'metrics' do update"
    " set message = excluded.message, data = excluded.data, created_at = excluded.created_at"
)
_FORGET_METRICS: LiteralString = (
    "with gone as ("
    "delete from job_events where job_id = %s and type = 'metrics' and step > %s returning id, created_at, seq)"
    " insert into deleted_cursors (id, list, created_at, seq) select id, %s, created_at, seq from gone" + MOVE_CURSOR
)
_METRICS_DATA: LiteralString = "select data from job_events where job_id = %s and type = 'metrics' order by step"
