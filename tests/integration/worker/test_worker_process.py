"""A real worker, a real broker, a real database, and everything that may die."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from celery import Celery

from rft.platform.jobs.service import cancel_job
from rft.platform.lifecycle.owner import is_alive
from rft.platform.queue.celery_app import NoServer, configuration
from rft.platform.queue.messages import RUN_JOB, VALIDATE_JOB, TaskMessage
from rft.platform.queue.publishing import Enqueuer
from rft.platform.settings import Settings
from rft.platform.store.unit_of_work import unit_of_work
from tests.integration.worker.scripted_trainer import Fault, Plan
from tests.integration.worker.workbench import Workbench
from tests.integration.worker.worker_process import WorkerProcess
from tests.shared.waiting import PATIENCE_S, until

Start = Callable[[], WorkerProcess]
pytestmark = pytest.mark.slow


async def ready(worker: WorkerProcess) -> None:
    await until(worker.is_ready, "the worker to be ready")


async def reached(bench: Workbench, job_id: str, status: str) -> None:
    async def has_status() -> bool:
        job = await bench.job(job_id)
        assert job["status"] in (status, "validating_files", "queued", "running"), job["error"]
        return job["status"] == status

    await until(has_status, f"the job to become {status}")


async def hanging(bench: Workbench) -> int:
    await until((bench.control / "hanging").exists, "the trainer to hang")
    return int((bench.control / "hanging").read_text())


async def gone(pid: int) -> None:
    await until(lambda: not is_alive(pid), f"process {pid} to be gone")


async def test_a_job_goes_from_upload_to_success(
    bench: Workbench, start_worker: Start, enqueuer: Enqueuer, worker_log: Path
) -> None:
    worker = start_worker()
    job_id = await bench.new_job()
    enqueuer(TaskMessage(VALIDATE_JOB, job_id))
    await reached(bench, job_id, "succeeded")
    await bench.assert_every_step_once(job_id, steps=3)
    enqueuer(TaskMessage(RUN_JOB, job_id))
    assert worker.stop(PATIENCE_S) == 0
    told = await asyncio.to_thread(worker_log.read_text)
    assert told.count(f"of {job_id}: ") == 2, "validated and run, and nothing of messages that found nothing to do"
    assert " received" not in told
    assert " succeeded in" not in told


async def test_duplicate_bells_start_one_trainer(bench: Workbench, start_worker: Start, enqueuer: Enqueuer) -> None:
    bench.changed_settings = {"train_slots": 3}
    start_worker()
    start_worker()
    job_id = await bench.queued_job()
    for _ in range(6):
        enqueuer(TaskMessage(RUN_JOB, job_id))
    await reached(bench, job_id, "succeeded")
    assert len(bench.launches) == 1
    await bench.assert_every_step_once(job_id, steps=3)


async def test_a_trainer_killed_in_a_step_is_replaced(
    bench: Workbench, start_worker: Start, enqueuer: Enqueuer
) -> None:
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),)))
    start_worker()
    job_id = await bench.queued_job()
    enqueuer(TaskMessage(RUN_JOB, job_id))
    os.kill(await hanging(bench), signal.SIGKILL)
    await reached(bench, job_id, "succeeded")
    assert len(bench.launches) == 2
    await bench.assert_every_step_once(job_id, steps=3)


@pytest.mark.usefixtures("reconciler")
async def test_a_killed_worker_takes_its_trainer_along_and_another_goes_on(
    bench: Workbench, start_worker: Start, enqueuer: Enqueuer
) -> None:
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),)))
    first = start_worker()
    job_id = await bench.queued_job()
    enqueuer(TaskMessage(RUN_JOB, job_id))
    trainer = await hanging(bench)
    first.kill()
    await gone(trainer)
    start_worker()
    await reached(bench, job_id, "succeeded")
    assert len(bench.launches) == 2
    await bench.assert_every_step_once(job_id, steps=3)
    assert "The worker fell silent" in "\n".join(await bench.messages(job_id))


@pytest.mark.usefixtures("reconciler")
async def test_a_stopped_worker_gives_its_job_back(bench: Workbench, start_worker: Start, enqueuer: Enqueuer) -> None:
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),)))
    first = start_worker()
    job_id = await bench.queued_job()
    enqueuer(TaskMessage(RUN_JOB, job_id))
    trainer = await hanging(bench)
    assert first.stop(PATIENCE_S) == 0
    await gone(trainer)
    job = await bench.job(job_id)
    assert (job["status"], job["lease_owner"]) == ("queued", None)
    start_worker()
    await reached(bench, job_id, "succeeded")
    await bench.assert_every_step_once(job_id, steps=3)


@pytest.mark.usefixtures("reconciler")
async def test_lost_messages_are_enqueued_again(bench: Workbench, start_worker: Start) -> None:
    start_worker()
    job_id = await bench.new_job()
    await reached(bench, job_id, "succeeded")


@pytest.mark.usefixtures("reconciler")
async def test_cancelling_reaches_the_worker(bench: Workbench, start_worker: Start, enqueuer: Enqueuer) -> None:
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),)))
    start_worker()
    job_id = await bench.queued_job()
    enqueuer(TaskMessage(RUN_JOB, job_id))
    trainer = await hanging(bench)
    async with unit_of_work(bench.database) as uow:
        assert (await cancel_job(uow, job_id)).status == "cancelled"
    await gone(trainer)


@pytest.mark.usefixtures("reconciler")
async def test_a_cancelled_job_whose_worker_is_dead_is_cancelled_all_the_same(
    bench: Workbench, start_worker: Start, enqueuer: Enqueuer
) -> None:
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),)))
    worker = start_worker()
    job_id = await bench.queued_job()
    enqueuer(TaskMessage(RUN_JOB, job_id))
    await hanging(bench)
    worker.kill()
    async with unit_of_work(bench.database) as uow:
        assert (await cancel_job(uow, job_id)).status == "cancelled"

    async def has_free_slot() -> bool:
        return not await bench.all("select 1 from jobs where id = %s and lease_until > clock_timestamp()", job_id)

    await until(has_free_slot, "the reconciler to free its slot")


async def test_a_worker_without_servers_says_so(bench: Workbench, broker_url: str) -> None:
    with pytest.raises(NoServer, match="BROKER_URL is not set"):
        configuration(bench.settings)
    config = configuration(Settings.model_validate({**bench.environment, "BROKER_URL": "amqp://guest@127.0.0.1//"}))
    assert (config["broker_transport_options"], config["worker_disable_prefetch"]) == ({}, False)
    app = Celery("t", set_as_current=False)
    app.add_defaults(lambda: configuration(Settings.model_validate({**bench.environment, "BROKER_URL": broker_url})))
    assert app.conf.broker_url == broker_url
    assert app.conf.task_acks_late is False
    assert app.conf.broker_transport_options["visibility_timeout"] == 3600
