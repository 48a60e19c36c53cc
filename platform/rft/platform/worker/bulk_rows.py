"""Rows that come by the thousand: rollouts and the ledger's attempts, written with COPY."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.attempt import Attempt
from rft.core.events import AttemptsMade, EventLine, RolloutDone
from rft.core.failure import Failure
from rft.platform.worker.storable import storable_json, storable_text


async def store_rollouts(connection: AsyncConnection[TupleRow], job_id: str, lines: Sequence[EventLine]) -> None:
    """The rollouts of these lines; one that is there already is replaced. Other events are left out."""
    # The last line of a rollout counts.
    rows = {
        line.event.trace_id: _rollout_row(job_id, line.at, line.event)
        for line in lines
        if isinstance(line.event, RolloutDone)
    }
    if not rows:
        return
    # Almost always there is none: looking costs a twentieth of what an upsert out of a second table does.
    await connection.execute("delete from rollouts where trace_id = any(%s)", (list(rows),))
    async with connection.cursor() as cursor, cursor.copy(_COPY_ROLLOUTS) as copy:
        for row in rows.values():
            await copy.write_row(row)


async def store_attempts(connection: AsyncConnection[TupleRow], job_id: str, lines: Sequence[EventLine]) -> None:
    """The ledger's lines in these events, in their order. Other events are left out."""
    made = [line.event for line in lines if isinstance(line.event, AttemptsMade)]
    if not any(event.attempts for event in made):
        return
    async with connection.cursor() as cursor, cursor.copy(_COPY_ATTEMPTS) as copy:
        for event in made:
            for attempt in event.attempts:
                await copy.write_row(_attempt_row(job_id, event.step, attempt))


_ROLLOUT_COLUMNS: LiteralString = (
    "trace_id, job_id, split, step, epoch, row_index, group_index, attempt, policy_version, reward, failure_code,"
    " failure_stage, stop_reason, tool_calls, completion_tokens, duration_s, created_at, record"
)
_COPY_ROLLOUTS: LiteralString = "copy rollouts (" + _ROLLOUT_COLUMNS + ") from stdin"
_COPY_ATTEMPTS: LiteralString = (
    "copy attempts (job_id, step, trace_id, stage, endpoint, call_id, attempt, code, status, latency_ms, queued_ms,"
    " sent_bytes, received_bytes, at) from stdin"
)


def _rollout_row(job_id: str, at: float, rollout: RolloutDone) -> tuple[str | int | float | datetime | None, ...]:
    key, outcome = rollout.key, rollout.outcome
    failure = outcome if isinstance(outcome, Failure) else None
    return (
        rollout.trace_id,
        job_id,
        key.split.value,
        key.step,
        key.epoch,
        key.row_index,
        key.index,
        key.attempt,
        rollout.policy_version,
        None if isinstance(outcome, Failure) else outcome.reward,
        failure and failure.code.value,
        failure and failure.stage.value,
        rollout.stop_reason and rollout.stop_reason.value,
        sum(rollout.tool_calls.values()),
        rollout.completion_tokens,
        rollout.duration_s,
        datetime.fromtimestamp(at, UTC),
        storable_json(rollout.model_dump_json()),
    )


def _attempt_row(job_id: str, step: int, attempt: Attempt) -> tuple[str | int | float | datetime | None, ...]:
    return (
        job_id,
        step,
        storable_text(attempt.trace_id),
        attempt.stage.value,
        storable_text(attempt.endpoint),
        storable_text(attempt.call_id),
        attempt.attempt,
        attempt.code and attempt.code.value,
        attempt.status,
        attempt.latency_s * 1000,
        attempt.queued_s * 1000,
        attempt.sent_bytes,
        attempt.received_bytes,
        datetime.fromtimestamp(attempt.at, UTC),
    )
