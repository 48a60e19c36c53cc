"""Reads rows of `jobs`; `lifecycle` alone writes them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import ceil
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

from rft.core.hyperparameters import ResolvedHyperparameters
from rft.core.job import JobStatus
from rft.core.progress import RunProgress
from rft.platform.lifecycle.records import (
    BaselineFigures,
    FinalFigures,
    JobError,
    JobHold,
    NewJob,
    PauseReason,
    SlotHolder,
)
from rft.platform.lifecycle.repository import SLOT_HOLDERS
from rft.platform.lifecycle.usage import UsageMetrics

_CLOCK_S = 1e-6
"""Steps cannot be told to be shorter."""
_COLUMNS: LiteralString = (
    "id, status, created_at, started_at, finished_at, model, base_model_path, chat, training_file, validation_file,"
    " test_file, final_figures, baselines,"
    " suffix, seed, metadata, method, request, secrets, resolved, error, fine_tuned_model, trained_tokens,"
    " result_files, current_step, total_steps, best_step, is_cancel_requested, is_pause_requested, hold, pause_reason,"
    " case when status = 'running' then progress end as progress,"
    " model_deleted_at, usage_metrics, endpoints_version, max_importance_gap,"
    " (select avg(duration_s) from"
    " (select duration_s from steps where job_id = jobs.id and jobs.status = 'running'"
    " order by step desc limit 20) recent)"
    " as recent_step_s,"
    " (select created_at from steps where job_id = jobs.id and step = jobs.current_step) as last_step_at, "
    + SLOT_HOLDERS
    + " as waits_for"
)


class JobRow(NewJob):
    """One row, but for the lease."""

    status: JobStatus
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    resolved: ResolvedHyperparameters | None
    error: JobError | None
    fine_tuned_model: str | None
    trained_tokens: int | None
    result_files: tuple[str, ...]
    current_step: int | None
    total_steps: int | None
    best_step: int | None
    is_cancel_requested: bool
    is_pause_requested: bool = False
    """Its runner has been asked to stop, and has not yet."""
    hold: JobHold | None = None
    """Set exactly while a worker holds a job that is `paused`."""
    progress: RunProgress | None = None
    """What its run is doing now; only while it runs."""
    pause_reason: PauseReason | None = None
    """Set while a job is `paused` because the platform failed it."""
    model_deleted_at: datetime | None
    endpoints_version: int = 0
    """How often its tools' and grader's addresses or headers were changed."""
    max_importance_gap: float | None = None
    """What it was resumed with; None: as ordered, or else as set."""
    final_figures: FinalFigures | None = None
    """Once it has succeeded, where it could be measured."""
    baselines: tuple[BaselineFigures, ...] | None = None
    """Those that were measured, in that order; None before the first one."""
    usage_metrics: UsageMetrics | None = None
    """Once it is over, unless it never trained."""
    recent_step_s: float | None = None
    """Mean wall time of the last steps, evaluations included; only while it runs."""
    last_step_at: datetime | None = None
    waits_for: tuple[SlotHolder, ...] | None = None
    """Who has the slots that a queued job was refused; None while there is nobody."""

    def estimated_finish(self, now_s: float) -> float | None:
        """Unix time at which a running job will be over if it goes on as it did last; never before `now_s`.

        A step that takes longer than they do on average counts for as many as it has begun: so the answer does not
        change with every second, and what is the same again need not be sent again.
        """
        if self.recent_step_s is None or self.last_step_at is None or self.total_steps is None:
            return None
        last_s, mean_s = self.last_step_at.timestamp(), self.recent_step_s
        begun = max(1, ceil((now_s - last_s) / max(mean_s, _CLOCK_S)))
        later = max(0, self.total_steps - (self.current_step or 0) - 1)
        return max(now_s, last_s + (begun + later) * mean_s)


class JobRepository:
    """Reads `jobs` inside the caller's transaction."""

    def __init__(self, connection: AsyncConnection[TupleRow]) -> None:
        self._connection = connection

    async def get(self, job_id: str) -> JobRow | None:
        """One job."""
        rows = await self._fetch("select " + _COLUMNS + " from jobs where id = %(id)s", {"id": job_id})
        return rows[0] if rows else None

    async def exists(self, job_id: str) -> bool:
        """Whether there is such a job."""
        cursor = await self._connection.execute("select 1 from jobs where id = %s", (job_id,))
        return await cursor.fetchone() is not None

    async def known(self, job_ids: Sequence[str]) -> set[str]:
        """Those that there are."""
        cursor = await self._connection.execute("select id from jobs where id = any(%s)", (list(job_ids),))
        return {row[0] for row in await cursor.fetchall()}

    async def last_progress(self, job_id: str) -> RunProgress | None:
        """What its run told last, also of one that is over."""
        cursor = await self._connection.execute("select progress from jobs where id = %s", (job_id,))
        row = await cursor.fetchone()
        return None if row is None or row[0] is None else RunProgress.model_validate(row[0])

    async def lock(self, job_id: str) -> JobRow | None:
        """One job, which nobody else changes until the caller's transaction ends."""
        rows = await self._fetch("select " + _COLUMNS + " from jobs where id = %(id)s for update", {"id": job_id})
        return rows[0] if rows else None

    async def in_order(self, job_ids: Sequence[str]) -> list[JobRow]:
        """These jobs, in this order, without those that do not exist."""
        return await self._fetch(_IN_ORDER, {"ids": list(job_ids)})

    async def with_models(self) -> list[JobRow]:
        """Jobs that have a fine-tuned model or kept checkpoints, newest first."""
        return await self._fetch(_WITH_MODELS, {})

    async def by_tail(self, tail: str) -> list[JobRow]:
        """Jobs whose id ends like this: how a model's name finds its job."""
        query = "select " + _COLUMNS + " from jobs where right(id, length(%(tail)s)) = %(tail)s"
        return await self._fetch(query, {"tail": tail})

    async def _fetch(self, query: LiteralString, values: Mapping[str, object]) -> list[JobRow]:
        async with self._connection.cursor(row_factory=class_row(JobRow)) as cursor:
            await cursor.execute(query, values)
            return await cursor.fetchall()


_IN_ORDER: LiteralString = (
    "select " + _COLUMNS + " from jobs where id = any(%(ids)s::text[]) order by array_position(%(ids)s::text[], id)"
)
_WITH_MODELS: LiteralString = (
    "select " + _COLUMNS + " from jobs where (fine_tuned_model is not null and model_deleted_at is null)"
    " or exists (select 1 from checkpoints where job_id = jobs.id and is_kept) order by created_at desc, id desc"
)
