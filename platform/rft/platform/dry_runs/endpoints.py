"""What can be tried without a job: one call of a tool or grader, registered or not, and what an order comes to."""

from fastapi import APIRouter, Request

from rft.platform.api.dependencies import AppServices, KeyId
from rft.platform.api.hang_up import while_connected
from rft.platform.dry_runs import estimate, registered, service
from rft.platform.dry_runs.estimate_objects import EstimateObject
from rft.platform.dry_runs.objects import (
    GraderRun,
    GraderRunObject,
    GraderValidate,
    GraderValidated,
    ToolRun,
    ToolRunObject,
)
from rft.platform.orders.schemas import JobOrder
from rft.platform.registry.schemas import GraderTested, GraderTry, ToolTested, ToolTry

router = APIRouter(prefix="/fine_tuning/alpha", tags=["dry runs"])
registered_tools_router = APIRouter(prefix="/tools", tags=["registered tools"])
registered_graders_router = APIRouter(prefix="/graders", tags=["registered graders"])


@router.post("/graders/run")
async def run_grader(request: Request, services: AppServices, key_id: KeyId, body: GraderRun) -> GraderRunObject:
    """Grade one answer. Errors of the grader are in the reply's metadata."""
    return await while_connected(request, service.run_grader(services, body, key_id=key_id))


@router.post("/graders/validate")
async def validate_grader(
    request: Request, services: AppServices, key_id: KeyId, body: GraderValidate
) -> GraderValidated:
    """Check a grader, without calling anybody."""
    return await while_connected(request, service.validate_grader(services, body, key_id=key_id))


@router.post("/jobs/estimate")
async def estimate_job(services: AppServices, order: JobOrder) -> EstimateObject:
    """Ours: what an order comes to: steps, rollouts, what each endpoint has to bear. Checked as a job's, and refused as
    one, but that the model, python sources and addresses are looked at only when a job is created; nobody's endpoint is
    called, and there is no job."""
    return await estimate.estimate_job(services, order)


@router.post("/tool/run")
async def run_tool(request: Request, services: AppServices, body: ToolRun) -> ToolRunObject:
    """Call one tool as a rollout would. A tool that fails is a 400 that says how."""
    return await while_connected(request, service.run_tool(services, body))


@registered_tools_router.post("/{tool_id}/test")
async def try_tool(request: Request, services: AppServices, tool_id: str, body: ToolTry | None = None) -> ToolTested:
    """Make one call and tell what the model would read."""
    return await while_connected(request, registered.try_tool(services, tool_id, body or ToolTry()))


@registered_graders_router.post("/{grader_id}/test")
async def try_grader(
    request: Request, services: AppServices, key_id: KeyId, grader_id: str, body: GraderTry | None = None
) -> GraderTested:
    """Grade one answer."""
    work = registered.try_grader(services, grader_id, body or GraderTry(), key_id=key_id)
    return await while_connected(request, work)
