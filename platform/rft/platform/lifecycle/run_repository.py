"""Every write of `jobs` by the worker that has a job's lease: each carries the lease's token."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from rft.core.errors import IllegalTransition
from rft.core.hyperparameters import ResolvedHyperparameters
from rft.core.job import TERMINAL, JobStatus
from rft.core.progress import RunProgress
from rft.platform.lifecycle.lease import GIVE_BACK, Lease, lock_row
from rft.platform.lifecycle.machine import Transition, transition, transition_to
from rft.platform.lifecycle.records import BaselineFigures, ChosenCheckpoint, FinalFigures, JobError, JobHold
from rft.platform.lifecycle.repository import JOBS

_UNDER_LEASE = tuple(JobStatus(status) for status in JOBS.standing)
HOLD = transition({JobStatus.RUNNING, JobStatus.PAUSED}, JobStatus.PAUSED)
RUN_ON = transition({JobStatus.RUNNING, JobStatus.PAUSED}, JobStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class Launches:
    """How often a job's trainer was started."""

    total: int
    without_progress: int


class RunRepository:
    """Writes the row of one job inside the caller's transaction, under its lease.

    Call `lock` first in a transaction: it raises LeaseLost, and no other writer comes between.
    """

    def __init__(self, connection: AsyncConnection[TupleRow], lease: Lease) -> None:
        self._connection, self._lease = connection, lease

    async def lock(self) -> int:
        """Lock the job's row for this transaction if the lease still stands; the last event's number that is stored.

        Raises LeaseLost.
        """
        row = await lock_row(self._connection, self._lease, "last_event_seq")
        return int(row[0])

    # Changes of status.

    async def hold(self, hold: JobHold) -> None:
        """The job waits for what `hold` says; its worker stays with it."""
        await self._move(HOLD, _HOLD, hold=Jsonb(hold.model_dump(mode="json")))

    async def run_on(self) -> None:
        """What it waited for is there again."""
        await self._move(RUN_ON, _RUN_ON)

    async def set_progress(self, progress: RunProgress | None) -> None:
        """What it is doing now."""
        shown = None if progress is None else Jsonb(progress.model_dump(mode="json"))
        await self._write("update jobs set progress = %(progress)s" + _FENCED, progress=shown)

    async def count_launch(self) -> Launches:
        """A trainer is about to start: it waits for nobody yet, whatever the one before it waited for."""
        row = await self._move(RUN_ON, _COUNT_LAUNCH)
        return Launches(total=row[0], without_progress=row[1])

    async def rewind(self, *, step: int | None, total_steps: int) -> None:
        """A trainer goes on from this step, or from the beginning."""
        await self._move(RUN_ON, _REWIND, step=step, total_steps=total_steps)

    async def release(self, to: JobStatus) -> None:
        """Give the job back under another status: queued, paused or a terminal one. Raises IllegalTransition."""
        await self._move(
            transition_to(to, among=_UNDER_LEASE),
            _RELEASE,
            # A request that came too late for this worker is kept for whoever looks next.
            goes_on=to is JobStatus.QUEUED,
            is_over=to in TERMINAL,
        )

    # What a run came to.

    async def set_error(self, error: JobError) -> None:
        """Why it fails."""
        await self._write("update jobs set error = %(error)s" + _FENCED, error=json.dumps(error.model_dump()))

    async def set_pause_reason(self, code: str, message: str) -> int | None:
        """Why the platform pauses it; returns its step."""
        row = await self._returned(_SET_PAUSE_REASON, code=code, message=message)
        return row[0]

    async def set_plan(self, resolved: ResolvedHyperparameters) -> None:
        """Its files are validated; its message counts as sent now."""
        plan = Jsonb(resolved.model_dump(mode="json"))
        await self._write(_SET_PLAN, resolved=plan, total_steps=resolved.steps)

    async def set_last_event(self, seq: int) -> None:
        """Every event up to this one is stored."""
        await self._write("update jobs set last_event_seq = %(seq)s" + _FENCED, seq=seq)

    async def finish_step(
        self, step: int, total_steps: int, *, kept_steps: Sequence[int], trained_tokens: int, at: float, record: str
    ) -> None:
        """A step is done: its row in `steps` and the job's. `at`: Unix seconds; `record`: a StepDone as JSON."""
        await self._write(
            _FINISH_STEP,
            step=step,
            at=at,
            record=record,
            total=total_steps,
            best=kept_steps[0] if kept_steps else None,
            tokens=trained_tokens,
        )

    async def recount_tokens(self) -> None:
        """The sum over the steps that are left."""
        await self._write(_RECOUNT_TOKENS)

    async def set_model(self, name: str, best_step: int | None) -> None:
        """Its fine-tuned model is there."""
        await self._write(_SET_MODEL, model=name, best_step=best_step)

    async def chosen(self) -> ChosenCheckpoint | None:
        """Its best checkpoint; None without one."""
        step, reward, has_test_file = await self._returned(_CHOSEN)
        if step is None:
            return None
        return ChosenCheckpoint(step=step, validation_reward=reward, has_test_file=has_test_file)

    async def set_final_figures(self, figures: FinalFigures) -> None:
        """What its best checkpoint earns where nothing was chosen."""
        values = Jsonb(figures.model_dump(mode="json"))
        await self._write("update jobs set final_figures = %(figures)s" + _FENCED, figures=values)

    async def add_baseline(self, figures: BaselineFigures) -> None:
        """What one of its baselines earns; the first word on a model stays."""
        await self._write(
            "update jobs set baselines = coalesce(baselines, '[]') || case when baselines @> %(same)s then '[]'"
            " else %(figures)s end" + _FENCED,
            same=Jsonb([{"model": figures.model}]),
            figures=Jsonb([figures.model_dump(mode="json")]),
        )

    async def forget_fruitless_launches(self) -> None:
        """A step was finished: the count of launches without progress starts again at 0."""
        await self._write("update jobs set launches_without_progress = 0" + _FENCED)

    async def uncount_launches(self, launches: int) -> int | None:
        """So many launches are no sign of a job that cannot run; returns its step."""
        row = await self._returned(_UNCOUNT_LAUNCHES, launches=launches)
        return row[0]

    async def launches(self) -> Launches:
        """How often its trainer was started up to now."""
        row = await self._returned("select launches, launches_without_progress from jobs" + _FENCED)
        return Launches(total=row[0], without_progress=row[1])

    async def has_ended(self) -> bool:
        """Whether it succeeded or failed under this lease, which stands no more then."""
        cursor = await self._write("select status from jobs" + _FENCED)
        row = await cursor.fetchone()
        return row is not None and row[0] in (JobStatus.SUCCEEDED, JobStatus.FAILED)

    async def step(self) -> int | None:
        """The last step that is done; None when there is none."""
        row = await self._returned("select current_step from jobs" + _FENCED)
        return row[0]

    async def _move(self, change: Transition, statement: LiteralString, **values: object) -> TupleRow:
        """Raises IllegalTransition when the job has none of the expected statuses."""
        cursor = await self._write(statement, **values, **change.values())
        row = await cursor.fetchone()
        if row is None:
            raise IllegalTransition(
                f"{self._lease.id} is not {' or '.join(change.expected)} and cannot become {change.to}"
            )
        return row

    async def _returned(self, statement: LiteralString, **values: object) -> TupleRow:
        row = await (await self._write(statement, **values)).fetchone()
        assert row is not None, "its row is locked"
        return row

    async def _write(self, statement: LiteralString, **values: object) -> AsyncCursor[TupleRow]:
        return await self._connection.execute(statement, {**values, "id": self._lease.id, "token": self._lease.token})


_FENCED: LiteralString = " where id = %(id)s and lease_token = %(token)s"
_FROM_EXPECTED: LiteralString = _FENCED + " and status = any(%(expected)s)"
_HOLD: LiteralString = "update jobs set status = %(to)s, hold = %(hold)s" + _FROM_EXPECTED + " returning id"
_RUN_ON: LiteralString = "update jobs set status = %(to)s, hold = null" + _FROM_EXPECTED + " returning id"
_COUNT_LAUNCH: LiteralString = (
    "update jobs set status = %(to)s, hold = null, launches = launches + 1,"
    " launches_without_progress = launches_without_progress + 1"
    + _FROM_EXPECTED
    + " returning launches, launches_without_progress"
)
_REWIND: LiteralString = (
    "update jobs set status = %(to)s, hold = null, current_step = %(step)s, total_steps = %(total_steps)s"
    + _FROM_EXPECTED
    + " returning id"
)
_RELEASE: LiteralString = (
    "update jobs set status = %(to)s, hold = null, " + GIVE_BACK + ","
    " is_pause_requested = is_pause_requested and %(goes_on)s,"
    " finished_at = case when %(is_over)s then clock_timestamp() end" + _FROM_EXPECTED + " returning id"
)
_SET_PAUSE_REASON: LiteralString = (
    "update jobs set pause_reason = jsonb_build_object('code', %(code)s::text, 'message', %(message)s::text,"
    " 'since', extract(epoch from clock_timestamp()), 'step', current_step)" + _FENCED + " returning current_step"
)
_SET_PLAN: LiteralString = (
    "update jobs set resolved = %(resolved)s, total_steps = %(total_steps)s, enqueued_at = clock_timestamp()" + _FENCED
)
_FINISH_STEP: LiteralString = (
    # Nobody else writes this job's steps while its row is locked, so a sum that is carried on stays true.
    "with before as (select (record->'optimization'->>'trained_tokens')::bigint as tokens from steps"
    " where job_id = %(id)s and step = %(step)s),"
    " stored as (insert into steps (job_id, step, created_at, record)"
    " values (%(id)s, %(step)s, to_timestamp(%(at)s), %(record)s)"
    " on conflict (job_id, step) do update set created_at = excluded.created_at, record = excluded.record)"
    " update jobs set current_step = %(step)s, total_steps = %(total)s,"
    " best_step = coalesce(%(best)s, best_step),"
    " trained_tokens = coalesce(trained_tokens, 0) + %(tokens)s - coalesce((select tokens from before), 0)" + _FENCED
)
_RECOUNT_TOKENS: LiteralString = (
    "update jobs set trained_tokens ="
    " (select coalesce(sum((record->'optimization'->>'trained_tokens')::bigint), 0)"
    " from steps where job_id = %(id)s)" + _FENCED
)
_SET_MODEL: LiteralString = (
    "update jobs set fine_tuned_model = %(model)s, best_step = coalesce(%(best_step)s, best_step), error = null,"
    " launches_without_progress = 0" + _FENCED
)
_CHOSEN: LiteralString = (
    "select best_step, (select valid_reward from steps where job_id = %(id)s and step = best_step),"
    " test_file is not null from jobs" + _FENCED
)
_UNCOUNT_LAUNCHES: LiteralString = (
    "update jobs set launches_without_progress = greatest(0, launches_without_progress - %(launches)s)"
    + _FENCED
    + " returning current_step"
)
