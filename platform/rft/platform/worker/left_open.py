"""When no trainer of a job will come any more: customers' servers are told the ends that its trainers left open."""

import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rft.core.spec import RunSecrets
from rft.platform.child_process import exit_message, launch
from rft.platform.jobs.repository import JobRepository
from rft.platform.lifecycle.repository import LifecycleRepository
from rft.platform.signing.run_secrets import whole_run_secrets
from rft.platform.worker.context import WorkerContext
from rft.platform.worker.preparation import spec_and_secrets
from rft.run_directory import layout
from rft.run_directory.files import has_open_rollouts, write_spec

_LOG = logging.getLogger(__name__)
_LOOK_S = 0.2
_TELLING_S = 90.0
"""How long it may take: more than the process that tells them gives itself."""


async def tell_left_open(job_id: str, context: WorkerContext, secrets: RunSecrets | None = None) -> None:
    """Needs no lease: the run directory has a lock of its own. Never raises: what is left is told later (`left_open`).

    `secrets`: what the job's last trainer was handed; None: as they are in the job's row now, with its endpoints.
    """
    folder = context.settings.runs_dir / job_id
    try:
        if has_open_rollouts(folder):
            await _tell(folder, secrets or await _prepare(job_id, context, folder), context.is_stopping)
        if folder.is_dir() and not has_open_rollouts(folder):
            async with context.database.transaction() as connection:
                await LifecycleRepository(connection).mark_ends_told(job_id)
    except Exception:
        _LOG.exception("%s: the ends of its rollouts were not told", job_id)


async def _prepare(job_id: str, context: WorkerContext, folder: Path) -> RunSecrets:
    async with context.database.transaction() as connection:
        job = await JobRepository(connection).get(job_id)
        assert job is not None
        assert job.resolved is not None, "it was launched"
        own = await whole_run_secrets(connection, job.secrets, context.secret_box, context.settings)
    spec, secrets = spec_and_secrets(job, job.resolved, own, context.settings)
    write_spec(folder, spec)
    return secrets


async def _tell(folder: Path, secrets: RunSecrets, is_stopping: Callable[[], bool]) -> None:
    child = await launch(
        [sys.executable, "-m", "rft.trainer.tell_left_open", str(folder)],
        log=folder / layout.LOG,
        stdin=secrets.model_dump_json().encode(),
    )
    give_up_at = time.monotonic() + _TELLING_S
    try:
        while child.returncode is None and time.monotonic() < give_up_at and not is_stopping():
            await child.wait(_LOOK_S)
    finally:
        child.kill()
        await child.process.wait()
    if child.returncode != 0:
        ended = exit_message(child.returncode)
        _LOG.warning("%s: not every end of a rollout was told: their teller %s", folder.name, ended)
