"""A broker that refuses what a worker asks is waited for; a worker that another error ends keeps no job."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from rft.platform.embedded.valkey import EmbeddedValkey
from rft.platform.queue.messages import RUN_JOB, VALIDATE_JOB, TaskMessage
from rft.platform.queue.publishing import Enqueuer
from tests.integration.worker.scripted_trainer import Fault, Plan
from tests.integration.worker.workbench import Workbench
from tests.integration.worker.worker_process import WorkerProcess
from tests.shared.refusing_broker import is_refused, refusing_writes
from tests.shared.waiting import until

BREAKS_ON_SIGUSR2 = """
import signal
from celery.__main__ import main
from kombu.asynchronous import get_event_loop

def fail():
    raise RuntimeError("a fault of the consumer")

signal.signal(signal.SIGUSR2, lambda *_: get_event_loop().call_soon(fail))
main()
"""
pytestmark = pytest.mark.slow


async def test_a_worker_with_a_job_in_hand_takes_messages_again_after_a_refusal(
    bench: Workbench,
    start_worker: Callable[[], WorkerProcess],
    enqueuer: Enqueuer,
    valkey: EmbeddedValkey,
    worker_log: Path,
) -> None:
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),)))
    worker = start_worker()
    await until(worker.is_ready, "the worker to be ready")
    training = await bench.queued_job()
    enqueuer(TaskMessage(RUN_JOB, training))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    with refusing_writes(valkey):
        await until(lambda: is_refused(worker_log.read_text()), "the worker to be refused")
    other = await bench.new_job()
    enqueuer(TaskMessage(VALIDATE_JOB, other))

    async def is_validated() -> bool:
        return (await bench.job(other))["status"] == "queued"

    await until(is_validated, "the other job to be validated")
    assert (await bench.job(training))["status"] == "running"
    assert len(bench.launches) == 1


async def test_a_worker_that_an_error_ends_hands_its_job_back(
    bench: Workbench, broker_url: str, enqueuer: Enqueuer, worker_log: Path
) -> None:
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),)))
    worker = WorkerProcess(bench, broker_url, worker_log, program=("-c", BREAKS_ON_SIGUSR2))
    try:
        await until(worker.is_ready, "the worker to be ready")
        job_id = await bench.queued_job()
        enqueuer(TaskMessage(RUN_JOB, job_id))
        await until((bench.control / "hanging").exists, "the trainer to hang")
        worker.process.send_signal(signal.SIGUSR2)
        await until(lambda: "Unrecoverable error: RuntimeError" in worker_log.read_text(), "the error")
        await until(lambda: worker.process.poll() is not None, "the worker to end")
        job = await bench.job(job_id)
        assert (job["status"], job["lease_owner"]) == ("queued", None)
    finally:
        worker.end()
