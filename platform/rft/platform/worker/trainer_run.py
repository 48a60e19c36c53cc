"""One launch of a run: a trainer process over a run directory, watched until it is over."""

import asyncio
import logging
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from rft.core.progress import Activity, RunProgress
from rft.core.spec import RunSecrets
from rft.egress.redaction import secrets_of
from rft.platform.child_process import ChildProcess, exit_message, launch, log_tail
from rft.platform.lifecycle.heartbeat import Heartbeat
from rft.platform.lifecycle.lease import Cancelled, RequestedAction
from rft.platform.lifecycle.run_repository import RunRepository
from rft.platform.serving.giving_way import give_way_to_trainer
from rft.platform.settings import Settings
from rft.platform.worker.event_log import EventLog
from rft.platform.worker.ingest import Ingest, Ingested
from rft.platform.worker.launch_inbox import LaunchInbox
from rft.platform.worker.log_line import LogLine
from rft.run_directory import layout
from rft.run_directory.progress import forget_progress, read_progress
from rft.scratch.disk import EXIT_DISK_FULL
from rft.scratch.folder import ScratchFolder, sweep

_LOG = logging.getLogger(__name__)
POLL_S = 0.2
PROGRESS_S = 1.0
"""How often the run's progress is looked at."""
STARTER_LOG = "starter.log"
_TEMPORARY = "rft-trainer-"
_STARTER_BUILD = ".starter-build-"


class Ending(StrEnum):
    """How a launch ended."""

    OVER = "over"
    """The trainer wrote `RunEnded`, and it is stored in the job's row."""
    PAUSED = "paused"
    """The customer asked for it; the job goes on when they say so."""
    STOPPED = "stopped"
    """This worker is shutting down; the job can go on elsewhere."""
    OUTDATED = "outdated"
    """The job's endpoints were changed: it goes on with another trainer, here and at once."""
    BUSY = "busy"
    """Another process has the run directory: no trainer was started."""
    DIED = "died"
    """The process ended without writing `RunEnded`."""
    DISK_FULL = "disk_full"
    """There was no room for what it had to write."""


@dataclass(slots=True)
class TrainerRun:
    """Everything one job's launches share."""

    settings: Settings
    folder: Path
    base_model: Path
    secrets: RunSecrets
    beat: Heartbeat
    ingest: Ingest
    log: EventLog
    is_stopping: Callable[[], bool]
    endpoints_version: int = 0
    """Of the job's endpoints as the trainer is told of them."""
    highest_step: int = -1
    """Highest step this runner ever saw completed: more than that is progress."""
    last_seq: int = 0
    """Number of the last stored event."""
    child: ChildProcess | None = None
    is_held: bool = False
    """Whether the run waits for an endpoint."""
    child_log: str = layout.LOG
    """Where the last process wrote."""
    _progress: RunProgress | None = None
    """As it is stored."""
    _looked_at: float = 0.0
    _silence_s: float | None = None
    """How long the last process had written nothing when it was killed for that."""

    async def build_starter(self, target: Path) -> Ending | None:
        """Build the starter policy, whole or not at all; None when that went well."""
        command = self.settings.starter_command or (sys.executable, "-m", "rft.starter")
        self.child_log, self._silence_s = STARTER_LOG, None
        sweep(_STARTER_BUILD, parent=target.parent)
        scratch = ScratchFolder(_STARTER_BUILD, parent=target.parent)
        unfinished = scratch.path / target.name
        await self.store_progress(RunProgress(activity=Activity.BUILDING_STARTER, since=time.time()))
        try:
            self.child = await launch([*command, str(unfinished)], log=self.folder / STARTER_LOG)
            ending = await self._starter_built(self.child)
            if ending is None and not (target / "config.json").exists():
                shutil.rmtree(target, ignore_errors=True)
                unfinished.rename(target)
            return ending
        finally:
            scratch.remove()

    async def _starter_built(self, child: ChildProcess) -> Ending | None:
        try:
            while child.returncode is None:
                if (ending := interruption(self.beat, self.is_stopping)) is not None:
                    return ending
                await child.wait(POLL_S)
        finally:
            await child.stop(self.settings.trainer_grace_s)
        if child.returncode == 0:
            return None
        return Ending.DISK_FULL if child.returncode == EXIT_DISK_FULL else Ending.DIED

    async def launch(self) -> Ending:
        """Launch the trainer and stay until it is gone. Raises LeaseLost, Cancelled, CorruptLog, LogGap, OSError."""
        if (await self.drain()).ended_for_good:
            return Ending.OVER  # `RunEnded` was written but not yet stored when the worker before this one died.
        await asyncio.to_thread(forget_progress, self.folder)
        await self.store_progress(RunProgress(activity=Activity.LOADING, since=time.time()))
        await give_way_to_trainer(self.settings, self.base_model)
        command = self.settings.trainer_command or (sys.executable, "-m", "rft.trainer")
        self.child_log, self.is_held = layout.LOG, False
        inbox = LaunchInbox(self.settings, self.beat)
        self.secrets = await inbox.open(self.secrets)
        sweep(_TEMPORARY)
        temporary = ScratchFolder(_TEMPORARY)
        try:
            self.child = await launch(
                [*command, str(self.folder)],
                log=self.folder / layout.LOG,
                stdin=self.secrets.model_dump_json().encode(),
                temporary=temporary.path,
            )
            return await self._stay(self.child)
        finally:
            temporary.remove()
            await inbox.close()

    async def _stay(self, child: ChildProcess) -> Ending:
        try:
            return await self._watch(child)
        except Cancelled:
            # Nothing of it counts any more, but customers' servers are still told which rollouts have ended.
            await child.stop(self.settings.trainer_grace_s)
            raise
        finally:
            child.kill()
            await child.process.wait()

    async def drain(self) -> "Drained":
        """Store every complete line that is in the log now. The next lines are read while these are stored."""
        drained = Drained()
        reading = self._read(self.log.offset, self.last_seq)
        try:
            while True:
                lines, offset = await reading
                if not lines and offset == self.log.offset:
                    return drained
                reading = self._read(offset, lines[-1].seq if lines else self.last_seq)
                if lines:
                    await self._store(lines, drained)
                self.log.offset = offset  # Also beyond lines of an earlier run, stored already.
                if drained.ended_for_good:
                    return drained
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _store(self, lines: list[LogLine], drained: "Drained") -> None:
        batch: Ingested = await self.beat.write(lambda connection: self.ingest.batch(connection, lines))
        self.last_seq = batch.last_seq
        drained.has_news, drained.highest_step = True, max(drained.highest_step, batch.highest_step)
        self.is_held = self.is_held if batch.is_held is None else batch.is_held
        drained.ended_for_good = batch.ended is not None and batch.ended.outcome != "stopped"

    def _read(self, offset: int, after_seq: int) -> asyncio.Task[tuple[list[LogLine], int]]:
        return asyncio.create_task(asyncio.to_thread(self.log.read, after_seq=after_seq, start=offset))

    def exit_summary(self) -> str:
        """How the last process ended and the end of its log; free of secrets."""
        tail = log_tail(self.folder / self.child_log, hide=_secret_values(self.secrets))
        ended = "could not be started" if self.child is None else exit_message(self.child.returncode)
        if self._silence_s is not None:
            ended = f"wrote nothing for {self._silence_s:.0f} s and was killed"
        return f"{ended}. The end of its log:\n{tail}" if tail else f"{ended}, without a word in its log."

    async def _watch(self, child: ChildProcess) -> Ending:
        heard_at, self._silence_s = time.monotonic(), None
        while True:
            has_exited = child.returncode is not None
            drained = await self.drain()
            await self._look_at_progress()
            if drained.has_news:
                heard_at = time.monotonic()
            if drained.highest_step > self.highest_step:
                self.highest_step = drained.highest_step
                await self._note_progress(ended=drained.ended_for_good)
            if drained.ended_for_good:
                self.beat.is_over = True
                await child.wait(self.settings.trainer_grace_s)
                return Ending.OVER
            if has_exited:
                return Ending.DISK_FULL if child.returncode == EXIT_DISK_FULL else Ending.DIED
            if (ending := self.interruption()) is not None:
                await child.stop(self.settings.trainer_grace_s)
                return Ending.OVER if (await self.drain()).ended_for_good else ending
            if self._is_too_long(silence_s := time.monotonic() - heard_at):
                self._silence_s = silence_s
                return Ending.DIED
            await child.wait(POLL_S)

    async def _look_at_progress(self) -> None:
        """Store what the trainer says it is doing, where that is something new."""
        if time.monotonic() < self._looked_at + PROGRESS_S:
            return
        self._looked_at = time.monotonic()
        progress = await asyncio.to_thread(read_progress, self.folder)
        if progress is not None and progress != self._progress:
            await self.store_progress(progress)

    async def store_progress(self, progress: RunProgress) -> None:
        """For whoever looks at the job. Raises LeaseLost."""
        await self.beat.write(lambda connection: RunRepository(connection, self.beat.lease).set_progress(progress))
        self._progress = progress

    @property
    def is_outdated(self) -> bool:
        """Whether the job's endpoints were changed since its run was prepared."""
        return self.beat.endpoints_version > self.endpoints_version

    def interruption(self) -> Ending | None:
        """Why to stop now, changed endpoints among it. Raises LeaseLost."""
        ending = interruption(self.beat, self.is_stopping)
        return Ending.OUTDATED if ending is None and self.is_outdated else ending

    def _is_too_long(self, silence_s: float) -> bool:
        """Whether a trainer this silent hangs. One that is held has nothing to tell until its hold's own limit."""
        patience_s = self.settings.trainer_silence_s
        return patience_s > 0 and silence_s > patience_s + (self.settings.hold_max_s if self.is_held else 0.0)

    async def _note_progress(self, *, ended: bool) -> None:
        if ended:
            return
        await self.beat.write(lambda connection: RunRepository(connection, self.beat.lease).forget_fruitless_launches())


def interruption(beat: Heartbeat, is_stopping: Callable[[], bool]) -> Ending | None:
    """Why to stop now, if so. Raises LeaseLost."""
    beat.check()
    match beat.action:
        case RequestedAction.PAUSE:
            return Ending.PAUSED
        case RequestedAction.CANCEL | None:
            return Ending.STOPPED if is_stopping() else None


@dataclass(slots=True)
class Drained:
    """What a drain found."""

    has_news: bool = False
    highest_step: int = -1
    ended_for_good: bool = False


def _secret_values(secrets: RunSecrets) -> list[str]:
    headers = [*secrets.tool_headers.values(), secrets.grader_headers, *secrets.part_headers.values()]
    keys = [
        *secrets.signing_secrets,
        secrets.judge_api_key or "",
        secrets.gateway_token or "",
        secrets.vllm_api_key or "",
        secrets.inbox_token or "",
        urlsplit(secrets.broker_url or "").password or "",
    ]
    values = [value for value in (*(value for header in headers for value in header.values()), *keys) if value]
    urls = (*secrets.tool_urls.values(), *secrets.callback_urls.values(), *secrets.part_urls.values())
    queries = secrets_of({}, *urls, secrets.grader_url or "")
    return [*values, *(word for value in values for word in value.split() if len(word) >= 8), *queries]
