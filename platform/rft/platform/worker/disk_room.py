"""A job waits for room on the disk before each launch, and after one that ran out of it: no launch is used up."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.base import JsonObject
from rft.core.failure import Stage
from rft.platform.lifecycle.events import add_event, notify
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.records import JobHold
from rft.platform.lifecycle.run_repository import RunRepository
from rft.platform.store.database import Database
from rft.scratch.disk import free_bytes

DISK_FULL = "disk_full"
DISK = "the disk of the runs"
_TELL_AGAIN_S = 1.0
_TRY_AGAIN_S = 60.0
"""After a launch that ran out of room: until then as much as a launch needs must have become free. Later a try is worth
it all the same: what filled the disk may be gone, or may be a quota that nobody can ask for."""


@dataclass(slots=True)
class DiskRoom:
    """What a job's launches need on the disk, as far as is known."""

    folder: Path
    least_bytes: int
    _wanted_bytes: int = 0
    _wanted_until_s: float = 0.0

    def ran_out(self) -> None:
        """A launch has just ended for lack of room."""
        self._wanted_bytes = free_bytes(self.folder) + self.least_bytes
        self._wanted_until_s = time.monotonic() + _TRY_AGAIN_S

    def lacking(self) -> str | None:
        """What lacks for a launch, as a sentence; None where there is room."""
        free = free_bytes(self.folder)
        wanted = self._wanted_bytes if time.monotonic() < self._wanted_until_s else 0
        if free >= max(self.least_bytes, wanted):
            return None
        least = f"at least {in_megabytes(max(self.least_bytes, wanted))} must be free, {in_megabytes(free)} are"
        return f"The disk that holds the runs is full: {least}. Nothing is lost; the job goes on once there is room"


async def hold_for_room(connection: AsyncConnection[TupleRow], lease: Lease, reason: str, *, at: float) -> None:
    """The job is held by its worker until there is room. Raises LeaseLost."""
    job = RunRepository(connection, lease)
    await job.lock()
    step, launches = await job.step() or 0, (await job.launches()).total
    hold = JobHold(endpoint=DISK, stage=Stage.PLATFORM, reason=reason, since=at, step=step)
    await job.hold(hold)
    data: JsonObject = {"code": DISK_FULL, "step": step}
    key = f"{DISK_FULL}:{lease.token}:{launches}:{at}"
    await add_event(connection, lease.id, reason, level="warn", data=data, key=key)
    await notify(connection, lease.id)


async def go_on(connection: AsyncConnection[TupleRow], lease: Lease, *, held_s: float, at: float) -> None:
    """There is room again. Raises LeaseLost."""
    job = RunRepository(connection, lease)
    await job.lock()
    await job.run_on()
    message = f"There is room on the disk again; the job goes on after {held_s:.0f} s"
    data: JsonObject = {"code": "hold_ended", "endpoint": DISK, "held_s": held_s}
    await add_event(connection, lease.id, message, data=data, key=f"{DISK_FULL}:{lease.token}:{at}:ended")
    await notify(connection, lease.id)


async def tell_lost_for_room(database: Database, job_id: str, *, key: str, is_stopping: Callable[[], bool]) -> None:
    """Tell a job that its lease was lost because its database had no room: once that has some, at most until we stop.

    Written without a lease: whoever runs the job by then has another one, and this is no more than an event.
    """
    message = (
        "The disk that holds the database was full, so that nothing could be stored: the worker gave the job up."
        " It goes on from its last checkpoint when a worker is there"
    )
    while not is_stopping():
        try:
            async with database.transaction() as connection:
                await add_event(connection, job_id, message, level="warn", data={"code": DISK_FULL}, key=key)
                await notify(connection, job_id)
            return
        except (psycopg.OperationalError, psycopg.InterfaceError):
            await asyncio.sleep(_TELL_AGAIN_S)


def in_megabytes(size: int) -> str:
    """For people."""
    unit: Literal["MB", "GB"] = "GB" if size >= 10**9 else "MB"
    return f"{size / (10**9 if unit == 'GB' else 10**6):.1f} {unit}"
