"""Ingest: train events into rows, each sequence number once, under the lease's fence."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from rft.core.base import JsonObject
from rft.core.errors import RftError
from rft.core.events import (
    AttemptsMade,
    HoldBegan,
    HoldEnded,
    Notice,
    RolloutsBegan,
    RoundRedone,
    RunEnded,
    RunStarted,
    StepDone,
)
from rft.core.ids import digest, public_id
from rft.core.job import JobStatus
from rft.platform.jobs.repository import JobError, JobHold
from rft.platform.worker.begun_rollouts import store_begun, void_after, void_round
from rft.platform.worker.bulk_rows import store_attempts, store_rollouts
from rft.platform.worker.ending import fail, pause_for_failure
from rft.platform.worker.job_events import add_event, add_metrics_event
from rft.platform.worker.lease import Lease, hold_row, notify, release
from rft.platform.worker.log_line import LogLine, UnreadRollout
from rft.platform.worker.metrics_event import GraderLabel, flat_metrics, metrics_event
from rft.platform.worker.step_buckets import store_buckets
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
    is_held: bool | None = None
    """Whether the run waits for an endpoint at the batch's end; None when the batch does not say."""


@dataclass(frozen=True, slots=True)
class Ingest:
    """Writes one job's events. Every method runs inside one transaction."""

    lease: Lease
    graders: tuple[GraderLabel, ...]
    fine_tuned_model: str
    """The name the best checkpoint gets when the run succeeds."""
    tools: tuple[str, ...] = ()
    """Names of the job's tools."""

    async def batch(self, connection: AsyncConnection[TupleRow], lines: Sequence[LogLine]) -> Ingested:
        """Store what was not stored yet. Raises LeaseLost, LogGap and CorruptLog; nothing is written then."""
        async with connection.transaction():
            done = Ingested(last_seq=await hold_row(connection, self.lease))
            in_bulk: list[LogLine] = []
            for line in lines:
                if line.seq <= done.last_seq:
                    continue
                if line.seq != done.last_seq + 1:
                    raise LogGap(f"the event log jumps from {done.last_seq} to {line.seq}")
                done.last_seq = line.seq
                if isinstance(line.event, UnreadRollout | RolloutsBegan | AttemptsMade):
                    in_bulk.append(line)
                    continue
                await self._store_in_bulk(connection, in_bulk)
                in_bulk.clear()
                await self._store(connection, line, done)
            await self._store_in_bulk(connection, in_bulk)
            await connection.execute(
                "update jobs set last_event_seq = %s where id = %s and lease_token = %s",
                (done.last_seq, self.lease.job_id, self.lease.token),
            )
            if done.ended is not None:
                await self._end(connection, done.ended, done.last_seq)
            await notify(connection, self.lease.job_id)
        return done

    async def _store(self, connection: AsyncConnection[TupleRow], line: LogLine, done: Ingested) -> None:
        match line.event:
            case RunStarted():
                await self._rewind(connection, line, line.event)
                done.ended, done.is_held = None, False
            case StepDone():
                await self._step(connection, line, line.event)
                done.highest_step = max(done.highest_step, line.event.step)
            case Notice():
                await self._notice(connection, line, line.event)
            case RoundRedone():
                await self._redo(connection, line, line.event)
            case HoldBegan():
                await self._hold(connection, line, line.event)
                done.is_held = True
            case HoldEnded():
                await self._go_on(connection, line, line.event)
                done.is_held = False
            case RunEnded():
                done.ended = line.event
            case UnreadRollout() | RolloutsBegan() | AttemptsMade():
                raise AssertionError("these are stored in bulk")

    async def _store_in_bulk(self, connection: AsyncConnection[TupleRow], lines: Sequence[LogLine]) -> None:
        ended = await store_rollouts(connection, self.lease.job_id, lines)
        await store_begun(connection, self.lease.job_id, lines, ended=ended)
        await store_attempts(connection, self.lease.job_id, lines)

    async def _rewind(self, connection: AsyncConnection[TupleRow], line: LogLine, started: RunStarted) -> None:
        job_id, kept = self.lease.job_id, -1 if started.resumed_from_step is None else started.resumed_from_step
        await connection.execute("delete from steps where job_id = %s and step > %s", (job_id, kept))
        await void_after(connection, job_id, kept)
        await connection.execute("delete from attempts where job_id = %s and step > %s", (job_id, kept))
        await connection.execute("delete from checkpoints where job_id = %s and step > %s", (job_id, kept))
        await connection.execute(
            "delete from job_events where job_id = %s and type = 'metrics' and step > %s", (job_id, kept)
        )
        await connection.execute(
            "update jobs set status = 'running', hold = null, current_step = %s, total_steps = %s"
            " where id = %s and lease_token = %s",
            (started.resumed_from_step, started.total_steps, job_id, self.lease.token),
        )
        await self._count_tokens(connection)
        if started.resumed_from_step is not None:
            message = f"Training resumed from the checkpoint of step {started.resumed_from_step}"
            await add_event(connection, job_id, message, key=_key(line), at=line.at)

    async def _redo(self, connection: AsyncConnection[TupleRow], line: LogLine, redone: RoundRedone) -> None:
        """What was rolled out of this split of the step is void; so are its calls."""
        void = {"id": self.lease.job_id, "step": redone.step, "split": redone.split}
        await connection.execute(
            "delete from attempts where job_id = %(id)s and step = %(step)s and trace_id in"
            " (select trace_id from rollouts where job_id = %(id)s and step = %(step)s and split = %(split)s)",
            void,
        )
        await void_round(connection, self.lease.job_id, redone.step, redone.split)
        data: JsonObject = {
            "code": "rolled_out_anew",
            "step": redone.step,
            "split": redone.split,
            "rollouts": redone.rollouts,
            "lost": redone.lost,
            "failures_by_code": {**redone.failures_by_code},
        }
        await add_event(
            connection, self.lease.job_id, redone.message, level="warn", data=data, key=_key(line), at=line.at
        )

    async def _step(self, connection: AsyncConnection[TupleRow], line: LogLine, step: StepDone) -> None:
        job_id, event = self.lease.job_id, metrics_event(step, self.graders, self.tools)
        async with connection.pipeline():
            # Nobody else writes this job's steps while its row is held, so a sum that is carried on stays true.
            await connection.execute(
                "with before as (select (record->'optimization'->>'trained_tokens')::bigint as tokens from steps"
                " where job_id = %(id)s and step = %(step)s),"
                " stored as (insert into steps (job_id, step, created_at, record)"
                " values (%(id)s, %(step)s, to_timestamp(%(at)s), %(record)s)"
                " on conflict (job_id, step) do update set created_at = excluded.created_at, record = excluded.record)"
                " update jobs set current_step = %(step)s, total_steps = %(total)s,"
                " best_step = coalesce(%(best)s, best_step),"
                " trained_tokens = coalesce(trained_tokens, 0) + %(tokens)s - coalesce((select tokens from before), 0)"
                " where id = %(id)s and lease_token = %(token)s",
                {
                    "id": job_id,
                    "step": step.step,
                    "at": line.at,
                    "record": storable_json(step.model_dump_json()),
                    "total": step.total_steps,
                    "best": _first(step.checkpoint.kept_steps),
                    "tokens": 0 if step.optimization is None else step.optimization.trained_tokens,
                    "token": self.lease.token,
                },
            )
            await store_buckets(connection, job_id, first=step.step, last=step.step)
            await add_metrics_event(
                connection, job_id, step.step, event.message, event.data, key=_key(line), at=line.at
            )
            await self._checkpoint(connection, line, step)

    async def _checkpoint(self, connection: AsyncConnection[TupleRow], line: LogLine, step: StepDone) -> None:
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
            "update checkpoints set is_kept = false where job_id = %s and is_kept and step <> all(%s)", (job_id, kept)
        )
        await connection.execute(
            "update checkpoints set is_kept = true where job_id = %s and step = any(%s) and not is_kept", (job_id, kept)
        )

    async def _count_tokens(self, connection: AsyncConnection[TupleRow]) -> None:
        await connection.execute(
            "update jobs set trained_tokens ="
            " (select coalesce(sum((record->'optimization'->>'trained_tokens')::bigint), 0)"
            " from steps where job_id = %(id)s) where id = %(id)s and lease_token = %(token)s",
            {"id": self.lease.job_id, "token": self.lease.token},
        )

    async def _hold(self, connection: AsyncConnection[TupleRow], line: LogLine, began: HoldBegan) -> None:
        """The job waits for an endpoint; its worker stays with it."""
        job_id = self.lease.job_id
        hold = JobHold(
            endpoint=storable_text(began.endpoint),
            stage=began.stage,
            reason=storable_text(began.reason),
            since=line.at,
            step=began.step,
        )
        await connection.execute(
            "update jobs set status = 'paused', hold = %s where id = %s and lease_token = %s",
            (Jsonb(hold.model_dump(mode="json")), job_id, self.lease.token),
        )
        message = f"The job is held at step {began.step}: {began.reason}"
        data: JsonObject = {"code": "held", "endpoint": began.endpoint, "stage": began.stage, "step": began.step}
        await add_event(connection, job_id, message, level="warn", data=data, key=_key(line), at=line.at)

    async def _go_on(self, connection: AsyncConnection[TupleRow], line: LogLine, ended: HoldEnded) -> None:
        job_id = self.lease.job_id
        await connection.execute(
            "update jobs set status = 'running', hold = null where id = %s and lease_token = %s",
            (job_id, self.lease.token),
        )
        message = f"{ended.endpoint} answers again; step {ended.step} goes on after {ended.held_s:.0f} s"
        data: JsonObject = {
            "code": "hold_ended",
            "endpoint": ended.endpoint,
            "step": ended.step,
            "held_s": ended.held_s,
        }
        await add_event(connection, job_id, message, data=data, key=_key(line), at=line.at)

    async def _notice(self, connection: AsyncConnection[TupleRow], line: LogLine, notice: Notice) -> None:
        data = notice.data if notice.code is None else {"code": notice.code, **(notice.data or {})}
        await add_event(
            connection, self.lease.job_id, notice.message, level=notice.level, data=data, key=_key(line), at=line.at
        )

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
        if ended.outcome == "paused":
            await pause_for_failure(connection, self.lease, error, key=key)
            return
        await fail(connection, self.lease, error, key=key)


def _key(line: LogLine) -> str:
    # A log that lost its tail numbers anew: the time tells the old event from the new one.
    return f"{line.seq}:{line.at}"


def _first(steps: tuple[int, ...]) -> int | None:
    return steps[0] if steps else None
