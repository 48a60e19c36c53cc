"""One regrade from its first rollout to its report."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

import psycopg

from rft.core.dataset import DatasetRow
from rft.core.errors import RftError
from rft.core.events import RolloutDone
from rft.core.failure import Failure, FailureCode
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade, PartOutcome
from rft.core.graders import GraderSpec
from rft.core.rollout import Split
from rft.core.spec import RunSecrets
from rft.egress.breaker import BreakerSettings
from rft.egress.endpoint_client import EndpointClient
from rft.egress.limits import Limits
from rft.grader_gateway.build import OpenGrader, open_any_grader
from rft.grader_gateway.builtin.sandbox.pool import AT_ONCE
from rft.grader_gateway.builtin.sandbox.slots import SlotShare
from rft.platform.api.dependencies import Services
from rft.platform.api.task_set import AT_ONCE as REGRADES_AT_ONCE
from rft.platform.dry_runs.service import MAX_TOTAL_S, open_client
from rft.platform.jobs.repository import JobRow
from rft.platform.jobs.rows import RowsGone, rows_of
from rft.platform.jobs.run_spec import described_tools, ordered_format
from rft.platform.lifecycle.heartbeat import Heartbeat
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.records import JobError
from rft.platform.orders.grader_specification import to_judge
from rft.platform.regrades.comparison import Regraded, RegradeReport, compare
from rft.platform.regrades.repository import RegradeRepository, Selection, StoredRollout
from rft.platform.settings import Settings
from rft.rollouts.group import with_tools

_LOG = logging.getLogger(__name__)
_BATCH = 64
"""Rollouts whose conversations are in memory at a time."""
_UNFIT = frozenset({FailureCode.INVALID_VARIABLE, FailureCode.OVERSIZE_REQUEST})
"""Of rows that do not fit the grader."""
LEASE_TTL_S = 60.0
"""A regrade whose process is not heard of for so long was interrupted."""
_HEARTBEAT_S = 10.0
_DATABASE_AWAY_S = LEASE_TTL_S
"""A database that is away for longer ends a regrade."""
_RETRY_S = 0.5
T = TypeVar("T")

Items = dict[tuple[Split, int], DatasetRow]


class CannotRegrade(RftError):
    """The regrade can never be done as it is; carries the error its object will show."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.error = JobError(code=code, message=message, param=param)


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done. The secrets live nowhere else."""

    lease: Lease
    asked_at: float
    """`time.monotonic()` before the lease was asked for."""
    job: JobRow
    spec: GraderSpec
    secrets: RunSecrets = field(repr=False)
    wanted: Selection


async def work_on(services: Services, work: Work) -> None:
    """Grade, report, write it down. Whatever happens, the row says so."""
    lease = work.lease
    # No other process would take it over: a regrade whose lease was lost goes on all the same.
    beat = Heartbeat(
        services.database, lease, LEASE_TTL_S, _HEARTBEAT_S, confirmed_at=work.asked_at, on_lost=lambda: None
    )
    try:
        async with beat:
            async with services.background.slots:
                report = await _regrade(services, work)
            await _in_database(services, lambda rows: rows.succeed(lease, report))
    except asyncio.CancelledError:
        stopped = JobError(code="interrupted", message="The platform was stopped; order the regrade again.")
        async with services.database.transaction() as connection:  # Once: whoever stops us waits.
            await RegradeRepository(connection).fail(lease, stopped)
        raise
    except CannotRegrade as cannot:
        error = cannot.error
        await _in_database(services, lambda rows: rows.fail(lease, error))
    except (psycopg.OperationalError, psycopg.InterfaceError):
        _LOG.exception("regrade %s lost its database", lease.id)
        away = "The server's database was away for too long; order the regrade again."
        lost = JobError(code="internal_error", message=away)
        await _in_database(services, lambda rows: rows.fail(lease, lost))
    except Exception:
        _LOG.exception("regrade %s broke", lease.id)
        broken = JobError(code="internal_error", message="The server had an error while grading again.")
        await _in_database(services, lambda rows: rows.fail(lease, broken))


async def _regrade(services: Services, work: Work) -> RegradeReport:
    async def begin(rows: RegradeRepository) -> list[StoredRollout]:
        stored = await rows.rollouts(work.job.id, work.wanted)
        await rows.begin(work.lease, len(stored))
        return stored

    stored = await _in_database(services, begin)
    if not stored:
        raise CannotRegrade("no_rollouts", "This job has no finished rollouts that match.")
    items = await _items(services, work.job, stored)
    compared: list[list[Regraded]] = []
    async with AsyncExitStack() as stack:
        limits = _limits(services.settings)
        client, secrets = await _patiently(
            lambda: stack.enter_async_context(
                open_client(services, work.secrets, idempotency_scope=work.lease.id, limits=limits)
            )
        )
        grader = _open_grader(services, work, client, secrets)
        try:
            for batch in _batches(stored):
                _expect_some_score(compared)
                compared += await _grade_batch(services, work, batch, items, grader)
                done = sum(map(len, compared))
                await _in_database(services, lambda rows, done=done: rows.progress(work.lease, done))
        finally:
            await grader.aclose()
    return compare(compared)


def _limits(settings: Settings) -> Limits:
    """One regrade's part, a call at a time at least. An endpoint that is away is waited for as one of a dry run is."""
    breaker = BreakerSettings(max_open_s=min(settings.retry_total_s, MAX_TOTAL_S))
    return Limits.of(settings.egress, breaker=breaker, sharers=REGRADES_AT_ONCE)


def _expect_some_score(compared: Sequence[Sequence[Regraded]]) -> None:
    """Before a grader is asked about more. Raises CannotRegrade where it has failed for all so far, each time again."""
    rollouts = [rollout for group in compared for rollout in group]
    codes = Counter(rollout.failure_code for rollout in rollouts)
    if None not in codes and sum(not rollout.is_unfit for rollout in rollouts) >= _BATCH:
        shown = ", ".join(f"{code}: {count}" for code, count in codes.most_common())
        message = f"None of the first {codes.total()} rollouts got a score ({shown}); the others were not tried."
        raise CannotRegrade("grader_failed", message, param="grader")


def _batches(stored: Sequence[StoredRollout]) -> Iterator[list[list[StoredRollout]]]:
    """Whole groups, together about `_BATCH` rollouts."""
    batch: list[list[StoredRollout]] = []
    for _, group in groupby(stored, key=lambda rollout: rollout.group):
        batch.append(list(group))
        if sum(map(len, batch)) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


async def _grade_batch(
    services: Services, work: Work, batch: list[list[StoredRollout]], items: Items, grader: OpenGrader
) -> list[list[Regraded]]:
    trace_ids = [rollout.trace_id for group in batch for rollout in group]
    records = await _in_database(services, lambda rows: rows.records(work.job.id, trace_ids))

    async def one(group: list[StoredRollout]) -> list[Regraded]:
        # A job that goes on may take a step back and forget rollouts meanwhile.
        present = [rollout for rollout in group if rollout.trace_id in records]
        if not present:
            return []
        row = items[present[0].split, present[0].row_index]
        trace_ids = [rollout.trace_id for rollout in present]
        traces = [_trace(records[trace_id], row, model=work.job.model) for trace_id in trace_ids]
        outcomes = await grader.grade_group(traces, item=row.item, trace_ids=trace_ids)
        return [_regraded(rollout, outcome) for rollout, outcome in zip(present, outcomes, strict=True)]

    return [group for group in await asyncio.gather(*map(one, batch)) if group]


def _regraded(rollout: StoredRollout, outcome: Grade | Failure) -> Regraded:
    has_score = isinstance(outcome, Grade)
    return Regraded(
        rollout.trace_id,
        before=rollout.reward,
        after=outcome.reward if has_score else None,
        failure_code=None if has_score else str(outcome.code),
        usage=outcome.usage,
        errors=outcome.model_errors if has_score else (),
        error_details=outcome.error_details if has_score else None,
        is_unfit=not has_score and outcome.code in _UNFIT and not any(map(_was_asked, outcome.parts.values())),
    )


def _was_asked(part: PartOutcome) -> bool:
    """Whether an endpoint or a judge was, of a multi grader: all its parts are, also where another one does not fit."""
    has_failed = part.failure_code is not None and part.failure_code not in _UNFIT
    return has_failed or bool(part.usage) or part.request is not None


def _open_grader(services: Services, work: Work, client: EndpointClient, secrets: RunSecrets) -> OpenGrader:
    job_id = work.lease.id
    return open_any_grader(
        work.spec,
        client=client,
        secrets=secrets,
        judge=to_judge(services.settings),
        job_id=job_id,
        response_format=ordered_format(work.job),
        share=SlotShare(job_id, most=AT_ONCE // 2),  # somebody may wait for a dry run
    )


def _trace(record: RolloutDone, row: DatasetRow, *, model: str) -> FinishedTrace:
    return FinishedTrace.of(row, record.messages, record.stop_reason, model=model)


async def _items(services: Services, job: JobRow, stored: Sequence[StoredRollout]) -> Items:
    """The rows that the rollouts were attempts at, with the tools that the model was told of."""
    items: Items = {}
    described = described_tools(job, services.settings)
    for split in Split:
        wanted = {rollout.row_index for rollout in stored if rollout.split is split}
        if not wanted:
            continue
        try:
            found = await _patiently(lambda split=split, wanted=wanted: _rows(services, job, split, wanted))
            if len(found) < len(wanted):
                raise RowsGone(split, "holds fewer rows than the job was trained on")
        except RowsGone as gone:
            raise CannotRegrade("file_not_found", f"{gone}; graders need its rows.", param=gone.param) from gone
        items |= {(split, index): with_tools(row, described) for index, row in found.items()}
    return items


async def _rows(services: Services, job: JobRow, split: Split, wanted: set[int]) -> dict[int, DatasetRow]:
    return {index: row async for index, row in rows_of(services.database, services.file_store, job, split, wanted)}


async def _in_database(services: Services, use: Callable[[RegradeRepository], Awaitable[T]]) -> T:
    """`use` in one transaction, patiently. Raises psycopg.Error."""

    async def once() -> T:
        async with services.database.transaction() as connection:
            return await use(RegradeRepository(connection))

    return await _patiently(once)


async def _patiently(attempt: Callable[[], Awaitable[T]]) -> T:
    """Tried again while the database is away, which is safe to do. Raises psycopg.Error."""
    until_s = time.monotonic() + _DATABASE_AWAY_S
    while True:
        try:
            return await attempt()
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if time.monotonic() >= until_s:
                raise
            _LOG.warning("the database is away, trying again: %r", error)
            await asyncio.sleep(_RETRY_S)
