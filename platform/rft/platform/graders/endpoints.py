"""`/v1/fine_tuning/alpha/graders` and `/v1/fine_tuning/alpha/tool`: dry runs."""

from fastapi import APIRouter, Request

from rft.platform.api.dependencies import AppServices, KeyId
from rft.platform.api.hang_up import while_connected
from rft.platform.graders import service
from rft.platform.graders.objects import (
    GraderRun,
    GraderRunObject,
    GraderValidate,
    GraderValidated,
    ToolRun,
    ToolRunObject,
)

router = APIRouter(prefix="/fine_tuning/alpha", tags=["dry runs"])


@router.post("/graders/run")
async def run_grader(request: Request, services: AppServices, key_id: KeyId, order: GraderRun) -> GraderRunObject:
    """Grade one answer. Errors of the grader are in the reply's metadata."""
    return await while_connected(request, service.run_grader(services, order, key_id=key_id))


@router.post("/graders/validate")
async def validate_grader(
    request: Request, services: AppServices, key_id: KeyId, order: GraderValidate
) -> GraderValidated:
    """Check a grader, without calling anybody."""
    return await while_connected(request, service.validate_grader(services, order, key_id=key_id))


@router.post("/tool/run")
async def run_tool(request: Request, services: AppServices, order: ToolRun) -> ToolRunObject:
    """Call one tool as a rollout would. A tool that fails is a 400 that says how."""
    return await while_connected(request, service.run_tool(services, order))
