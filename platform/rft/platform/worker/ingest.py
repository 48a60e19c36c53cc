"""Ingest: train events into rows, each sequence number once, under the lease's fence."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.base import JsonObject
from rft.core.errors import RftError
from rft.core.events import (
    AttemptsMade,
    CallsFailed,
    HoldBegan,
    HoldEnded,
    Notice,
    PolicyMeasured,
    RatiosMeasured,
    RolloutsBegan,
    RolloutsVoided,
    RoundRedone,
    RunEnded,
    RunStarted,
    StepDone,
    StillWaiting,
    TokensSampled,
)
from rft.core.job import JobStatus
from rft.core.rollout import Split
from rft.platform.lifecycle.ending import fail, pause_for_failure
from rft.platform.lifecycle.events import add_event, add_metrics_event, forget_metrics_events, notify
from rft.platform.lifecycle.job_lease import release
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.measurement_repository import forget_measurements, measured_steps, store_measurement
from rft.platform.lifecycle.records import JobError, JobHold
from rft.platform.lifecycle.run_repository import RunRepository
from rft.platform.store.storable import storable_json, storable_text
from rft.platform.worker.begun_rollout_repository import store_begun, void_after, void_rollouts, void_round
from rft.platform.worker.bulk_repository import store_attempts, store_rollouts
from rft.platform.worker.failed_call_repository import store_failed_calls
from rft.platform.worker.final_figures import measure_final, message_of
from rft.platform.worker.log_line import LogLine, UnreadRollout
from rft.platform.worker.metrics_event import GraderLabel, metrics_event
from rft.platform.worker.step_bucket_repository import store_buckets
from rft.platform.worker.steps_repository import forget_after, forget_calls, forget_round, store_checkpoint
from rft.platform.worker.token_repository import store_tokens

_IN_BULK = (UnreadRollout, RolloutsBegan, AttemptsMade, CallsFailed, TokensSampled, RatiosMeasured)
"""Events that are stored many at a time."""


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
            job = RunRepository(connection, self.lease)
            done = Ingested(last_seq=await job.lock())
            in_bulk: list[LogLine] = []
            for line in lines:
                if line.seq <= done.last_seq:
                    continue
                if line.seq != done.last_seq + 1:
                    raise LogGap(f"the event log jumps from {done.last_seq} to {line.seq}")
                done.last_seq = line.seq
                if isinstance(line.event, StillWaiting):
                    continue  # That there is a line is all that it says.
                if isinstance(line.event, _IN_BULK):
                    in_bulk.append(line)
                    continue
                await self._store_in_bulk(connection, in_bulk)
                in_bulk.clear()
                await self._store(connection, line, done)
            await self._store_in_bulk(connection, in_bulk)
            await job.set_last_event(done.last_seq)
            if done.ended is not None:
                await self._end(connection, done.ended, done.last_seq)
            await notify(connection, self.lease.id)
        return done

    async def _store(self, connection: AsyncConnection[TupleRow], line: LogLine, done: Ingested) -> None:
        match line.event:
            case RunStarted():
                await self._rewind(connection, line, line.event)
                done.ended, done.is_held = None, False
            case StepDone():
                await self._step(connection, line, line.event)
                done.highest_step = max(done.highest_step, line.event.step)
            case PolicyMeasured():
                await store_measurement(connection, self.lease.id, line.event)
            case RolloutsVoided(step=step, trace_ids=trace_ids):
                await forget_calls(connection, self.lease.id, step, trace_ids)
                await void_rollouts(connection, self.lease.id, trace_ids)
            case Notice():
                await self._notice(connection, line, line.event)
            case RoundRedone():
                await self._redo(connection, line, line.event)
            case HoldBegan() | HoldEnded():
                await self._hold_changed(connection, line, line.event)
                done.is_held = isinstance(line.event, HoldBegan)
            case RunEnded():
                done.ended = line.event
            case (
                UnreadRollout()
                | RolloutsBegan()
                | AttemptsMade()
                | CallsFailed()
                | TokensSampled()
                | RatiosMeasured()
                | StillWaiting()
            ):
                raise AssertionError("these are stored in bulk, or not at all")

    async def _store_in_bulk(self, connection: AsyncConnection[TupleRow], lines: Sequence[LogLine]) -> None:
        ended = await store_rollouts(connection, self.lease.id, lines)
        await store_begun(connection, self.lease.id, lines, ended=ended)
        await store_attempts(connection, self.lease.id, lines)
        await store_failed_calls(connection, self.lease.id, lines)
        await store_tokens(connection, self.lease.id, lines)

    async def _rewind(self, connection: AsyncConnection[TupleRow], line: LogLine, started: RunStarted) -> None:
        job_id, last = self.lease.id, -1 if started.resumed_from_step is None else started.resumed_from_step
        await forget_after(connection, job_id, last, kept=started.kept)
        await void_after(connection, job_id, last, kept=started.kept)
        await forget_metrics_events(connection, job_id, after_step=last)
        await self._forget_measurements(connection, started, after_step=last)
        job = RunRepository(connection, self.lease)
        await job.rewind(step=started.resumed_from_step, total_steps=started.total_steps)
        await job.recount_tokens()
        if started.resumed_from_step is not None:
            message = f"Training resumed from the checkpoint of step {started.resumed_from_step}"
            where: JsonObject = {"code": "resumed", "step": started.resumed_from_step}
            await add_event(connection, job_id, message, data=where, key=_key(line), at=line.at)
        if started.kept:
            message = f"Kept are the rollouts of later steps that had ended: {len(started.kept):,}"
            data: JsonObject = {"code": "rollouts_kept", "rollouts": len(started.kept)}
            await add_event(connection, job_id, message, data=data, key=f"{_key(line)}:kept", at=line.at)

    async def _forget_measurements(
        self, connection: AsyncConnection[TupleRow], started: RunStarted, *, after_step: int
    ) -> None:
        """The untrained policy's stays with its step; the best one's is the last thing a run does, and is done anew."""
        job_id, kept = self.lease.id, min(after_step, 0)
        await forget_measurements(connection, job_id, after_step=kept)
        for step in await measured_steps(connection, job_id):
            if step > kept:
                await forget_round(connection, job_id, step, Split.TEST, kept=started.kept)
                await void_round(connection, job_id, step, Split.TEST, kept=started.kept)

    async def _redo(self, connection: AsyncConnection[TupleRow], line: LogLine, redone: RoundRedone) -> None:
        """What was rolled out of this split of the step is void; so are its calls."""
        await forget_round(connection, self.lease.id, redone.step, redone.split)
        await void_round(connection, self.lease.id, redone.step, redone.split)
        data: JsonObject = {
            "code": "rolled_out_anew",
            "step": redone.step,
            "split": redone.split,
            "rollouts": redone.rollouts,
            "lost": redone.lost,
            "failures_by_code": {**redone.failures_by_code},
        }
        await add_event(connection, self.lease.id, redone.message, level="warn", data=data, key=_key(line), at=line.at)

    async def _step(self, connection: AsyncConnection[TupleRow], line: LogLine, step: StepDone) -> None:
        job_id, event = self.lease.id, metrics_event(step, self.graders, self.tools)
        async with connection.pipeline():
            await RunRepository(connection, self.lease).finish_step(
                step.step,
                step.total_steps,
                kept_steps=step.checkpoint.kept_steps,
                trained_tokens=0 if step.optimization is None else step.optimization.trained_tokens,
                at=line.at,
                record=storable_json(step.model_dump_json()),
            )
            await store_buckets(connection, job_id, first=step.step, last=step.step)
            await add_metrics_event(
                connection, job_id, step.step, event.message, event.data, key=_key(line), at=line.at
            )
            await store_checkpoint(connection, job_id, line.at, step)

    async def _hold_changed(
        self, connection: AsyncConnection[TupleRow], line: LogLine, event: HoldBegan | HoldEnded
    ) -> None:
        if isinstance(event, HoldBegan):
            await self._hold(connection, line, event)
        else:
            await self._go_on(connection, line, event)

    async def _hold(self, connection: AsyncConnection[TupleRow], line: LogLine, began: HoldBegan) -> None:
        """The job waits for an endpoint; its worker stays with it."""
        job_id = self.lease.id
        hold = JobHold(
            endpoint=storable_text(began.endpoint),
            stage=began.stage,
            reason=storable_text(began.reason),
            since=line.at,
            step=began.step,
        )
        await RunRepository(connection, self.lease).hold(hold)
        message = f"The job is held at step {began.step}: {began.reason}"
        data: JsonObject = {"code": "held", "endpoint": began.endpoint, "stage": began.stage, "step": began.step}
        await add_event(connection, job_id, message, level="warn", data=data, key=_key(line), at=line.at)

    async def _go_on(self, connection: AsyncConnection[TupleRow], line: LogLine, ended: HoldEnded) -> None:
        job_id = self.lease.id
        await RunRepository(connection, self.lease).run_on()
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
            connection, self.lease.id, notice.message, level=notice.level, data=data, key=_key(line), at=line.at
        )

    async def _end(self, connection: AsyncConnection[TupleRow], ended: RunEnded, seq: int) -> None:
        """A run that stopped can go on: only the runner knows why it was stopped."""
        if ended.outcome == "stopped":
            return
        job_id, key = self.lease.id, f"{self.lease.token}:{seq}"
        if ended.outcome == "succeeded":
            job = RunRepository(connection, self.lease)
            await job.run_on()  # A trainer that was held may have gone on without saying so.
            await job.set_model(self.fine_tuned_model, ended.best_step)
            await self._final_figures(connection, key=f"{key}:final")
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

    async def _final_figures(self, connection: AsyncConnection[TupleRow], *, key: str) -> None:
        job = RunRepository(connection, self.lease)
        chosen = await job.chosen()
        figures = None if chosen is None else await measure_final(connection, self.lease.id, chosen)
        if figures is None:
            return
        await job.set_final_figures(figures)
        level, code, message = message_of(figures)
        data: JsonObject = {"code": code, **figures.model_dump(mode="json")}
        await add_event(connection, self.lease.id, message, level=level, data=data, key=key)


def _key(line: LogLine) -> str:
    # A log that lost its tail numbers anew: the time tells the old event from the new one.
    return f"{line.seq}:{line.at}"
