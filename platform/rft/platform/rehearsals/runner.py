"""Runs one rehearsal in a worker, under a lease. What becomes of it is always written, by us or by the reconciler."""

import asyncio
import logging
import time
from dataclasses import dataclass

from rft.core.base import Record
from rft.core.dataset import DatasetRow
from rft.core.spec import RunSecrets
from rft.platform.files.repository import FileRepository
from rft.platform.files.storage import BytesMissing, read_lines
from rft.platform.lifecycle.heartbeat import Heartbeat
from rft.platform.lifecycle.lease import RequestedAction
from rft.platform.lifecycle.owner import new_owner
from rft.platform.lifecycle.records import JobError
from rft.platform.rehearsals.planning import to_spec
from rft.platform.rehearsals.reconciling import INTERRUPTED, next_in_line
from rft.platform.rehearsals.repository import RehearsalRepository, RehearsalRow
from rft.platform.rehearsals.sample import BadSample, read_sample
from rft.platform.signing.run_secrets import whole_run_secrets
from rft.platform.store.bell import ring_all
from rft.platform.store.secret_box import SecretsUnreadable
from rft.platform.worker.workplace import Workplace
from rft.rollouts.rehearsal import rehearse
from rft.rollouts.rehearsal_report import RehearsalReport

_LOG = logging.getLogger(__name__)
_LOOK_S = 1.0
"""How soon a cancellation is seen; a rehearsal is short, so its lease may be renewed as often."""


class _CalledOff(Record):
    """Its customer cancelled it."""


class _Lost(Record):
    """The lease is somebody else's, or nobody's: nothing more is written."""


async def run_rehearsal(rehearsal_id: str, place: Workplace) -> str:
    """Run a queued rehearsal, if none other runs. Returns what came of it, for the log."""
    owner, ttl_s, asked_at = new_owner(), place.settings.lease_ttl_s, time.monotonic()
    async with place.database.transaction() as connection:
        taken = await RehearsalRepository(connection).take(rehearsal_id, owner=owner, ttl_s=ttl_s)
    if taken is None:
        return "not to be run now"
    row, lease = taken
    every_s = min(_LOOK_S, place.settings.heartbeat_s)
    async with Heartbeat(place.database, lease, ttl_s, every_s, asked_at, on_lost=lambda: None) as beat:
        outcome = await _Run(place, row, beat).execute()
    async with place.database.transaction() as connection:
        rehearsals = RehearsalRepository(connection)
        match outcome:
            case RehearsalReport():
                await rehearsals.complete(lease, outcome)
            case JobError():
                await rehearsals.fail(lease, outcome)
            case _CalledOff():
                await rehearsals.call_off(lease)
            case _Lost():
                return "lease lost"
        bells = await next_in_line(connection)
    await ring_all(bells, place.ringer)
    match outcome:
        case RehearsalReport():
            return "completed"
        case JobError():
            return f"failed: {outcome.code}"
        case _CalledOff():
            return "cancelled"


@dataclass(frozen=True, slots=True)
class _Run:
    """One rehearsal under one lease."""

    place: Workplace
    row: RehearsalRow
    beat: Heartbeat

    async def execute(self) -> RehearsalReport | JobError | _CalledOff | _Lost:
        """The report, or why there is none."""
        work = asyncio.create_task(self._rehearse())
        watch = asyncio.create_task(self._watch())
        try:
            await asyncio.wait((work, watch), return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else watch.result()
        except Exception as error:
            _LOG.exception("%s broke on our side", self.row.id)
            return JobError(code="internal_error", message=f"{type(error).__name__}: {error}")
        finally:
            for task in (work, watch):
                task.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)

    async def _rehearse(self) -> RehearsalReport | JobError:
        spec = to_spec(self.row, self.place.settings)
        try:
            secrets = await self._secrets()
            rows = await self._rows([tool.name for tool in spec.tools])
        except SecretsUnreadable as error:
            return JobError(code="secrets_unreadable", message=f"The header values cannot be read: {error}")
        except (BadSample, BytesMissing) as error:
            words = f"The file {self.row.training_file} cannot be used: {error}"
            return JobError(code="invalid_training_file", message=words, param="training_file")
        return await rehearse(rows, spec, self.row.plan, secrets)

    async def _secrets(self) -> RunSecrets:
        async with self.place.database.transaction() as connection:
            return await whole_run_secrets(connection, self.row.secrets, self.place.secret_box, self.place.settings)

    async def _rows(self, tools: list[str]) -> list[DatasetRow]:
        async with self.place.database.transaction() as connection:
            file = await FileRepository(connection).get_kept(self.row.training_file)
        if file is None:
            raise BadSample("it was deleted or has expired")
        return await read_sample(read_lines(file.storage_key, self.place.file_store), tools=tools)

    async def _watch(self) -> JobError | _CalledOff | _Lost:
        """Until the work is to stop; says why."""
        while True:
            await asyncio.sleep(self.beat.every_s)
            if self.place.is_stopping():
                return INTERRUPTED
            if self.beat.is_lost or self.beat.is_cancelled:
                return _Lost()
            if self.beat.action is RequestedAction.CANCEL:
                return _CalledOff()
