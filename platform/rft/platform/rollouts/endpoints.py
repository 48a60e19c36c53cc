"""`/v1/fine_tuning/jobs/{id}/steps`, `/curves`, `/rollouts` and `/endpoints`."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rft.core.rollout import Split
from rft.platform.api.conditional import STREAM_GOES_ON, etag_of, has_newest, not_modified, tagged
from rft.platform.api.dependencies import AppServices, AppSettings, Reading
from rft.platform.api.pagination import After, ListPage
from rft.platform.jobs.service import history
from rft.platform.orders.devices import shares_processors
from rft.platform.rollouts import service
from rft.platform.rollouts.call_change import CallChangeObject
from rft.platform.rollouts.curve_objects import CurvesObject, CurvesOfJobs
from rft.platform.rollouts.diagnostics import DiagnosticsObject
from rft.platform.rollouts.downsampling import FEWEST
from rft.platform.rollouts.grading import GradingObject, find_grading
from rft.platform.rollouts.ledger_objects import AttemptObject, EndpointHealth
from rft.platform.rollouts.objects import RolloutDetail, RolloutNeighbours, RolloutSummary, StepObject
from rft.platform.rollouts.pace import bearing_of
from rft.platform.rollouts.parameters import MAX_INTEGER, Number, Ordered, Wanted
from rft.platform.rollouts.policy_change import PolicyChangeObject
from rft.platform.rollouts.tokens import TokenPage, list_tokens
from rft.platform.rollouts.variance import JobVarianceObject, job_variance

router = APIRouter(prefix="/fine_tuning/jobs/{fine_tuning_job_id}", tags=["rollouts"])

jobs_curves_router = APIRouter(prefix="/dashboard", tags=["dashboard"])


@jobs_curves_router.get("/curves", response_model=CurvesOfJobs)
async def list_curves_of_jobs(
    uow: Reading,
    job: Annotated[list[str], Query(min_length=1, max_length=100)],
    points: Annotated[int, Query(ge=FEWEST, le=500)] = 100,
    spent: bool = False,
) -> Response:
    """The curves of several jobs at once, each as a job's own curves are, in few points.

    `spent`: with the rollouts that each had cost by each point.
    """
    content = await service.curves_of_jobs(uow, job, points=points, has_spent=spent)
    return Response(content, media_type="application/json")


@router.get("/steps", response_model=ListPage[StepObject], responses=STREAM_GOES_ON)
async def list_steps(
    request: Request,
    uow: Reading,
    fine_tuning_job_id: str,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
) -> Response:
    """A job's steps, oldest first; step 0 is the baseline. Answers `If-None-Match`."""
    known = await history(uow, fine_tuning_job_id)
    etag = etag_of(known.version, after, limit)
    if has_newest(request, etag):
        return not_modified(etag)
    page = await service.list_steps(uow, fine_tuning_job_id, after=after, limit=limit)
    return tagged(page.model_dump_json(), etag, known.newest_seq)


@router.get("/curves", response_model=CurvesObject, responses=STREAM_GOES_ON)
async def retrieve_job_curves(
    request: Request,
    uow: Reading,
    fine_tuning_job_id: str,
    points: Annotated[int, Query(ge=FEWEST, le=2000)] = 500,
    from_step: Number = None,
    to_step: Number = None,
) -> Response:
    """What a job's curves are drawn from, over a window of steps, by default all of them. Answers `If-None-Match`.

    Of more than `points` steps some are left out, and never a curve's lowest or highest, the worst failures, the ends.
    """
    known = await history(uow, fine_tuning_job_id)
    etag = etag_of(known.version, points, from_step, to_step)
    if has_newest(request, etag):
        return not_modified(etag)
    content = await service.job_curves(uow, fine_tuning_job_id, points=points, from_step=from_step, to_step=to_step)
    return tagged(content, etag, known.newest_seq)


@router.get("/policy_change")
async def retrieve_policy_change(
    uow: Reading,
    fine_tuning_job_id: str,
    after: Annotated[int, Query(ge=0, le=MAX_INTEGER)],
    before: Annotated[int, Query(ge=0, le=MAX_INTEGER)] = 0,
    split: Split = Split.VALID,
) -> PolicyChangeObject:
    """How the policy of step `after` differs from that of step `before`, 0 for the untrained one, on the same rows:
    reward with its paired interval, calls, tokens and time row by row, calls by tool."""
    return await service.job_policy_change(uow, fine_tuning_job_id, split=split, before=before, after=after)


@router.get("/call_change")
async def retrieve_call_change(
    uow: Reading,
    fine_tuning_job_id: str,
    after: Annotated[int, Query(ge=0, le=MAX_INTEGER)],
    before: Annotated[int, Query(ge=0, le=MAX_INTEGER)] = 0,
    split: Split = Split.VALID,
) -> CallChangeObject:
    """How the calls of the policy of step `after` differ from those of step `before`, on the same rows: calls that are
    made again with the same arguments, and which call follows which."""
    return await service.job_call_change(uow, fine_tuning_job_id, split=split, before=before, after=after)


@router.get("/diagnostics", response_model=DiagnosticsObject)
async def retrieve_job_diagnostics(
    request: Request,
    uow: Reading,
    settings: AppSettings,
    fine_tuning_job_id: str,
    points: Annotated[int, Query(ge=FEWEST, le=500)] = 500,
    from_step: Number = None,
    to_step: Number = None,
) -> Response:
    """How training goes, at the steps that `/curves` shows for the same parameters: groups without signal, what ended
    rollouts, latencies, tokens a second, entropy, gradients, the gap between trainer and sampler. Answers
    `If-None-Match`."""
    known = await history(uow, fine_tuning_job_id)
    loads = await service.last_loads(uow, fine_tuning_job_id)
    etag = etag_of(known.version, bearing_of(loads), points, from_step, to_step)
    if has_newest(request, etag):
        return not_modified(etag)
    told = await service.job_diagnostics(
        uow,
        fine_tuning_job_id,
        loads,
        points=points,
        from_step=from_step,
        to_step=to_step,
        is_shared=shares_processors(settings),
    )
    return tagged(told.model_dump_json(), etag, known.newest_seq)


@router.get("/rollouts", response_model=ListPage[RolloutSummary])
async def list_rollouts(
    uow: Reading,
    fine_tuning_job_id: str,
    wanted: Wanted,
    order: Ordered,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Response:
    """A job's rollouts; by default the newest step first, within a step by row and place in the group."""
    page = await service.list_rollouts(uow, fine_tuning_job_id, wanted, order, after=after, limit=limit)
    return Response(page, media_type="application/json")


@router.get("/rollouts/{trace_id}", response_model=RolloutDetail)
async def retrieve_rollout(uow: Reading, fine_tuning_job_id: str, trace_id: str) -> Response:
    """One rollout with its whole conversation."""
    found = await service.find_rollout(uow, fine_tuning_job_id, trace_id)
    return Response(found, media_type="application/json")


@router.get("/rollouts/{trace_id}/neighbours", response_model=RolloutNeighbours)
async def retrieve_rollout_neighbours(
    uow: Reading, fine_tuning_job_id: str, trace_id: str, wanted: Wanted, order: Ordered
) -> Response:
    """The rollouts before and behind one in the list that the same filter and order give, however long it is."""
    found = await service.find_neighbours(uow, fine_tuning_job_id, trace_id, wanted, order)
    return Response(found, media_type="application/json")


@router.get("/rollouts/{trace_id}/grading")
async def retrieve_rollout_grading(services: AppServices, fine_tuning_job_id: str, trace_id: str) -> GradingObject:
    """What the graders of a rollout were shown: the row, and the sample. Their answers are in the rollout's record."""
    return await find_grading(services, fine_tuning_job_id, trace_id)


@router.get("/rollouts/{trace_id}/attempts")
async def list_rollout_attempts(
    uow: Reading,
    fine_tuning_job_id: str,
    trace_id: str,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> ListPage[AttemptObject]:
    """Every attempt of every call a rollout made to the customer's endpoints, in the order they ended."""
    return await service.list_attempts(uow, fine_tuning_job_id, trace_id, after=after, limit=limit)


@router.get("/rollouts/{trace_id}/tokens")
async def list_rollout_tokens(
    uow: Reading,
    fine_tuning_job_id: str,
    trace_id: str,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 2000,
) -> TokenPage:
    """What a rollout was made of, token by token: text, whether the policy sampled it, its log-probability and its
    importance ratio; with the rollout's advantage."""
    return await list_tokens(uow, fine_tuning_job_id, trace_id, after=after, limit=limit)


@router.get("/variance")
async def retrieve_job_variance(
    uow: Reading,
    fine_tuning_job_id: str,
    split: Split = Split.VALID,
    step: Annotated[int, Query(ge=0, le=MAX_INTEGER)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> JobVarianceObject:
    """How far the rewards of each row spread at a step, by default at the baseline of validation."""
    return await job_variance(uow, fine_tuning_job_id, split=split, step=step, limit=limit)


@router.get("/endpoints")
async def list_job_endpoints(
    uow: Reading, fine_tuning_job_id: str, from_step: Number = None, to_step: Number = None
) -> ListPage[EndpointHealth]:
    """The health of the job's tools and graders over a window of steps, both ends counted.

    By default the latest ten steps that called any. All of them come on one page.
    """
    return await service.list_endpoints(uow, fine_tuning_job_id, from_step=from_step, to_step=to_step)
