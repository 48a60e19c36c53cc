"""Rows that come by the thousand: rollouts and the ledger's attempts, written with COPY."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.errors import UniqueViolation
from psycopg.rows import TupleRow

from rft.core.attempt import Attempt
from rft.core.events import AttemptsMade
from rft.platform.store.rollout_columns import COLUMNS, KEY_TYPES, RESULT_TYPES
from rft.platform.store.storable import storable_json_bytes, storable_text
from rft.platform.worker.called_tools_repository import CalledTools
from rft.platform.worker.log_line import LoggedRollout, LogLine, UnreadRollout
from rft.platform.worker.rollout_terms_repository import RolloutTerms

_Row = tuple[str | int | float | bytes | None, ...]


async def store_rollouts(connection: AsyncConnection[TupleRow], job_id: str, lines: Sequence[LogLine]) -> set[str]:
    """The rollouts of these lines; one that is there already is replaced. Other events are left out.

    Returns the ids of those stored.
    """
    told = [(line.at, line.event) for line in lines if isinstance(line.event, UnreadRollout)]
    stored: set[str] = set()
    if not told:
        return stored

    tools, terms = await CalledTools.load(connection, job_id), RolloutTerms(job_id)

    def rows() -> Iterator[_Row]:
        for at, unread in told:
            rollout = unread.read()
            stored.add(rollout.trace_id)
            terms.add(rollout)
            yield _rollout_row(job_id, at, rollout, tools.bits(rollout.called))

    try:
        async with connection.transaction():
            await _copy(connection, _ROLLOUTS, rows())
    except UniqueViolation:
        # So seldom that looking beforehand would cost more. The last line of a rollout counts.
        terms = RolloutTerms(job_id)
        last = {row[0]: row for row in rows()}
        await connection.execute("delete from rollouts where trace_id = any(%s)", (list(last),))
        await _copy(connection, _ROLLOUTS, last.values())
    await tools.store(connection)
    await terms.store(connection)
    return stored


async def store_attempts(connection: AsyncConnection[TupleRow], job_id: str, lines: Sequence[LogLine]) -> None:
    """The ledger's lines in these events, in their order. Other events are left out."""
    made = [line.event for line in lines if isinstance(line.event, AttemptsMade)]
    if not any(event.attempts for event in made):
        return
    rows = (_attempt_row(job_id, event.step, attempt) for event in made for attempt in event.attempts)
    await _copy(connection, _ATTEMPTS, rows)


async def _copy(connection: AsyncConnection[TupleRow], table: "_Table", rows: Iterable[_Row]) -> None:
    async with connection.cursor() as cursor, cursor.copy(table.copy) as copy:
        copy.set_types(table.types)
        for row in rows:
            await copy.write_row(row)


@dataclass(frozen=True, slots=True)
class _Table:
    """Where rows go, in Postgres' binary format: either side spends half of what text costs it."""

    copy: LiteralString
    types: tuple[str, ...]


_JSONB = "bytea"
"""What the driver is to pass on as it is: `jsonb` travels as a version and its text."""
_JSONB_VERSION = b"\x01"
_TIME = "int8"
"""`timestamptz` travels as microseconds since the year 2000; as a date it would cost as much as half the row."""
_YEAR_2000_S = 946684800
_ROLLOUTS = _Table(
    "copy rollouts (" + COLUMNS + ", job_id, tool_bits, record) from stdin (format binary)",
    (*KEY_TYPES, *RESULT_TYPES, _TIME, "text", "int8", _JSONB),
)
_ATTEMPTS = _Table(
    "copy attempts (job_id, step, trace_id, stage, endpoint, call_id, attempt, code, status, latency_ms, queued_ms,"
    " sent_bytes, received_bytes, at) from stdin (format binary)",
    (
        *("text", "int4", "text", "text", "text", "text", "int4", "text", "int4", "float4", "float4"),
        *("int8", "int8", _TIME),
    ),
)


def _rollout_row(job_id: str, at: float, rollout: LoggedRollout, tool_bits: int) -> _Row:
    return (
        rollout.trace_id,
        rollout.split,
        rollout.step,
        rollout.epoch,
        rollout.row_index,
        rollout.group_index,
        rollout.attempt,
        rollout.policy_version,
        rollout.reward,
        rollout.failure_code,
        rollout.failure_stage,
        rollout.stop_reason,
        rollout.tool_calls,
        rollout.completion_tokens,
        rollout.duration_s,
        _microseconds(at),
        job_id,
        tool_bits,
        _JSONB_VERSION + storable_json_bytes(rollout.record),
    )


def _attempt_row(job_id: str, step: int, attempt: Attempt) -> _Row:
    return (
        job_id,
        step,
        storable_text(attempt.trace_id),
        attempt.stage,
        storable_text(attempt.endpoint),
        storable_text(attempt.call_id),
        attempt.attempt,
        attempt.code,
        attempt.status,
        attempt.latency_s * 1000,
        attempt.queued_s * 1000,
        attempt.sent_bytes,
        attempt.received_bytes,
        _microseconds(attempt.at),
    )


def _microseconds(at: float) -> int:
    return round((at - _YEAR_2000_S) * 1e6)
