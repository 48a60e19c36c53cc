"""Ingest: train events into rows, each sequence number once, under the lease's fence."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.errors import RftError
from rft.core.events import EventLine, Notice, RolloutDone, RunEnded, RunStarted, StepDone
from rft.core.failure import Failure
from rft.core.ids import digest, public_id
from rft.core.job import JobStatus
from rft.platform.jobs.repository import JobError
from rft.platform.worker.ending import fail
from rft.platform.worker.job_events import add_event, add_metrics_event
from rft.platform.worker.lease import Lease, hold_row, notify, release
from rft.platform.worker.metrics_event import GraderLabel, flat_metrics, metrics_event
from rft.platform.worker.storable import storable_json, storable_text


class LogGap(RftError):
    """A sequence number is missing: an event would be lost."""


@dataclass(slots=True)
class Ingested:
    """What a batch held."""

    last_seq: int
    highest_step: int = -1
    """Highest step that was completed in this batch; -1 for none."""
    ended: RunEnded | None = None


@dataclass(frozen=True, slots=True)
class Ingest:
    """Writes one job's events. Every method runs inside one transaction."""

    lease: Lease
    graders: tuple[GraderLabel, ...]
    fine_tuned_model: str
    """The name the best checkpoint gets when the run succeeds."""

    async def batch(self, connection: AsyncConnection[TupleRow], lines: Sequence[EventLine]) -> Ingested:
        """Store what was not stored yet. Raises LeaseLost (nothing is written then) and LogGap."""
        async with connection.transaction():
            done = Ingested(last_seq=await hold_row(connection, self.lease))
            rollouts: list[EventLine] = []
            for line in lines:
                if line.seq <= done.last_seq:
                    continue
                if line.seq != done.last_seq + 1:
                    raise LogGap(f"the event log jumps from {done.last_seq} to {line.seq}")
                done.last_seq = line.seq
                if isinstance(line.event, RolloutDone):
                    rollouts.append(line)
                    continue
                await self._store_rollouts(connection, rollouts)
                rollouts.clear()
                await self._store(connection, line, done)
            await self._store_rollouts(connection, rollouts)
            await connection.execute(
                "update jobs set last_event_seq = %s where id = %s and lease_token = %s",
                (done.last_seq, self.lease.job_id, self.lease.token),
            )
            if done.ended is not None:
                await self._end(connection, done.ended, done.last_seq)
            await notify(connection, self.lease.job_id)
        return done

    async def _store(self, connection: AsyncConnection[TupleRow], line: EventLine, done: Ingested) -> None:
        match line.event:
            case RunStarted():
                await self._rewind(connection, line, line.event)
                done.ended = None
            case StepDone():
                await self._step(connection, line, line.event)
                done.highest_step = max(done.highest_step, line.event.step)
            case Notice():
                await self._notice(connection, line, line.event)
            case RunEnded():
                done.ended = line.event
            case RolloutDone():
                raise AssertionError("rollouts are stored in bulk")

    async def _rewind(self, connection: AsyncConnection[TupleRow], line: EventLine, started: RunStarted) -> None:
        job_id, kept = self.lease.job_id, -1 if started.resumed_from_step is None else started.resumed_from_step
        await connection.execute("delete from steps where job_id = %s and step > %s", (job_id, kept))
        await connection.execute("delete from rollouts where job_id = %s and step > %s", (job_id, kept))
        await connection.execute("delete from checkpoints where job_id = %s and step > %s", (job_id, kept))
        await connection.execute(
            "delete from job_events where job_id = %s and type = 'metrics' and step > %s", (job_id, kept)
        )
        await connection.execute(
            "update jobs set current_step = %s, total_steps = %s where id = %s and lease_token = %s",
            (started.resumed_from_step, started.total_steps, job_id, self.lease.token),
        )
        await self._count_tokens(connection)
        if started.resumed_from_step is not None:
            message = f"Training resumed from the checkpoint of step {started.resumed_from_step}"
            await add_event(connection, job_id, message, key=_key(line), at=line.at)

    async def _step(self, connection: AsyncConnection[TupleRow], line: EventLine, step: StepDone) -> None:
        job_id = self.lease.job_id
        await connection.execute(
            "insert into steps (job_id, step, created_at, record) values (%s, %s, to_timestamp(%s), %s)"
            " on conflict (job_id, step) do update set created_at = excluded.created_at, record = excluded.record",
            (job_id, step.step, line.at, storable_json(step.model_dump_json())),
        )
        event = metrics_event(step, self.graders)
        await add_metrics_event(connection, job_id, step.step, event.message, event.data, key=_key(line), at=line.at)
        await self._checkpoint(connection, line, step)
        await connection.execute(
            "update jobs set current_step = %s, total_steps = %s, best_step = coalesce(%s, best_step)"
            " where id = %s and lease_token = %s",
            (step.step, step.total_steps, _first(step.checkpoint.kept_steps), job_id, self.lease.token),
        )
        await self._count_tokens(connection)

    async def _checkpoint(self, connection: AsyncConnection[TupleRow], line: EventLine, step: StepDone) -> None:
        job_id, kept = self.lease.job_id, list(step.checkpoint.kept_steps)
        await connection.execute(
            "insert into checkpoints (id, job_id, step, created_at, path, metrics)"
            " values (%s, %s, %s, to_timestamp(%s), %s, %s)"
            " on conflict (job_id, step) do update set path = excluded.path, metrics = excluded.metrics,"
            " created_at = excluded.created_at",
            (
                public_id("ftckpt_", digest(job_id, "checkpoint", step.step)),
                job_id,
                step.step,
                line.at,
                storable_text(step.checkpoint.path),
                json.dumps(flat_metrics(step)),
            ),
        )
        await connection.execute(
            "update checkpoints set is_kept = (step = any(%s)) where job_id = %s and is_kept <> (step = any(%s))",
            (kept, job_id, kept),
        )

    async def _count_tokens(self, connection: AsyncConnection[TupleRow]) -> None:
        await connection.execute(
            "update jobs set trained_tokens ="
            " (select coalesce(sum((record->'optimization'->>'trained_tokens')::bigint), 0)"
            " from steps where job_id = %(id)s) where id = %(id)s and lease_token = %(token)s",
            {"id": self.lease.job_id, "token": self.lease.token},
        )

    async def _notice(self, connection: AsyncConnection[TupleRow], line: EventLine, notice: Notice) -> None:
        data = notice.data if notice.code is None else {"code": notice.code, **(notice.data or {})}
        await add_event(
            connection, self.lease.job_id, notice.message, level=notice.level, data=data, key=_key(line), at=line.at
        )

    async def _store_rollouts(self, connection: AsyncConnection[TupleRow], lines: Sequence[EventLine]) -> None:
        if not lines:
            return
        async with connection.cursor() as cursor:
            await cursor.executemany(_UPSERT_ROLLOUT, [_rollout_row(self.lease.job_id, line) for line in lines])

    async def _end(self, connection: AsyncConnection[TupleRow], ended: RunEnded, seq: int) -> None:
        """A run that stopped can go on: only the runner knows why it was stopped."""
        if ended.outcome == "stopped":
            return
        job_id, key = self.lease.job_id, f"{self.lease.token}:{seq}"
        if ended.outcome == "succeeded":
            await connection.execute(
                "update jobs set fine_tuned_model = %s, best_step = coalesce(%s, best_step), error = null,"
                " launches_without_progress = 0"
                " where id = %s and lease_token = %s",
                (self.fine_tuned_model, ended.best_step, job_id, self.lease.token),
            )
            await add_event(
                connection, job_id, f"New fine-tuned model created: {self.fine_tuned_model}", key=f"{key}:a"
            )
            await add_event(connection, job_id, "The job has successfully completed", key=f"{key}:b")
            await release(connection, self.lease, JobStatus.SUCCEEDED)
            return
        error = JobError(
            code=ended.error_code or "training_failed",
            message=ended.error_message or "The training process reported a failure without a reason.",
            param=ended.error_param,
        )
        await fail(connection, self.lease, error, key=key)


_UPSERT_ROLLOUT = """
insert into rollouts (trace_id, job_id, split, step, epoch, row_index, group_index, attempt, policy_version, reward,
    failure_code, failure_stage, stop_reason, tool_calls, completion_tokens, duration_s, created_at, record)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, to_timestamp(%s), %s)
on conflict (trace_id) do update set step = excluded.step, epoch = excluded.epoch,
    policy_version = excluded.policy_version, reward = excluded.reward, failure_code = excluded.failure_code,
    failure_stage = excluded.failure_stage, stop_reason = excluded.stop_reason, tool_calls = excluded.tool_calls,
    completion_tokens = excluded.completion_tokens, duration_s = excluded.duration_s,
    created_at = excluded.created_at, record = excluded.record
"""


def _rollout_row(job_id: str, line: EventLine) -> tuple[str | int | float | None, ...]:
    rollout = line.event
    assert isinstance(rollout, RolloutDone)
    key, outcome = rollout.key, rollout.outcome
    failure = outcome if isinstance(outcome, Failure) else None
    return (
        rollout.trace_id,
        job_id,
        key.split,
        key.step,
        key.epoch,
        key.row_index,
        key.index,
        key.attempt,
        rollout.policy_version,
        None if isinstance(outcome, Failure) else outcome.reward,
        failure and failure.code,
        failure and failure.stage,
        rollout.stop_reason,
        sum(rollout.tool_calls.values()),
        rollout.completion_tokens,
        rollout.duration_s,
        line.at,
        storable_json(rollout.model_dump_json()),
    )


def _key(line: EventLine) -> str:
    # A log that lost its tail numbers anew: the time tells the old event from the new one.
    return f"{line.seq}:{line.at}"


def _first(steps: tuple[int, ...]) -> int | None:
    return steps[0] if steps else None
