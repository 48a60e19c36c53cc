"""Validating a job's files: every line is read before anything expensive starts."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.base import JsonObject
from rft.core.dataset import MAX_TRAIN_ROWS, MAX_VALID_ROWS
from rft.core.dataset_report import DatasetCheck
from rft.core.job import JobStatus
from rft.platform.files.repository import FileRepository, FileRow
from rft.platform.jobs.repository import JobRepository, JobRow
from rft.platform.jobs.run_spec import context_limit, resolved, to_lora
from rft.platform.lifecycle.ending import cancel_unleased, fail
from rft.platform.lifecycle.events import add_event, notify, validating_message
from rft.platform.lifecycle.heartbeat import Heartbeat
from rft.platform.lifecycle.job_lease import release, take_for_validation
from rft.platform.lifecycle.lease import Cancelled, Lease, LeaseLost, lock_row
from rft.platform.lifecycle.owner import new_owner
from rft.platform.lifecycle.records import JobError
from rft.platform.lifecycle.run_repository import RunRepository
from rft.platform.orders.base_model_config import context_tokens, has_one_version
from rft.platform.orders.base_models import chat_of_job
from rft.platform.orders.schemas import Method, Reinforcement
from rft.platform.orders.tool_schemas import Tool
from rft.platform.queue.messages import RUN_JOB, TaskMessage
from rft.platform.queue.publishing import enqueue_all
from rft.platform.rehearsals.auto_staleness import auto_staleness
from rft.platform.store.file_store import BytesMissing
from rft.platform.worker.context import NOT_TO_BE_VALIDATED, WorkerContext
from rft.platform.worker.dataset_findings import FileRead, dataset_error, dataset_warnings
from rft.platform.worker.model_size import model_parameters
from rft.platform.worker.plan_message import evaluation_burst, plan_message

_LOG = logging.getLogger(__name__)
_UNMEASURED = (
    "The model's context is not known here (its configuration is not on this machine): no row was measured against it."
    " The trainer counts exactly, leaves out the rows that do not fit, and names them"
)


async def validate_job(job_id: str, context: WorkerContext) -> str:
    """Validate the job's files, then queue it or fail it. Returns what came of it, for the log."""
    async with context.database.transaction() as connection:
        if await cancel_unleased(connection, job_id):
            return "cancelled"
    asked_at, settings = time.monotonic(), context.settings
    async with context.database.connection() as connection:
        lease = await take_for_validation(connection, job_id, owner=new_owner(), ttl_s=settings.lease_ttl_s)
    if lease is None:
        return NOT_TO_BE_VALIDATED
    beat = Heartbeat(
        context.database, lease, settings.lease_ttl_s, settings.heartbeat_s, asked_at, on_lost=lambda: None
    )
    try:
        async with beat:
            return await Validation(context, lease, beat).execute()
    except Cancelled:
        return "cancelled"
    except LeaseLost as error:
        _LOG.warning("%s: %s", job_id, error)
        return "lease lost"


@dataclass(frozen=True, slots=True)
class Validation:
    """One job's files under one lease."""

    context: WorkerContext
    lease: Lease
    beat: Heartbeat

    async def execute(self) -> str:
        """Read the files and write down the result. Raises LeaseLost."""
        if self._takes > self.context.settings.max_launches_without_progress:
            return await self._give_up(self._takes - 1, "the worker ended in the middle of it")
        try:
            return await self._validate()
        except LeaseLost:
            raise
        except Exception as error:
            # Whatever broke here (a store that is away, a bug of ours) must not leave the job waiting without a word.
            _LOG.exception("%s: its files were not validated", self.lease.id)
            return await self._broke(f"{type(error).__name__}: {error}")

    async def _broke(self, reason: str) -> str:
        """Fail the job, or tell that it is tried again: by whoever takes it once this lease has ended."""
        if self._takes < self.context.settings.max_launches_without_progress:
            await self.beat.write(lambda connection: self._tell_again(connection, reason))
            return "to be validated again"
        return await self._give_up(self._takes, reason)

    @property
    def _takes(self) -> int:
        """How many workers took it: a job that was never queued was taken for nothing else."""
        return self.lease.token

    async def _give_up(self, times: int, reason: str) -> str:
        message = f"The files of the job could not be validated, {times} times. The last time: {reason}"
        error = JobError(code="internal_error", message=message)
        await self.beat.write(lambda connection: fail(connection, self.lease, error, key="files"))
        self.beat.is_over = True
        return "failed"

    async def _tell_again(self, connection: AsyncConnection[TupleRow], reason: str) -> None:
        await lock_row(connection, self.lease)
        message = f"The files could not be validated: {reason}\nIt is tried again."
        data: JsonObject = {"code": "files_not_validated"}
        key = f"not-validated:{self.lease.token}"
        await add_event(connection, self.lease.id, message, level="warn", data=data, key=key)
        await notify(connection, self.lease.id)

    async def _validate(self) -> str:
        job, rows = await self.beat.write(self._load)
        order = Method.model_validate(job.method).reinforcement
        tools = order.tools or []
        limit = context_limit(order, job.chat or chat_of_job(job.model, self.context.settings))
        context = await asyncio.to_thread(context_tokens, job.base_model_path, limit)
        parameters = await asyncio.to_thread(model_parameters, job.base_model_path)
        files = [
            await self._read(param, file_id, rows[param], self._new_check(max_rows(param), tools, context))
            for param, file_id in job.files
        ]
        error = dataset_error(files)
        if error is not None:
            await self.beat.write(lambda connection: fail(connection, self.lease, error, key="files"))
            self.beat.is_over = True
            return "failed"
        await self.beat.write(lambda connection: self._queue(connection, job, order, files, context, parameters))
        self.beat.is_over = True
        await enqueue_all([TaskMessage(RUN_JOB, job.id)], self.context.enqueuer)
        return "queued"

    def _new_check(self, max_rows: int, tools: Sequence[Tool], context: int | None) -> DatasetCheck:
        # A job without tools grades the calls themselves, whatever its rows describe.
        return DatasetCheck(max_rows=max_rows, registered=[tool.name for tool in tools] or None, context_tokens=context)

    async def _load(self, connection: AsyncConnection[TupleRow]) -> tuple[JobRow, dict[str, FileRow | None]]:
        await lock_row(connection, self.lease)
        job = await JobRepository(connection).get(self.lease.id)
        assert job is not None, "its row is held"
        await add_event(connection, job.id, validating_message(job.files), key="validating")
        await notify(connection, job.id)
        files = FileRepository(connection)
        return job, {param: await files.get_kept(file_id) for param, file_id in job.files}

    async def _read(self, param: str, file_id: str, file: FileRow | None, check: DatasetCheck) -> FileRead:
        """Raises LeaseLost and BytesUnreadable."""
        if file is None:
            return FileRead(param, file_id, check, None)
        read = 0
        try:
            async for chunk in await self.context.file_store.open(file.storage_key):
                self.beat.check()
                read += len(chunk)
                await asyncio.to_thread(check.feed, chunk)
                if check.is_over:
                    return FileRead(param, file_id, check, check.end())
        except BytesMissing as error:
            _LOG.error("%s: %s", self.lease.id, error)
            return FileRead(param, file_id, check, None)
        damage = None if read == file.bytes else f"{read} bytes are stored of the {file.bytes} that were uploaded"
        return FileRead(param, file_id, check, check.end(), damage)

    async def _queue(
        self,
        connection: AsyncConnection[TupleRow],
        job: JobRow,
        order: Reinforcement,
        files: list[FileRead],
        context: int | None,
        parameters: int | None,
    ) -> None:
        job_id, record = self.lease.id, RunRepository(connection, self.lease)
        await record.lock()
        rows = {file.param: file.report.rows for file in files if file.report is not None}
        train_rows = rows["training_file"]
        adapter = {"lora": to_lora(order, job.model, self.context.settings), "max_context_tokens": context}
        chosen = resolved(order, train_rows=train_rows, parameters=parameters)
        if order.hyperparameters.max_staleness == "auto":
            suiting = await auto_staleness(
                connection,
                self.context.settings,
                method=job.method,
                model=job.model,
                rollouts=chosen.rollouts_per_step,
                has_one_version=has_one_version(job.base_model_path, self.context.settings.engine),
            )
            chosen = resolved(order, train_rows=train_rows, parameters=parameters, auto_staleness=suiting.max_staleness)
            await add_event(connection, job_id, suiting.message, data={"code": "auto_staleness"}, key="plan:staleness")
        plan = chosen.model_copy(update=adapter)
        await record.set_plan(plan)
        for warning in dataset_warnings(files, order, context):
            await add_event(
                connection, job_id, warning.message, level="warn", data=warning.data, key=f"dataset:{warning.key}"
            )
        if context is None:
            await add_event(connection, job_id, _UNMEASURED, data={"code": "context_unknown"}, key="dataset:context")
        await add_event(connection, job_id, "Files validated, moving job to queued state", key="validated")
        await add_event(
            connection,
            job_id,
            plan_message(plan, rows),
            data={
                "resolved": plan.model_dump(mode="json"),
                "burst": plan.burst,
                "evaluation_burst": evaluation_burst(plan, rows),
            },
            key="plan",
        )
        await release(connection, self.lease, JobStatus.QUEUED)


def max_rows(param: str) -> int:
    """Of the file in this field of an order."""
    return MAX_TRAIN_ROWS if param == "training_file" else MAX_VALID_ROWS
