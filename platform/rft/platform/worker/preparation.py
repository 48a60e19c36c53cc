"""What stands between a job's row and its trainer: the run directory, the secrets, the files' rows."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.errors import RftError, RunPaused
from rft.core.hyperparameters import ResolvedHyperparameters
from rft.core.secret_urls import take_secret_urls
from rft.core.spec import RunSecrets, RunSpec
from rft.platform.files.repository import FileRepository, FileRow
from rft.platform.jobs.model_names import final_model_name
from rft.platform.jobs.repository import JobRepository, JobRow
from rft.platform.jobs.run_spec import to_run_spec
from rft.platform.lifecycle.heartbeat import Heartbeat
from rft.platform.lifecycle.lease import Lease, lock_row
from rft.platform.lifecycle.records import JobError
from rft.platform.orders.devices import CODE as DEVICES
from rft.platform.orders.devices import devices_problem, staleness_problem
from rft.platform.orders.rollout_workers import CODE as ROLLOUT_WORKERS
from rft.platform.orders.rollout_workers import policy_pin_problem, rollout_workers_problem
from rft.platform.settings import Settings
from rft.platform.signing.run_secrets import whole_run_secrets
from rft.platform.store.file_store import BytesMissing, read_lines
from rft.platform.store.secret_box import SecretsUnreadable
from rft.platform.worker.context import WorkerContext
from rft.platform.worker.event_log import EventLog
from rft.platform.worker.grader_metrics import grader_labels
from rft.platform.worker.ingest import Ingest
from rft.platform.worker.trainer_run import TrainerRun
from rft.run_directory import layout
from rft.run_directory.files import has_rows, make_folder, write_rows, write_spec


class CannotRun(RftError):
    """The job can never run as it is; carries the error its object will show."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.error = JobError(code=code, message=message, param=param)


@dataclass(frozen=True, slots=True)
class Preparation:
    """Makes one job's trainer ready, under its lease."""

    context: WorkerContext
    lease: Lease
    beat: Heartbeat

    async def trainer_run(self) -> TrainerRun:
        """The run directory is complete, and its trainer can be launched. Raises CannotRun, RunPaused and LeaseLost."""
        settings = self.context.settings
        loaded = await self.beat.write(self._load)
        job, resolved = loaded.job, loaded.job.resolved
        if resolved is None:
            raise CannotRun("not_validated", "The job's files were never validated.")
        problem = rollout_workers_problem(settings) or policy_pin_problem(settings, resolved.policy_pin)
        if problem is not None:
            raise CannotRun(ROLLOUT_WORKERS, problem)
        problem = devices_problem(settings) or staleness_problem(settings, resolved.max_staleness)
        if problem is not None:
            raise CannotRun(DEVICES, problem)
        own = await self._secrets(job)
        spec, secrets = spec_and_secrets(job, resolved, own, settings, slot=self.lease.slot)
        folder = settings.runs_dir / job.id
        make_folder(folder)
        write_spec(folder, spec)
        if not has_rows(folder):
            await self._write_rows(folder, loaded)
        name = final_model_name(
            base_model=job.model, organization=settings.organization, suffix=job.suffix, job_id=job.id
        )
        return TrainerRun(
            settings=settings,
            folder=folder,
            base_model=Path(spec.base_model),
            secrets=secrets,
            beat=self.beat,
            ingest=Ingest(self.lease, grader_labels(spec.grader), name, tuple(tool.name for tool in spec.tools)),
            log=EventLog(folder / layout.EVENTS),
            is_stopping=self.context.is_stopping,
            endpoints_version=job.endpoints_version,
            highest_step=-1 if job.current_step is None else job.current_step,
        )

    async def _load(self, connection: AsyncConnection[TupleRow]) -> "_Loaded":
        await lock_row(connection, self.lease)
        job = await JobRepository(connection).get(self.lease.id)
        assert job is not None, "its row is held"
        files = FileRepository(connection)
        return _Loaded(job, {param: await files.get_kept(file_id) for param, file_id in job.files})

    async def _write_rows(self, folder: Path, loaded: "_Loaded") -> None:
        rows: dict[str, AsyncIterator[bytes]] = {}
        for param, file_id in loaded.job.files:
            file = loaded.files[param]
            if file is None:
                raise CannotRun("file_not_found", f"File {file_id} was deleted or has expired.", param)
            rows[param] = read_lines(file.storage_key, self.context.file_store)
        try:
            await write_rows(folder, rows["training_file"], rows.get("validation_file"), rows.get("test_file"))
        except BytesMissing as error:
            raise CannotRun("file_not_found", f"The content of a file of this job is gone: {error}") from error

    async def _secrets(self, job: JobRow) -> RunSecrets:
        box, settings = self.context.secret_box, self.context.settings
        try:
            return await self.beat.write(lambda connection: whole_run_secrets(connection, job.secrets, box, settings))
        except SecretsUnreadable as error:
            message = (
                f"The secrets of this job cannot be read: {error}. Add that key to `secret.key` in RFT_HOME as a"
                " further line: what was ordered since then was sealed with the one that is there."
            )
            raise RunPaused("secrets_unreadable", message) from error


def spec_and_secrets(
    job: JobRow, resolved: ResolvedHyperparameters, own: RunSecrets, settings: Settings, *, slot: int = 0
) -> tuple[RunSpec, RunSecrets]:
    """What is written down for the job's trainer, and what it is handed beside it. `slot`: of the host's."""
    ordered = to_run_spec(
        job, resolved, settings, job.base_model_path, job.chat, max_importance_gap=job.max_importance_gap, slot=slot
    )
    # The URLs of a job that an earlier release stored may still hold their secrets.
    tools, grader, secrets = take_secret_urls(ordered.tools, ordered.grader, own)
    return ordered.model_copy(update={"tools": tools, "grader": grader}), secrets


@dataclass(frozen=True, slots=True)
class _Loaded:
    job: JobRow
    files: dict[str, FileRow | None]
    """By the fields of the order; None for one that is gone."""
