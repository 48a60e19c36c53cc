"""Validating a job's files: every line is read before anything expensive starts."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from rft.core.dataset import RowProblem, parse_row
from rft.core.job import JobStatus
from rft.core.spec import Hyperparameters, ResolvedHyperparameters, resolve
from rft.platform.files.repository import FileRepository, FileRow
from rft.platform.files.storage import BytesMissing, read_lines
from rft.platform.jobs.repository import JobError, JobRepository, JobRow
from rft.platform.jobs.schemas import Method
from rft.platform.store.bell import RUN_JOB, Bell, ring_all
from rft.platform.worker.ending import cancel_unheld, fail
from rft.platform.worker.heartbeat import Heartbeat
from rft.platform.worker.job_events import add_event
from rft.platform.worker.lease import Lease, LeaseLost, hold_row, notify, release, take_for_validation
from rft.platform.worker.owner import new_owner
from rft.platform.worker.workplace import Workplace

_LOG = logging.getLogger(__name__)
_SHOWN_PROBLEMS = 20
_LINES_PER_BREATH = 200


@dataclass(slots=True)
class FileReport:
    """What one file holds."""

    rows: int = 0
    problems: int = 0
    shown: list[RowProblem] = field(default_factory=list[RowProblem])
    """The first of the problems."""
    tools: dict[str, int] = field(default_factory=dict[str, int])
    """Tools that rows describe, each with the first line that does."""

    def add(self, problem: RowProblem) -> None:
        """Count a problem; only the first ones are kept."""
        self.problems += 1
        if len(self.shown) < _SHOWN_PROBLEMS:
            self.shown.append(problem)


async def validate_job(job_id: str, place: Workplace) -> str:
    """Validate the job's files, then queue it or fail it. Returns what came of it, for the log."""
    async with place.database.transaction() as connection:
        if await cancel_unheld(connection, job_id):
            return "cancelled"
    asked_at, settings = time.monotonic(), place.settings
    async with place.database.connection() as connection:
        lease = await take_for_validation(connection, job_id, owner=new_owner(), ttl_s=settings.lease_ttl_s)
    if lease is None:
        return "not to be validated"
    beat = Heartbeat(place.database, lease, settings.lease_ttl_s, settings.heartbeat_s, asked_at, on_lost=lambda: None)
    try:
        async with beat:
            return await Validation(place, lease, beat).execute()
    except LeaseLost as error:
        _LOG.warning("%s: %s", job_id, error)
        return "lease lost"


@dataclass(frozen=True, slots=True)
class Validation:
    """One job's files under one lease."""

    place: Workplace
    lease: Lease
    beat: Heartbeat

    async def execute(self) -> str:
        """Read both files and write down the result. Raises LeaseLost."""
        job, training, validation = await self.beat.write(self._load)
        registered = [tool.name for tool in Method.model_validate(job.method).reinforcement.tools or []]
        reports: list[FileReport] = []
        for param, file, file_id in (
            ("training_file", training, job.training_file),
            ("validation_file", validation, job.validation_file),
        ):
            if file_id is None:
                continue
            report = await self._read(file, registered)
            error = _error(param, file_id, report)
            if error is not None:
                await self.beat.write(lambda connection, error=error: fail(connection, self.lease, error, key="files"))
                self.beat.is_over = True
                return "failed"
            assert report is not None, "a file without a report is an error"
            reports.append(report)
        resolved = resolve(_wanted(job), train_rows=reports[0].rows)
        unused = [name for name in registered if not any(name in report.tools for report in reports)]
        await self.beat.write(lambda connection: self._queue(connection, resolved, reports, unused))
        self.beat.is_over = True
        await ring_all([Bell(RUN_JOB, job.id)], self.place.ringer)
        return "queued"

    async def _load(self, connection: AsyncConnection[TupleRow]) -> tuple[JobRow, FileRow | None, FileRow | None]:
        await hold_row(connection, self.lease)
        job = await JobRepository(connection).get(self.lease.job_id)
        assert job is not None, "its row is held"
        also = "" if job.validation_file is None else f" and validation file: {job.validation_file}"
        await add_event(connection, job.id, f"Validating training file: {job.training_file}{also}", key="validating")
        await notify(connection, job.id)
        files = FileRepository(connection)
        validation = None if job.validation_file is None else await files.get(job.validation_file)
        return job, await files.get(job.training_file), validation

    async def _read(self, file: FileRow | None, registered: list[str]) -> FileReport | None:
        """None when the file is gone. Raises LeaseLost."""
        if file is None:
            return None
        try:
            return await self._check(read_lines(file.storage_key, self.place.file_store), registered)
        except BytesMissing as error:
            _LOG.error("%s: %s", self.lease.job_id, error)
            return None

    async def _check(self, lines: AsyncIterator[bytes], registered: list[str]) -> FileReport:
        report, number = FileReport(), 0
        async for line in lines:
            number += 1
            if number % _LINES_PER_BREATH == 0:
                self.beat.check()
                await asyncio.sleep(0)
            if not line.strip():
                continue
            row = parse_row(line, line_number=number, index=report.rows)
            if isinstance(row, RowProblem):
                report.add(row)
                continue
            report.rows += 1
            for position, tool in enumerate(row.tools):
                report.tools.setdefault(tool.name, number)
                if tool.name not in registered:
                    report.add(_unregistered(number, position, tool.name, registered))
        return report

    async def _queue(
        self,
        connection: AsyncConnection[TupleRow],
        resolved: ResolvedHyperparameters,
        reports: list[FileReport],
        unused: list[str],
    ) -> None:
        job_id = self.lease.job_id
        await hold_row(connection, self.lease)
        await connection.execute(
            "update jobs set resolved = %s, total_steps = %s, rung_at = clock_timestamp()"
            " where id = %s and lease_token = %s",
            (Jsonb(resolved.model_dump(mode="json")), resolved.steps, job_id, self.lease.token),
        )
        if unused:
            names = ", ".join(unused)
            message = f"No row describes these tools of the job, so the model will not know of them: {names}"
            await add_event(connection, job_id, message, level="warn", data={"unused_tools": [*unused]}, key="unused")
        await add_event(connection, job_id, "Files validated, moving job to queued state", key="validated")
        await add_event(
            connection,
            job_id,
            _plan(resolved, [report.rows for report in reports]),
            data={"resolved": resolved.model_dump(mode="json"), "burst": resolved.burst},
            key="plan",
        )
        await release(connection, self.lease, JobStatus.QUEUED)


def _wanted(job: JobRow) -> Hyperparameters:
    written = Method.model_validate(job.method).reinforcement.hyperparameters
    return Hyperparameters.model_validate(written.model_dump(include=set(Hyperparameters.model_fields)))


def _plan(resolved: ResolvedHyperparameters, rows: list[int]) -> str:
    validation = f" and {rows[1]} validation rows, evaluated every {resolved.eval_interval}" if len(rows) > 1 else ""
    return (
        f"{resolved.steps} steps over {rows[0]} training rows{validation}:"
        f" each step starts {resolved.burst} rollouts at once"
        f" ({resolved.batch_size} rows x {resolved.group_size} rollouts);"
        " this is the load your tools and grader must bear"
    )


def _unregistered(line: int, position: int, name: str, registered: list[str]) -> RowProblem:
    known = ", ".join(registered) or "none"
    return RowProblem(
        line=line,
        path=f"tools[{position}].function.name",
        reason=f"{name!r} is not among the job's tools ({known})",
    )


def _error(param: str, file_id: str, report: FileReport | None) -> JobError | None:
    """None when the file can be used."""
    code = f"invalid_{param}"
    if report is None:
        return JobError(code=code, message=f"File {file_id} was deleted or has expired.", param=param)
    if report.problems:
        shown = "\n".join(str(problem) for problem in report.shown)
        more = report.problems - len(report.shown)
        rest = f"\nand {more} more" if more else ""
        noun = "problem" if report.problems == 1 else "problems"
        message = f"File {file_id} has {report.problems} {noun}:\n{shown}{rest}"
        return JobError(code=code, message=message, param=param)
    if report.rows == 0:
        return JobError(code=code, message=f"File {file_id} holds no rows.", param=param)
    return None
