"""Runs one rehearsal in a worker, under a lease. What becomes of it is always written, by us or by the reconciler."""

import asyncio
import logging
import time
from dataclasses import dataclass

import psycopg
from psycopg_pool import PoolTimeout

from rft.core.base import Record
from rft.core.dataset import DatasetRow
from rft.core.spec import RunSecrets
from rft.platform.files.repository import FileRepository
from rft.platform.files.storage import BytesMissing, read_lines
from rft.platform.jobs.repository import JobError
from rft.platform.jobs.schemas import Method
from rft.platform.rehearsals.planning import to_spec
from rft.platform.rehearsals.reconciling import INTERRUPTED, next_in_line
from rft.platform.rehearsals.repository import RehearsalRepository, RehearsalRow
from rft.platform.rehearsals.sample import BadSample, read_sample
from rft.platform.signing.run_secrets import whole_run_secrets
from rft.platform.store.bell import ring_all
from rft.platform.store.secret_box import SecretsUnreadable
from rft.platform.worker.owner import new_owner
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
    owner, ttl_s = new_owner(), place.settings.lease_ttl_s
    async with place.database.transaction() as connection:
        row = await RehearsalRepository(connection).take(rehearsal_id, owner=owner, ttl_s=ttl_s)
    if row is None:
        return "not to be run now"
    outcome = await _Run(place, row, owner).execute()
    async with place.database.transaction() as connection:
        rehearsals = RehearsalRepository(connection)
        match outcome:
            case RehearsalReport():
                await rehearsals.complete(row.id, outcome, owner=owner)
            case JobError():
                await rehearsals.fail(row.id, outcome, owner=owner)
            case _CalledOff():
                await rehearsals.call_off(row.id, owner=owner)
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
    owner: str

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
        order, settings = Method.model_validate(self.row.method).reinforcement, self.place.settings
        try:
            secrets = await self._secrets()
            rows = await self._rows([tool.name for tool in order.tools or []])
        except SecretsUnreadable as error:
            return JobError(code="secrets_unreadable", message=f"The header values cannot be read: {error}")
        except (BadSample, BytesMissing) as error:
            words = f"The file {self.row.training_file} cannot be used: {error}"
            return JobError(code="invalid_training_file", message=words, param="training_file")
        spec = to_spec(self.row.id, self.row.seed, self.row.model, order, self.row.plan, settings)
        return await rehearse(rows, spec, secrets)

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
        """Keep the lease until the work is to stop, and say why."""
        settings = self.place.settings
        kept_s = time.monotonic()
        while True:
            await asyncio.sleep(min(_LOOK_S, settings.heartbeat_s))
            if self.place.is_stopping():
                return INTERRUPTED
            asked_s = time.monotonic()
            try:
                async with self.place.database.transaction() as connection:
                    rehearsals = RehearsalRepository(connection)
                    row = await rehearsals.renew(self.row.id, owner=self.owner, ttl_s=settings.lease_ttl_s)
                if row is None or row.is_cancel_requested:
                    return _Lost() if row is None else _CalledOff()
                kept_s = asked_s
            except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout) as error:
                _LOG.warning("%s: the lease could not be renewed: %s", self.row.id, error)
                if time.monotonic() - kept_s > settings.lease_ttl_s:
                    return _Lost()
