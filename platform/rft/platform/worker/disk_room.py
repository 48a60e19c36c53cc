"""A job waits for room on the disk before each launch, and after one that ran out of it: no launch is used up."""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
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
from rft.scratch.disk import NOTHING_LEFT_BYTES, free_bytes

DISK_FULL = "disk_full"
_TELL_AGAIN_S = 1.0
_TRY_AGAIN_S = 60.0
"""After a launch that ran out of room: until then as much as a launch needs must have become free. Later a try is worth
it all the same: what filled the disk may be gone, or may be a quota that nobody can ask for."""


@dataclass(frozen=True, slots=True)
class Lack:
    """A disk without room for a launch, as far as it tells."""

    disk: str
    """In words."""
    reason: str
    """A sentence."""


@dataclass(slots=True)
class _Disk:
    """One that launches write to, and what they need there, as far as is known."""

    name: str
    holds: str
    folder: Path
    least_bytes: int
    _wanted_bytes: int = 0
    _wanted_until_s: float = 0.0

    def free(self) -> int:
        return free_bytes(self.folder)

    def want_more(self, more_bytes: int) -> None:
        self._wanted_bytes = self.free() + more_bytes
        self._wanted_until_s = time.monotonic() + _TRY_AGAIN_S

    def lack(self) -> Lack | None:
        try:
            free = self.free()
        except OSError as error:
            reason = f"The disk that holds {self.holds} does not say how much room it has: {error}"
            return Lack(self.name, f"{reason}. Nothing is lost; the job goes on once it does")
        wanted = self._wanted_bytes if time.monotonic() < self._wanted_until_s else 0
        if free >= max(self.least_bytes, wanted):
            return None
        least = f"at least {in_megabytes(max(self.least_bytes, wanted))} must be free, {in_megabytes(free)} are"
        reason = (
            f"The disk that holds {self.holds} is full: {least}. Nothing is lost; the job goes on once there is room"
        )
        return Lack(self.name, reason)


class DiskRoom:
    """The disks of a job's launches: that of the runs, and that of temporary files."""

    def __init__(self, runs: Path, least_bytes: int) -> None:
        self._least_bytes = least_bytes
        temporary = _temporary_folder()
        self._disks = (
            _Disk("the disk of the runs", "the runs", runs, least_bytes),
            _Disk("the disk of temporary files", f"temporary files ({temporary})", temporary, NOTHING_LEFT_BYTES),
        )

    def ran_out(self) -> None:
        """A launch has just ended for lack of room: most likely where the least is left."""
        with suppress(OSError):  # A disk that does not say what is left is waited for before the next launch.
            min(self._disks, key=_Disk.free).want_more(self._least_bytes)

    def lacking(self) -> Lack | None:
        """What lacks for a launch; None where there is room."""
        return next((lack for disk in self._disks if (lack := disk.lack()) is not None), None)


def _temporary_folder() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:  # It tries to write, and no folder takes anything.
        return Path(os.environ.get("TMPDIR", "/tmp"))


async def hold_for_room(connection: AsyncConnection[TupleRow], lease: Lease, lack: Lack, *, at: float) -> None:
    """The job is held by its worker until there is room. Raises LeaseLost."""
    job = RunRepository(connection, lease)
    await job.lock()
    step, launches = await job.step() or 0, (await job.launches()).total
    hold = JobHold(endpoint=lack.disk, stage=Stage.PLATFORM, reason=lack.reason, since=at, step=step)
    await job.hold(hold)
    data: JsonObject = {"code": DISK_FULL, "step": step}
    key = f"{DISK_FULL}:{lease.token}:{launches}:{at}"
    await add_event(connection, lease.id, lack.reason, level="warn", data=data, key=key)
    await notify(connection, lease.id)


async def go_on(connection: AsyncConnection[TupleRow], lease: Lease, disk: str, *, held_s: float, at: float) -> None:
    """There is room again. Raises LeaseLost."""
    job = RunRepository(connection, lease)
    await job.lock()
    await job.run_on()
    message = f"There is room on {disk} again; the job goes on after {held_s:.0f} s"
    data: JsonObject = {"code": "hold_ended", "endpoint": disk, "held_s": held_s}
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
