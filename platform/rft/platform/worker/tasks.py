"""The tasks of the Celery application. They ack early, and the row that a message names decides what they do."""

import asyncio
import logging
import mmap
from collections.abc import Awaitable, Callable

from celery import bootsteps
from celery.signals import worker_init, worker_ready, worker_shutting_down

from rft.platform.lifecycle.job_lease import Refusal
from rft.platform.orders.devices import nvidia_gpus, shared_gpu_warning
from rft.platform.queue.celery_app import NoServer, app
from rft.platform.queue.messages import QUEUES, REHEARSE, RUN_EVAL, RUN_JOB, VALIDATE_JOB
from rft.platform.settings import Settings, settings
from rft.platform.store.database import Database
from rft.platform.store.file_store import default_store
from rft.platform.store.secret_box import SecretBox
from rft.platform.worker.context import NOT_TO_BE_RUN, NOT_TO_BE_VALIDATED, WorkerContext
from rft.platform.worker.per_process_limits import limits_warning
from rft.platform.worker.run_eval import run_eval
from rft.platform.worker.run_job import run_job
from rft.platform.worker.run_rehearsal import run_rehearsal
from rft.platform.worker.validate_job import validate_job
from rft.run_directory.files import redact_specs

_LOG = logging.getLogger(__name__)
_CONTROL_SLOTS = 2
_NOTHING_DONE = {*Refusal, NOT_TO_BE_RUN, NOT_TO_BE_VALIDATED}
for _celery in ("celery.worker.strategy", "celery.app.trace"):
    # They tell of each message twice at level INFO, and a job that waits for a slot has one every few seconds.
    logging.getLogger(_celery).setLevel(logging.WARNING)
_is_shutting_down = mmap.mmap(-1, 1)
"""One byte shared by the worker and its forked children: a warm shutdown tells the children nothing by itself."""


def worker_arguments(wanted: Settings) -> list[str]:
    """Arguments of `python -m celery` for a worker that serves both queues of this host."""
    return [
        *("--app", "rft.platform.worker.tasks", "worker"),
        *("--queues", ",".join(sorted(set(QUEUES.values())))),
        # A message for a job that cannot run now must not wait behind one that trains, or an eval that runs, for hours.
        *("--concurrency", str(wanted.train_slots + wanted.eval_slots + _CONTROL_SLOTS)),
        *("--loglevel", wanted.log_level, "--without-gossip", "--without-mingle"),
    ]


@worker_init.connect
def _redact_earlier_specs(**_: object) -> None:  # pyright: ignore[reportUnusedFunction]
    redact_specs(settings().runs_dir)


@worker_ready.connect
def _warn(**_: object) -> None:  # pyright: ignore[reportUnusedFunction]
    wanted = settings()
    for warning in (limits_warning(wanted), shared_gpu_warning(wanted, nvidia_gpus())):
        if warning is not None:
            _LOG.warning("%s", warning)


@worker_shutting_down.connect
def _tell_children(**_: object) -> None:  # pyright: ignore[reportUnusedFunction]
    _is_shutting_down[0] = 1


class _TellChildrenOfAnyEnd(bootsteps.StartStopStep):  # pyright: ignore[reportUntypedBaseClass]
    """An error that ends the worker sends no signal, and the worker waits for its children's tasks all the same."""

    def close(self, parent: object) -> None:
        """Called before the wait."""
        _is_shutting_down[0] = 1


app.steps["worker"].add(_TellChildrenOfAnyEnd)  # pyright: ignore[reportOptionalSubscript]


@app.task(name=VALIDATE_JOB)  # pyright: ignore[reportUntypedFunctionDecorator]
def validate(job_id: str) -> str:
    """Validate a job's files."""
    return _work(VALIDATE_JOB, job_id, lambda context: validate_job(job_id, context))


@app.task(name=RUN_JOB)  # pyright: ignore[reportUntypedFunctionDecorator]
def run(job_id: str) -> str:
    """Run a job for as long as it takes."""
    return _work(RUN_JOB, job_id, lambda context: run_job(job_id, context))


@app.task(name=REHEARSE)  # pyright: ignore[reportUntypedFunctionDecorator]
def rehearse(rehearsal_id: str) -> str:
    """Rehearse a step's burst."""
    return _work(REHEARSE, rehearsal_id, lambda context: run_rehearsal(rehearsal_id, context))


@app.task(name=RUN_EVAL)  # pyright: ignore[reportUntypedFunctionDecorator]
def evaluate(run_id: str) -> str:
    """Run an eval for as long as it takes."""
    return _work(RUN_EVAL, run_id, lambda context: run_eval(run_id, context))


def _work(name: str, row_id: str, task: Callable[[WorkerContext], Awaitable[str]]) -> str:
    outcome = asyncio.run(_at_work(task))
    if outcome not in _NOTHING_DONE:
        _LOG.info("%s of %s: %s", name, row_id, outcome)
    return outcome


async def _at_work(task: Callable[[WorkerContext], Awaitable[str]]) -> str:
    wanted = settings()
    if wanted.database_url is None:
        raise NoServer("DATABASE_URL is not set; `rft up` sets it for the processes it starts")
    async with Database(wanted.database_url, max_connections=4) as database:
        context = WorkerContext(
            settings=wanted,
            database=database,
            file_store=default_store(),
            secret_box=SecretBox.at(wanted.home),
            is_stopping=lambda: _is_shutting_down[0] == 1,
        )
        return await task(context)
