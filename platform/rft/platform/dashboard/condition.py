"""`/v1/dashboard/condition`: what of the platform's condition concerns whoever looks at any page."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from rft.platform.api.dependencies import AppSettings, Reading
from rft.platform.dashboard.stopped_job_repository import (
    HeldJob,
    PlatformPausedJob,
    held_jobs,
    platform_paused_jobs,
)
from rft.scratch.disk import free_bytes

condition_router = APIRouter(prefix="/dashboard", tags=["dashboard"])
_MOST_JOBS = 5


class DiskObject(BaseModel):
    """The disk of the API's host that holds runs and files."""

    free_bytes: Annotated[int, Field(ge=0)]
    least_bytes: int
    """What must be free before a trainer is started."""
    is_full: bool
    """Jobs are held until there is room."""


class ConditionObject(BaseModel):
    """Nothing is wrong where the disk has room and no job is held or was paused by the platform."""

    object: Literal["dashboard.condition"] = "dashboard.condition"
    disk: DiskObject | None
    """Null where it cannot be asked for its room."""
    held_jobs: list[HeldJob]
    """The newest ones, up to five."""
    held_jobs_left_out: int
    platform_paused_jobs: list[PlatformPausedJob]
    """Those that the platform paused, the newest ones, up to five."""
    platform_paused_jobs_left_out: int


@condition_router.get("/condition")
async def retrieve_condition(uow: Reading, settings: AppSettings) -> ConditionObject:
    """Room on the disk, and jobs that are held or were paused by the platform."""
    held, held_count = await held_jobs(uow.connection, limit=_MOST_JOBS)
    paused, paused_count = await platform_paused_jobs(uow.connection, limit=_MOST_JOBS)
    try:
        free = await asyncio.to_thread(free_bytes, settings.runs_dir)
    except OSError:
        disk = None
    else:
        least = settings.min_free_bytes
        disk = DiskObject(free_bytes=free, least_bytes=least, is_full=free < least)
    return ConditionObject(
        disk=disk,
        held_jobs=held,
        held_jobs_left_out=held_count - len(held),
        platform_paused_jobs=paused,
        platform_paused_jobs_left_out=paused_count - len(paused),
    )
