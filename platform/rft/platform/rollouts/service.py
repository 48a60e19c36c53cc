"""What can be read of a job's steps, curves, rollouts and failure ledger."""

import json
from collections.abc import Awaitable, Sequence

from pydantic_core import to_json

from rft.core.base import JsonObject
from rft.core.endpoint_load import NamedLoad
from rft.core.events import StepDone
from rft.core.rollout import Split
from rft.core.step_record import RolloutStats
from rft.platform.api.errors import BadRequest, NotFound
from rft.platform.api.pagination import ListPage, page_document, to_page, unknown_cursor
from rft.platform.jobs.repository import JobRepository
from rft.platform.jobs.service import expect_job
from rft.platform.orders.addresses import addresses_in
from rft.platform.rollouts.begun_repository import BegunRepository
from rft.platform.rollouts.call_change import CallChangeObject, CallsOfRollout, call_change
from rft.platform.rollouts.call_repository import calls_of_graded
from rft.platform.rollouts.conversation_document import conversation_document
from rft.platform.rollouts.curve_repository import CurveRepository, Series
from rft.platform.rollouts.diagnostics import DiagnosticsObject, diagnostics_of
from rft.platform.rollouts.downsampling import downsample
from rft.platform.rollouts.filters import RolloutFilter, RolloutOrder, searched_terms
from rft.platform.rollouts.ledger_objects import (
    AttemptObject,
    EndpointHealth,
    to_attempt_object,
    to_endpoint_health,
)
from rft.platform.rollouts.ledger_repository import LedgerRepository
from rft.platform.rollouts.objects import (
    StepObject,
    to_begun_detail,
    to_step_object,
)
from rft.platform.rollouts.pace import calls_of, window_of
from rft.platform.rollouts.policy_change import GradedRollout, PolicyChangeObject, policy_change
from rft.platform.rollouts.repository import RolloutRepository, StepRepository, TooWide
from rft.platform.rollouts.row_reward_repository import graded_rollouts
from rft.platform.store.said import LONGEST_WORD
from rft.platform.store.unit_of_work import UnitOfWork

_MAX_ID = 2**63 - 1
_MOST_COMPARED = 50_000
"""Rollouts of either policy."""
_MOST_READ = 10_000
"""Those of a step whose conversations are looked through at once."""
_WINDOW_STEPS = 10
"""Steps the summary covers when nobody says otherwise."""


async def list_steps(uow: UnitOfWork, job_id: str, *, after: str | None, limit: int) -> ListPage[StepObject]:
    """One page of the steps of a job that exists, oldest first. Raises BadRequest."""
    if after is not None and not after.isdecimal():
        raise unknown_cursor(after)
    rows = await StepRepository(uow.connection).page(
        job_id, after=None if after is None else int(after), limit=limit + 1
    )
    return to_page([to_step_object(row) for row in rows], limit=limit)


async def job_curves(
    uow: UnitOfWork, job_id: str, *, points: int, from_step: int | None = None, to_step: int | None = None
) -> str:
    """A `CurvesObject` as JSON over a window of steps, both ends counted; by default all of them."""
    curves = CurveRepository(uow.connection)
    series = await curves.series(job_id, from_step=from_step, to_step=to_step)
    return await _curves(curves, job_id, series, _chosen(series, points=points))


async def curves_of_jobs(uow: UnitOfWork, job_ids: Sequence[str], *, points: int, has_spent: bool = False) -> str:
    """A `CurvesOfJobs` as JSON, without jobs that do not exist. `has_spent`: with `rollouts_spent`."""
    known = await JobRepository(uow.connection).known(job_ids)
    curves, documents = CurveRepository(uow.connection), list[str]()
    for job_id in dict.fromkeys(job_ids):
        if job_id not in known:
            continue
        series = await curves.series(job_id, from_step=None, to_step=None)
        steps = _chosen(series, points=points)
        spent = f',"rollouts_spent":{json.dumps(await curves.rollouts_spent(job_id, steps))}' if has_spent else ""
        document = await _curves(curves, job_id, series, steps)
        documents.append(f'{{"job":{json.dumps(job_id)},"curves":{document}{spent}}}')
    return f'{{"object":"list","data":[{",".join(documents)}]}}'


async def last_loads(uow: UnitOfWork, job_id: str) -> Sequence[NamedLoad]:
    """What the job's endpoints were given to bear when its run told last; empty where it never did."""
    told = await JobRepository(uow.connection).last_progress(job_id)
    return () if told is None else told.endpoints


async def job_diagnostics(
    uow: UnitOfWork,
    job_id: str,
    loads: Sequence[NamedLoad],
    *,
    points: int,
    from_step: int | None = None,
    to_step: int | None = None,
    is_shared: bool = True,
) -> DiagnosticsObject:
    """Of the steps that the curves over this window show, and no other. `loads`: what its endpoints were given to bear
    last; `is_shared`: samples and updates are computed by the same processors."""
    series = await CurveRepository(uow.connection).series(job_id, from_step=from_step, to_step=to_step)
    rows = await StepRepository(uow.connection).some(job_id, _chosen(series, points=points))
    records = [row.record for row in rows]
    job, window = await JobRepository(uow.connection).get(job_id), window_of(records)
    if job is None or window is None:
        return diagnostics_of(records)
    made = await LedgerRepository(uow.connection).called(job_id, from_step=window[0], to_step=window[-1])
    calls = calls_of(made, records, window, loads, addresses_in(job.method))
    max_staleness = 0 if job.resolved is None else job.resolved.max_staleness
    return diagnostics_of(records, max_staleness, calls, is_shared=is_shared)


async def job_policy_change(
    uow: UnitOfWork, job_id: str, *, split: Split, before: int, after: int
) -> PolicyChangeObject:
    """Two steps of a job on the same rows. Raises NotFound, and BadRequest where there are too many to compare."""
    await expect_job(uow, job_id)
    rows = await StepRepository(uow.connection).some(job_id, (before, after))
    records = {row.step: row.record for row in rows}

    async def side(step: int) -> tuple[int, list[GradedRollout], RolloutStats | None]:
        graded = await graded_rollouts(uow.connection, job_id, split, step, limit=_MOST_COMPARED + 1)
        if len(graded) > _MOST_COMPARED:
            message = f"Step {step} has more than {_MOST_COMPARED:,} graded rollouts, too many to be compared at once."
            raise BadRequest(message, param="split", code="too_many_rollouts")
        return step, graded, _stats(records.get(step), split)

    return policy_change(await side(before), await side(after), split)


async def job_call_change(uow: UnitOfWork, job_id: str, *, split: Split, before: int, after: int) -> CallChangeObject:
    """The calls of two steps of a job on the same rows. Raises NotFound, and BadRequest where there are too many."""
    await expect_job(uow, job_id)

    async def side(step: int) -> tuple[int, list[CallsOfRollout]]:
        found = await calls_of_graded(uow.connection, job_id, split, step, limit=_MOST_READ + 1)
        if len(found) > _MOST_READ:
            message = f"Step {step} has more than {_MOST_READ:,} graded rollouts, too many for all calls to be read."
            raise BadRequest(message, param="split", code="too_many_rollouts")
        return step, found

    return call_change(await side(before), await side(after), split)


def _stats(record: StepDone | None, split: Split) -> RolloutStats | None:
    if record is None:
        return None
    return {Split.TRAIN: record.train, Split.VALID: record.valid}.get(split)


def _chosen(series: Series | None, *, points: int) -> list[int]:
    """The steps that are drawn."""
    if series is None:
        return []
    return downsample(
        series.candidates, series.validated, series.saved, first=series.first, last=series.last, points=points
    )


async def _curves(curves: CurveRepository, job_id: str, series: Series | None, steps: Sequence[int]) -> str:
    if series is None:
        return _document("", steps=0, rollouts=0, excluded=0)
    data = await curves.points(job_id, steps)
    return _document(data, steps=series.steps, rollouts=series.rollouts, excluded=series.excluded)


def _document(points: str, *, steps: int, rollouts: int, excluded: int) -> str:
    """Points are put in as they are: they were checked before they were stored."""
    head = f'{{"object":"fine_tuning.job.curves","steps":{steps},"rollouts":{rollouts},"excluded":{excluded}'
    return f'{head},"data":[{points}]}}'


async def list_rollouts(
    uow: UnitOfWork, job_id: str, wanted: RolloutFilter, order: RolloutOrder, *, after: str | None, limit: int
) -> bytes:
    """One page of rollouts as JSON. Raises NotFound, BadRequest."""
    _check(wanted)
    rollouts = RolloutRepository(uow.connection)
    last = None if after is None else await rollouts.get(job_id, after)
    if after is not None and last is None:
        await expect_job(uow, job_id)
        raise unknown_cursor(after)
    rows = await _search(rollouts.page(job_id, wanted, order, after=last, limit=limit + 1), wanted)
    if not rows:
        await expect_job(uow, job_id)
    return page_document(rows, limit=limit)


async def find_neighbours(
    uow: UnitOfWork, job_id: str, trace_id: str, wanted: RolloutFilter, order: RolloutOrder
) -> bytes:
    """A `RolloutNeighbours` as JSON; of a rollout that the filter leaves out, too. Raises NotFound, BadRequest."""
    _check(wanted)
    rollouts = RolloutRepository(uow.connection)
    here = await rollouts.get(job_id, trace_id)
    if here is None:
        await expect_job(uow, job_id)
        raise NotFound(f"Job {job_id} has no rollout {trace_id}.", param="trace_id", code="not_found")
    previous, following = [
        await _search(rollouts.page(job_id, wanted, order, after=here, limit=1, is_back=is_back), wanted)
        for is_back in (True, False)
    ]
    return to_json(
        {
            "object": "fine_tuning.job.rollout.neighbours",
            "previous": previous[0] if previous else None,
            "next": following[0] if following else None,
        }
    )


async def _search(page: Awaitable[list[JsonObject]], wanted: RolloutFilter) -> list[JsonObject]:
    try:
        return await page
    except TooWide as error:
        message = "There is too much to look through. Ask for fewer steps (from_step, to_step), or for rarer words."
        raise BadRequest(message, param="sort" if wanted.q is None else "q", code="search_too_wide") from error


def _check(wanted: RolloutFilter) -> None:
    """Raises BadRequest where a search cannot be made."""
    if wanted.q is not None and not searched_terms(wanted.q):
        message = f"There is no word to search for: one has letters or digits, at most {LONGEST_WORD}."
        raise BadRequest(message, param="q", code="no_terms")
    if wanted.contains is not None and wanted.one_step is None:
        message = "Text within words is looked for in one step alone: say which (step). Words are found in all (q)."
        raise BadRequest(message, param="contains", code="step_required")


async def find_rollout(uow: UnitOfWork, job_id: str, trace_id: str) -> str:
    """A `RolloutDetail` as JSON: a rollout, or a conversation that is none yet or no more. Raises NotFound."""
    row = await RolloutRepository(uow.connection).conversation(job_id, trace_id)
    if row is not None:
        return conversation_document(row)
    begun = await BegunRepository(uow.connection).get(job_id, trace_id)
    if begun is not None:
        return to_begun_detail(begun).model_dump_json()
    await expect_job(uow, job_id)
    raise NotFound(f"Job {job_id} has no rollout {trace_id}.", param="trace_id", code="not_found")


async def list_attempts(
    uow: UnitOfWork, job_id: str, trace_id: str, *, after: str | None, limit: int
) -> ListPage[AttemptObject]:
    """One page of a rollout's attempts, in the order they ended. Raises NotFound, BadRequest."""
    await expect_job(uow, job_id)
    if after is not None and not (after.isascii() and after.isdecimal() and int(after) <= _MAX_ID):
        raise unknown_cursor(after)
    rollout = await RolloutRepository(uow.connection).get(job_id, trace_id) or await BegunRepository(
        uow.connection
    ).get(job_id, trace_id)
    step = None if rollout is None else rollout.step
    rows = await LedgerRepository(uow.connection).of_rollout(
        job_id, trace_id, step=step, after=None if after is None else int(after), limit=limit + 1
    )
    if not rows and rollout is None:
        raise NotFound(f"Job {job_id} has no rollout {trace_id}.", param="trace_id", code="not_found")
    return to_page([to_attempt_object(row) for row in rows], limit=limit)


async def list_endpoints(
    uow: UnitOfWork, job_id: str, *, from_step: int | None, to_step: int | None
) -> ListPage[EndpointHealth]:
    """Every endpoint called in a window of steps; by default the latest ones. Raises NotFound, BadRequest."""
    await expect_job(uow, job_id)
    ledger = LedgerRepository(uow.connection)
    last = await ledger.newest_step(job_id) if to_step is None else to_step
    if last is None:
        last = from_step or 0
    first = max(0, last - _WINDOW_STEPS + 1) if from_step is None else from_step
    if first > last:
        raise BadRequest(
            f"The window ends at step {last}, before it begins at step {first}.",
            param="from_step" if to_step is None else "to_step",
            code="invalid_window",
        )
    rows = await ledger.health(job_id, from_step=first, to_step=last)
    objects = [to_endpoint_health(row, from_step=first, to_step=last) for row in rows]
    return to_page(objects, limit=len(objects))
