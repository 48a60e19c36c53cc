"""The Celery application. A message is only a bell: tasks ack early, and the job's row decides what they do."""

import asyncio
import logging
import mmap
from collections.abc import Awaitable, Callable

from celery import Celery
from celery.signals import worker_ready, worker_shutting_down

from rft.platform.files.storage import default_store
from rft.platform.rehearsals.runner import run_rehearsal
from rft.platform.settings import Settings, settings
from rft.platform.store.bell import QUEUES, REHEARSE, RUN_JOB, VALIDATE_JOB
from rft.platform.store.database import Database
from rft.platform.store.secret_box import SecretBox
from rft.platform.worker.per_process_limits import limits_warning
from rft.platform.worker.run_job import run_job
from rft.platform.worker.validate_job import validate_job
from rft.platform.worker.workplace import Workplace

_LOG = logging.getLogger(__name__)
_CONTROL_SLOTS = 2
_is_shutting_down = mmap.mmap(-1, 1)
"""One byte shared by the worker and its forked children: a warm shutdown tells the children nothing by itself."""


class NoServer(RuntimeError):
    """The process was started without the address of a server it needs."""


def configuration(wanted: Settings) -> dict[str, object]:
    """Celery's settings. Raises NoServer when there is no broker."""
    if wanted.broker_url is None:
        raise NoServer("BROKER_URL is not set; `rft up` sets it for the processes it starts")
    return {
        "broker_url": wanted.broker_url,
        "broker_transport_options": _transport_options(wanted.broker_url),
        "broker_connection_retry_on_startup": True,
        "task_ignore_result": True,
        "task_acks_late": False,
        "task_publish_retry": False,
        "task_routes": {name: {"queue": queue} for name, queue in QUEUES.items()},
        "task_default_queue": "control",
        "task_serializer": "json",
        "accept_content": ["json"],
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": _is_redis(wanted.broker_url),
        "worker_send_task_events": True,
        "task_send_sent_event": True,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
    }


def worker_arguments(wanted: Settings) -> list[str]:
    """Arguments of `python -m celery` for a worker that serves both queues of this host."""
    return [
        *("--app", "rft.platform.worker.app", "worker"),
        *("--queues", ",".join(sorted(set(QUEUES.values())))),
        # A bell for a job that cannot run now must not wait behind one that trains for hours.
        *("--concurrency", str(wanted.train_slots + _CONTROL_SLOTS)),
        *("--loglevel", wanted.log_level, "--without-gossip", "--without-mingle"),
    ]


app = Celery("rft", set_as_current=False)
app.add_defaults(lambda: configuration(settings()))


@worker_ready.connect
def _warn(**_: object) -> None:  # pyright: ignore[reportUnusedFunction]
    warning = limits_warning(settings())
    if warning is not None:
        _LOG.warning("%s", warning)


@worker_shutting_down.connect
def _tell_children(**_: object) -> None:  # pyright: ignore[reportUnusedFunction]
    _is_shutting_down[0] = 1


@app.task(name=VALIDATE_JOB)  # pyright: ignore[reportUntypedFunctionDecorator]
def validate(job_id: str) -> str:
    """Validate a job's files."""
    return asyncio.run(_at_work(lambda place: validate_job(job_id, place)))


@app.task(name=RUN_JOB)  # pyright: ignore[reportUntypedFunctionDecorator]
def run(job_id: str) -> str:
    """Run a job for as long as it takes."""
    return asyncio.run(_at_work(lambda place: run_job(job_id, place)))


@app.task(name=REHEARSE)  # pyright: ignore[reportUntypedFunctionDecorator]
def rehearse(rehearsal_id: str) -> str:
    """Rehearse a step's burst."""
    return asyncio.run(_at_work(lambda place: run_rehearsal(rehearsal_id, place)))


async def _at_work(task: Callable[[Workplace], Awaitable[str]]) -> str:
    wanted = settings()
    if wanted.database_url is None:
        raise NoServer("DATABASE_URL is not set; `rft up` sets it for the processes it starts")
    async with Database(wanted.database_url, max_connections=4) as database:
        place = Workplace(
            settings=wanted,
            database=database,
            file_store=default_store(),
            secret_box=SecretBox.at(wanted.home),
            is_stopping=lambda: _is_shutting_down[0] == 1,
        )
        return await task(place)


def _is_redis(url: str) -> bool:
    return url.startswith(("redis", "rediss", "sentinel"))


def _transport_options(url: str) -> dict[str, object]:
    if not _is_redis(url):
        return {}
    return {
        "visibility_timeout": 3600,
        "unacked_restore_interval": 10,
        "unacked_restore_throttle": 1,
        "socket_keepalive": True,
        "health_check_interval": 25,
        "socket_timeout": 30,
        "socket_connect_timeout": 5,
    }
