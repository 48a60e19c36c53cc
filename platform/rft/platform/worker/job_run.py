"""What a worker does under a job's lease: it launches trainers until the job is over, paused or failed."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.base import JsonObject
from rft.core.errors import RunPaused
from rft.core.job import JobStatus
from rft.platform.lifecycle.ending import add_paused_event, fail, pause_for_failure
from rft.platform.lifecycle.events import add_event, notify
from rft.platform.lifecycle.heartbeat import Heartbeat
from rft.platform.lifecycle.job_lease import free_slot, release
from rft.platform.lifecycle.lease import Cancelled, Lease, LeaseLost, lock_row
from rft.platform.lifecycle.records import JobError
from rft.platform.lifecycle.run_repository import RunRepository
from rft.platform.worker.baselines import Baselines
from rft.platform.worker.context import WorkerContext
from rft.platform.worker.disk_room import DISK_FULL, DiskRoom, Lack, go_on, hold_for_room, tell_lost_for_room
from rft.platform.worker.event_log import take_over_log
from rft.platform.worker.left_open import tell_left_open
from rft.platform.worker.per_process_limits import warn_of_limits
from rft.platform.worker.preparation import CannotRun, Preparation
from rft.platform.worker.trainer_run import POLL_S, Ending, TrainerRun, interruption
from rft.run_directory.lock import RunDirectoryBusy
from rft.scratch.disk import is_disk_full

_LOG = logging.getLogger(__name__)
_FIRST_BACKOFF_S = 0.5
_MAX_BACKOFF_S = 30.0
_BUSY_S = 5.0
"""Between two looks whether another process still has the run directory."""
_ENDED = ("over", "failed", "cancelled")
"""Outcomes after which no trainer of this job is started, unless the platform paused it and its customer resumes it."""


@dataclass(slots=True)
class JobRun:
    """Runs one job under one lease."""

    context: WorkerContext
    lease: Lease
    asked_at: float
    """`time.monotonic()` before the lease was asked for."""
    beat: Heartbeat = field(init=False)
    run: TrainerRun | None = None
    room: DiskRoom = field(init=False)
    _is_counted: bool = False
    """Whether the launch under way was counted."""

    async def execute(self) -> str:
        """Until the job is over, cancelled, given back or failed; says which. Raises LeaseLost but for cancelled."""
        settings = self.context.settings
        self.room = DiskRoom(settings.runs_dir, settings.min_free_bytes)
        self.beat = Heartbeat(
            database=self.context.database,
            lease=self.lease,
            ttl_s=settings.lease_ttl_s,
            every_s=settings.heartbeat_s,
            confirmed_at=self.asked_at,
            on_lost=self._kill_trainer,
        )
        try:
            async with self.beat:
                outcome = await self._launch_until_over()
        except Cancelled:
            await self._free_slot()
            outcome = "cancelled"
        except LeaseLost:
            if not await self._has_ended():
                if self.beat.is_disk_full:
                    key, is_stopping = f"{DISK_FULL}:{self.lease.token}:lost", self.context.is_stopping
                    await tell_lost_for_room(self.context.database, self.lease.id, key=key, is_stopping=is_stopping)
                raise
            outcome = "over"
        if outcome in _ENDED:
            secrets = None if self.run is None else self.run.secrets
            await tell_left_open(self.lease.id, self.context, secrets)
        return outcome

    async def _launch_until_over(self) -> str:
        try:
            while True:
                outcome = await self._one_launch()
                if outcome is not None:
                    return outcome
        except CannotRun as cannot:
            await self._fail(cannot.error)
            return "failed"
        except RunPaused as paused:
            error = JobError(code=paused.code, message=str(paused), param=paused.param)
            await self._part(lambda connection: self._pause_for_failure(connection, error))
            return "paused"

    async def _one_launch(self) -> str | None:
        """None when another trainer may be launched: this one died, or its endpoints were changed meanwhile."""
        self._is_counted = False
        if (ending := await self._wait_for_room()) is not None:
            return await self._after(ending, "")
        launches = await self.beat.write(self._count_launch)
        self._is_counted = True
        if launches > self.context.settings.max_launches_without_progress:
            await self._fail(_died_too_often(launches - 1, "ended together with its worker."))
            return "failed"
        try:
            ending = await self._wait(backoff_s(launches)) or await self._launch()
            reason = self.run.exit_summary() if self.run is not None and ending is Ending.DIED else ""
        except (LeaseLost, CannotRun, RunPaused):
            raise
        except RunDirectoryBusy as busy:
            _LOG.warning("%s: %s", self.lease.id, busy)
            ending, reason = Ending.BUSY, ""
        except Exception as error:
            # Whatever broke here (a full disk, a torn log, a bug of ours) must neither end the job at once nor hide.
            _LOG.exception("%s: launch %d broke", self.lease.id, launches)
            ending = Ending.DISK_FULL if is_disk_full(error) else Ending.DIED
            reason = f"could not be kept running: {type(error).__name__}: {error}"
        return await self._after(ending, reason)

    async def _after(self, ending: Ending, reason: str) -> str | None:
        """What is to be done after an ending; None when another trainer may be launched."""
        match ending:
            case Ending.OVER:
                return "over"
            case Ending.PAUSED:
                await self._part(self._pause)
                return "paused"
            case Ending.STOPPED:
                await self._part(self._give_back)
                return "given back"
            case Ending.BUSY:
                await self.beat.write(self._wait_for_directory)
                await self._wait(_BUSY_S)
                return None
            case Ending.OUTDATED:
                await self.beat.write(self._uncount_launch)
                return None
            case Ending.DISK_FULL:
                self.room.ran_out()
                await self.beat.write(self._uncount_launch)
                return None
            case Ending.DIED:
                return await self._after_death(reason)

    async def _wait_for_room(self) -> Ending | None:
        """Until the disks have room for a launch; the interruption that came meanwhile, if any."""
        ending = None
        while ending is None and (lack := self.room.lacking()) is not None:
            ending = await self._hold_for(lack)
        return ending

    async def _hold_for(self, lack: Lack) -> Ending | None:
        at, since_s, now = time.time(), time.monotonic(), lack
        _LOG.warning("%s: %s", self.lease.id, lack.reason)
        await self.beat.write(lambda connection: hold_for_room(connection, self.lease, lack, at=at))
        while now is not None and now.disk == lack.disk:
            if (ending := interruption(self.beat, self.context.is_stopping)) is not None:
                return ending
            await asyncio.sleep(POLL_S)
            now = self.room.lacking()
        held_s = time.monotonic() - since_s
        await self.beat.write(lambda connection: go_on(connection, self.lease, lack.disk, held_s=held_s, at=at))
        return None

    async def _launch(self) -> Ending:
        if self.run is None or self.run.is_outdated:
            self.run = await Preparation(self.context, self.lease, self.beat).trainer_run()
        run, starter = self.run, self._missing_starter()
        if starter is not None:
            await self.beat.write(self._announce_starter)
            ending = await run.build_starter(starter)
            if ending is not None:
                return ending
        if (ending := await Baselines(self.context, run).measure()) is not None:
            return ending
        run.last_seq = await self._take_over_log(run)
        return await run.launch()

    def _missing_starter(self) -> Path | None:
        """Where the starter policy is to be built, when this job needs it and it is not there."""
        target = self.context.settings.starter_dir
        is_wanted = self.run is not None and self.run.base_model == target
        return target if is_wanted and not (target / "config.json").exists() else None

    async def _announce_starter(self, connection: AsyncConnection[TupleRow]) -> None:
        await lock_row(connection, self.lease)
        data: JsonObject = {"code": "building_starter"}
        await add_event(connection, self.lease.id, "Building the starter policy", data=data, key="starter")
        await notify(connection, self.lease.id)

    async def _take_over_log(self, run: TrainerRun) -> int:
        """The number of the last stored event that is still in the log, which then ends with a whole line.

        The log is read from its start again, past what is stored: it may have been cut, and a database that failed over
        may have lost the last lines that were read.
        """
        logged = await asyncio.to_thread(take_over_log, run.folder)
        run.log.offset = 0
        return await self.beat.write(lambda connection: self._rewind_to_log(connection, logged))

    async def _rewind_to_log(self, connection: AsyncConnection[TupleRow], logged: int) -> int:
        """A machine that lost power may have lost lines that are stored here. The trainer numbers on from the last line
        it has, so those numbers will come again; what they first stood for is voided by its `RunStarted`."""
        job = RunRepository(connection, self.lease)
        stored = await job.lock()
        if logged >= stored:
            return stored
        _LOG.warning("%s: the event log lost lines %d to %d", self.lease.id, logged + 1, stored)
        await job.set_last_event(logged)
        return logged

    async def _count_launch(self, connection: AsyncConnection[TupleRow]) -> int:
        job = RunRepository(connection, self.lease)
        await job.lock()
        launches = await job.count_launch()
        if launches.total == 1:
            await add_event(connection, self.lease.id, "Fine-tuning job started", key="started")
            await warn_of_limits(connection, self.lease.id, self.context.settings)
            await notify(connection, self.lease.id)
        return launches.without_progress

    async def _wait(self, seconds: float) -> Ending | None:
        """Before another launch; the interruption that came meanwhile, if any."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if (ending := interruption(self.beat, self.context.is_stopping)) is not None:
                return ending
            await asyncio.sleep(min(POLL_S, max(0.0, until - time.monotonic())))
        return interruption(self.beat, self.context.is_stopping)

    async def _after_death(self, reason: str) -> str | None:
        """Say what happened; None when there is another launch in it."""
        _LOG.warning("%s: the trainer died: %s", self.lease.id, reason)

        async def write(connection: AsyncConnection[TupleRow]) -> bool:
            job = RunRepository(connection, self.lease)
            await job.lock()
            launches = await job.launches()
            if launches.without_progress >= self.context.settings.max_launches_without_progress:
                error = _died_too_often(launches.without_progress, reason)
                await fail(connection, self.lease, error, key=f"run:{self.lease.token}")
                return True
            message = f"The training process {reason}\nIt starts again from the last complete checkpoint."
            data: JsonObject = {"code": "trainer_died"}
            await add_event(connection, self.lease.id, message, level="warn", data=data, key=f"died:{launches.total}")
            await notify(connection, self.lease.id)
            return False

        return "failed" if await self.beat.write(write) else None

    async def _fail(self, error: JobError) -> None:
        await self.beat.write(lambda connection: fail(connection, self.lease, error, key=f"run:{self.lease.token}"))

    async def _part(self, give_up: Callable[[AsyncConnection[TupleRow]], Awaitable[None]]) -> None:
        """Give the lease up and stop its heartbeat: losing it now is no error."""
        await self.beat.write(give_up)
        self.beat.is_over = True

    async def _has_ended(self) -> bool:
        """Whether this lease was lost to our own end of the job, of whose commit the answer was lost."""
        try:
            async with self.context.database.connection() as connection:
                return await RunRepository(connection, self.lease).has_ended()
        except (psycopg.OperationalError, psycopg.InterfaceError):
            return False

    async def _free_slot(self) -> None:
        """If the database is away now, the slot is free when the lease would have ended."""
        try:
            async with self.context.database.transaction() as connection:
                await free_slot(connection, self.lease)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            _LOG.warning("%s: its slot was not freed: %s", self.lease.id, error)

    async def _pause(self, connection: AsyncConnection[TupleRow]) -> None:
        step = await self._uncount_launch(connection)
        await add_paused_event(connection, self.lease.id, step, key=f"paused:{self.lease.token}")
        await release(connection, self.lease, JobStatus.PAUSED)

    async def _pause_for_failure(self, connection: AsyncConnection[TupleRow], error: JobError) -> None:
        await self._uncount_launch(connection)
        await pause_for_failure(connection, self.lease, error, key=f"run:{self.lease.token}")

    async def _uncount_launch(self, connection: AsyncConnection[TupleRow]) -> int | None:
        """A launch that we ended ourselves is no sign of a job that cannot run. Returns the job's step."""
        job = RunRepository(connection, self.lease)
        await job.lock()
        return await job.uncount_launches(int(self._is_counted))

    async def _wait_for_directory(self, connection: AsyncConnection[TupleRow]) -> None:
        """No trainer was started: the next launch waits for the directory again, and its customer is told once."""
        await self._uncount_launch(connection)
        message = (
            "The job waits for another process that still works in its run directory, such as the trainer of a worker"
            " that fell silent. It goes on once that has ended"
        )
        data: JsonObject = {"code": "run_directory_busy"}
        await add_event(connection, self.lease.id, message, level="warn", data=data, key=f"busy:{self.lease.token}")
        await notify(connection, self.lease.id)

    async def _give_back(self, connection: AsyncConnection[TupleRow]) -> None:
        await self._uncount_launch(connection)
        message = "The worker is shutting down; the job goes on from its last checkpoint when a worker is there"
        data: JsonObject = {"code": "worker_stopped"}
        key = f"given-back:{self.lease.token}"
        await add_event(connection, self.lease.id, message, level="warn", data=data, key=key)
        await release(connection, self.lease, JobStatus.QUEUED)

    def _kill_trainer(self) -> None:
        if self.run is not None and self.run.child is not None:
            self.run.child.kill()


def backoff_s(launches: int) -> float:
    """How long to wait before the n-th launch without progress, n from 1."""
    return 0.0 if launches <= 1 else min(_MAX_BACKOFF_S, _FIRST_BACKOFF_S * 2 ** (launches - 2))


def _died_too_often(launches: int, reason: str) -> JobError:
    return JobError(
        code="trainer_crashed",
        message=f"The training process started {launches} times without finishing another step. The last one {reason}",
    )
