"""The platform's own queue over RabbitMQ: what changes with the broker is nothing that a job notices."""

from collections.abc import Callable

import pytest

from rft.platform.queue.messages import RUN_JOB, VALIDATE_JOB, TaskMessage
from rft.platform.queue.publishing import Enqueuer
from tests.integration.worker.scripted_trainer import Fault, Plan
from tests.integration.worker.workbench import Workbench
from tests.integration.worker.worker_process import WorkerProcess
from tests.shared.rabbitmq import RabbitMq
from tests.shared.waiting import PATIENCE_S, until

Start = Callable[[], WorkerProcess]
pytestmark = pytest.mark.slow


@pytest.fixture
def broker_url(rabbitmq: RabbitMq) -> str:
    """Where workers and messages of this file go."""
    return rabbitmq.url()


async def succeeded(bench: Workbench, job_id: str) -> None:
    async def has_succeeded() -> bool:
        job = await bench.job(job_id)
        assert job["status"] in ("succeeded", "validating_files", "queued", "running"), job["error"]
        return job["status"] == "succeeded"

    await until(has_succeeded, "the job to succeed")
    await bench.assert_every_step_once(job_id, steps=3)


@pytest.mark.usefixtures("reconciler")
async def test_a_job_goes_from_upload_to_success_though_worker_and_queue_are_lost_in_its_middle(
    bench: Workbench, start_worker: Start, enqueuer: Enqueuer, rabbitmq: RabbitMq
) -> None:
    """The job goes on once both are back: the message that was taken is not what holds it."""
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),)))
    worker = start_worker()
    job_id = await bench.new_job()
    enqueuer(TaskMessage(VALIDATE_JOB, job_id))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    worker.kill()
    await rabbitmq.stop()
    await rabbitmq.start()
    other = start_worker()
    await succeeded(bench, job_id)
    assert len(bench.launches) == 2
    assert "The worker fell silent" in "\n".join(await bench.messages(job_id))
    assert other.stop(PATIENCE_S) == 0


@pytest.mark.thorough  # Of rollout workers: tests/integration/rollout_inbox/test_workers.py, the queue that was away.
async def test_a_queue_that_restarts_is_found_again_by_a_waiting_worker(
    bench: Workbench, start_worker: Start, enqueuer: Enqueuer, rabbitmq: RabbitMq
) -> None:
    worker = start_worker()
    await until(worker.is_ready, "the worker to be ready")
    await rabbitmq.stop()
    await rabbitmq.start()
    job_id = await bench.queued_job()
    enqueuer(TaskMessage(RUN_JOB, job_id))
    await succeeded(bench, job_id)
    assert worker.stop(PATIENCE_S) == 0
