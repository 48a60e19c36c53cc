"""Runs one rehearsal in a worker, under a lease. What becomes of it is always written, by us or by the reconciler."""

import asyncio
import logging
import time
from dataclasses import dataclass

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.spec import RunSecrets
from rft.platform.files.repository import FileRepository, FileRow
from rft.platform.lifecycle.heartbeat import Heartbeat
from rft.platform.lifecycle.lease import LeaseLost, RequestedAction
from rft.platform.lifecycle.owner import new_owner
from rft.platform.lifecycle.records import JobError
from rft.platform.queue.messages import TaskMessage
from rft.platform.queue.publishing import enqueue_all
from rft.platform.rehearsals.planning import to_spec
from rft.platform.rehearsals.reconciling import INTERRUPTED, next_in_line
from rft.platform.rehearsals.repository import Ended, RehearsalRepository, RehearsalRow
from rft.platform.rehearsals.sample import BadSample, read_sample
from rft.platform.signing.run_secrets import whole_run_secrets
from rft.platform.store.file_store import BytesMissing, read_lines
from rft.platform.store.secret_box import SecretsUnreadable
from rft.platform.store.stop_tasks import stop_tasks
from rft.platform.worker.context import NOT_TO_BE_RUN, WorkerContext
from rft.rollouts.rehearsal import rehearse

_LOG = logging.getLogger(__name__)
_LOOK_S = 1.0
"""How soon a cancellation is seen; a rehearsal is short, so its lease may be renewed as often."""


async def run_rehearsal(rehearsal_id: str, context: WorkerContext) -> str:
    """Run a queued rehearsal, if none other runs. Returns what came of it, for the log."""
    owner, ttl_s, asked_at = new_owner(), context.settings.lease_ttl_s, time.monotonic()
    async with context.database.transaction() as connection:
        taken = await RehearsalRepository(connection).take(rehearsal_id, owner=owner, ttl_s=ttl_s)
    if taken is None:
        return NOT_TO_BE_RUN
    row, lease = taken
    every_s = min(_LOOK_S, context.settings.heartbeat_s)
    async with Heartbeat(context.database, lease, ttl_s, every_s, asked_at, on_lost=lambda: None) as beat:
        ended = await _Run(context, row, beat).execute()
        if ended is None:
            return "lease lost"

        async def end(connection: AsyncConnection[TupleRow]) -> list[TaskMessage]:
            await RehearsalRepository(connection).end(lease, ended)
            return await next_in_line(connection)

        try:
            messages = await beat.write(end)
        except LeaseLost:
            return "lease lost"
        beat.is_over = True
    await enqueue_all(messages, context.enqueuer)
    return ended.status if ended.error is None else f"{ended.status}: {ended.error.code}"


@dataclass(frozen=True, slots=True)
class _Run:
    """One rehearsal under one lease."""

    context: WorkerContext
    row: RehearsalRow
    beat: Heartbeat

    async def execute(self) -> Ended | None:
        """The report, or why there is none; None when the lease is lost and nothing more is written."""
        work, stop = asyncio.create_task(self._rehearse()), asyncio.create_task(self._until_stopped())
        try:
            await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else stop.result()
        except LeaseLost:
            return None
        except (BadSample, BytesMissing) as error:
            message = f"The file {self.row.training_file} cannot be used: {error}"
            return _failed("invalid_training_file", message, "training_file")
        except SecretsUnreadable as error:
            return _failed("secrets_unreadable", f"The header values cannot be read: {error}")
        except Exception as error:
            _LOG.exception("%s broke on our side", self.row.id)
            return _failed("internal_error", f"{type(error).__name__}: {error}")
        finally:
            await stop_tasks(work, stop)

    async def _rehearse(self) -> Ended:
        row, context = self.row, self.context
        spec = to_spec(row, context.settings)

        async def load(connection: AsyncConnection[TupleRow]) -> tuple[RunSecrets, FileRow | None]:
            secrets = await whole_run_secrets(connection, row.secrets, context.secret_box, context.settings)
            return secrets, await FileRepository(connection).get_kept(row.training_file)

        secrets, file = await self.beat.write(load)
        if file is None:
            raise BadSample("it was deleted or has expired")
        tools = [tool.name for tool in spec.tools]
        rows = await read_sample(read_lines(file.storage_key, context.file_store), tools=tools)
        return Ended("completed", report=await rehearse(rows, spec, row.plan, secrets))

    async def _until_stopped(self) -> Ended | None:
        """Until the work is to stop; says how it ends then."""
        while True:
            await asyncio.sleep(self.beat.every_s)
            if self.context.is_stopping():
                return Ended("failed", error=INTERRUPTED)
            if self.beat.is_lost or self.beat.is_cancelled:
                return None
            if self.beat.action is RequestedAction.CANCEL:
                return Ended("cancelled")


def _failed(code: str, message: str, param: str | None = None) -> Ended:
    return Ended("failed", error=JobError(code=code, message=message, param=param))
