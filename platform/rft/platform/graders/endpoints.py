"""`/v1/fine_tuning/alpha/graders` and `/v1/fine_tuning/alpha/tool`: dry runs."""

from fastapi import APIRouter

from rft.platform.api.dependencies import AppServices
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
async def run_grader(services: AppServices, order: GraderRun) -> GraderRunObject:
    """Grade one answer. Errors of the grader are in the reply's metadata."""
    return await service.run_grader(services, order)


@router.post("/graders/validate")
async def validate_grader(services: AppServices, order: GraderValidate) -> GraderValidated:
    """Check a grader, without calling anybody."""
    return await service.validate_grader(services, order)


@router.post("/tool/run")
async def run_tool(services: AppServices, order: ToolRun) -> ToolRunObject:
    """Call one tool as a rollout would. A tool that fails is a 400 that says how."""
    return await service.run_tool(services, order)
