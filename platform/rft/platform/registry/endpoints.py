"""`/v1/tools` and `/v1/graders`: tools and graders registered once, for many jobs."""

from typing import Annotated

from fastapi import APIRouter, Body, Query
from pydantic import BeforeValidator, JsonValue

from rft.platform.api.dependencies import AppServices, Uow
from rft.platform.api.pagination import After, ListPage
from rft.platform.api.wire import proper_json
from rft.platform.orders.grader_sources import refuse_bad_sources
from rft.platform.registry import service
from rft.platform.registry.schemas import (
    GraderCreate,
    GraderObject,
    RegistrationDeleted,
    ToolCreate,
    ToolObject,
)
from rft.platform.store.unit_of_work import unit_of_work

tools_router = APIRouter(prefix="/tools", tags=["registered tools"])
graders_router = APIRouter(prefix="/graders", tags=["registered graders"])
Limit = Annotated[int, Query(ge=1, le=100)]
Changes = Annotated[
    dict[str, JsonValue],
    BeforeValidator(proper_json),
    Body(description="Fields of a tool; those left out stay, null takes one away, a redacted header value is kept."),
]


@tools_router.post("")
async def create_tool(uow: Uow, services: AppServices, order: ToolCreate) -> ToolObject:
    """Register a tool. Header values are stored encrypted and never shown again."""
    return await service.create_tool(uow, services.secret_box, order)


@tools_router.get("")
async def list_tools(uow: Uow, after: After = None, limit: Limit = 20) -> ListPage[ToolObject]:
    """Registered tools, newest first."""
    return await service.list_tools(uow, after=after, limit=limit)


@tools_router.get("/{tool_id}")
async def retrieve_tool(uow: Uow, tool_id: str) -> ToolObject:
    """One registered tool and its health."""
    return await service.retrieve_tool(uow, tool_id)


@tools_router.post("/{tool_id}")
async def update_tool(uow: Uow, services: AppServices, tool_id: str, changes: Changes) -> ToolObject:
    """Change a registered tool. Jobs that exist keep what they were created with."""
    return await service.update_tool(uow, services.secret_box, tool_id, changes)


@tools_router.delete("/{tool_id}")
async def delete_tool(uow: Uow, tool_id: str) -> RegistrationDeleted:
    """Forget a registered tool. Jobs that exist keep their copies."""
    return await service.delete(uow, "tool", tool_id)


@graders_router.post("")
async def create_grader(services: AppServices, order: GraderCreate) -> GraderObject:
    """Register a grader of any type. Header values are stored encrypted and never shown again."""
    await refuse_bad_sources(order.grader, param="grader")
    async with unit_of_work(services.database, services.enqueuer) as uow:
        return await service.create_grader(uow, services.secret_box, services.settings, order)


@graders_router.get("")
async def list_graders(uow: Uow, after: After = None, limit: Limit = 20) -> ListPage[GraderObject]:
    """Registered graders, newest first."""
    return await service.list_graders(uow, after=after, limit=limit)


@graders_router.get("/{grader_id}")
async def retrieve_grader(uow: Uow, grader_id: str) -> GraderObject:
    """One registered grader and its health."""
    return await service.retrieve_grader(uow, grader_id)


@graders_router.post("/{grader_id}")
async def update_grader(services: AppServices, grader_id: str, order: GraderCreate) -> GraderObject:
    """Put another grader in its place; header values sent back redacted are kept. Jobs keep what they have."""
    await refuse_bad_sources(order.grader, param="grader")
    async with unit_of_work(services.database, services.enqueuer) as uow:
        return await service.update_grader(uow, services.secret_box, services.settings, grader_id, order)


@graders_router.delete("/{grader_id}")
async def delete_grader(uow: Uow, grader_id: str) -> RegistrationDeleted:
    """Forget a registered grader. Jobs that exist keep their copies."""
    return await service.delete(uow, "grader", grader_id)
