"""Pause and resume with the official SDK and the real trainer: same step, same bits, a usable checkpoint meanwhile."""

import threading
from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from rft.run_directory import layout
from tests.e2e.platform.customer import CustomerServer, events_of, launch, rows, steps_of, wait_for
from tests.shared.running_platform import RunningPlatform, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
STEPS = 4


def start(client: OpenAI, server: CustomerServer) -> Any:
    return launch(
        client, server, train=rows(4), hyperparameters={"n_epochs": 2, "batch_size": 2, "compute_multiplier": 0.5}
    )


def adapter(platform: RunningPlatform, job: Any) -> bytes:
    run_dir = platform.home / "runs" / job.id
    return (run_dir / layout.checkpoint_dir(STEPS) / "adapter_model.safetensors").read_bytes()


def completed_steps(events: Path) -> int:
    """Complete steps beyond the baseline."""
    return events.read_bytes().count(b'"type":"step_done"') - 1 if events.exists() else -1


def is_gone(platform: RunningPlatform, job_id: str) -> bool:
    for process in platform.family():
        try:
            if job_id in Path(f"/proc/{process.pid}/cmdline").read_text():
                return False
        except (FileNotFoundError, ProcessLookupError):
            continue
    return True


def test_a_paused_job_frees_the_machine_and_ends_bit_equal_once_resumed(
    client: OpenAI, server: CustomerServer, platform: RunningPlatform
) -> None:
    jobs = client.fine_tuning.jobs
    job = start(client, server)
    events = platform.home / "runs" / job.id / layout.EVENTS
    is_paused, is_waited_for = threading.Event(), threading.Event()

    def hold_the_third_step(path: str) -> None:
        if path == "/grade" and not is_paused.is_set() and completed_steps(events) >= 2:
            is_waited_for.set()
            is_paused.wait(120)

    server.before_call = hold_the_third_step
    assert is_waited_for.wait(300), "no grade of the third step"
    assert jobs.pause(job.id).status in ("running", "paused")
    paused: Any = wait_for(client, job.id, ("paused",))
    assert (paused.hold, paused.is_pause_requested, paused.finished_at) == (None, False, None)
    until(lambda: is_gone(platform, job.id), "the trainer's end")
    checkpoint = jobs.checkpoints.list(job.id).data[0]
    assert checkpoint.step_number == paused.current_step
    assert client.models.retrieve(checkpoint.fine_tuned_model_checkpoint).id == checkpoint.fine_tuned_model_checkpoint
    assert (
        platform.home / "runs" / job.id / layout.checkpoint_dir(checkpoint.step_number) / "adapter_config.json"
    ).exists()
    assert jobs.pause(job.id).status == "paused"
    is_paused.set()

    # Another job has the machine meanwhile: the same order, undisturbed.
    undisturbed = wait_for(client, start(client, server).id)
    assert undisturbed.status == "succeeded", undisturbed.error
    assert jobs.retrieve(job.id).status == "paused", "nobody wakes a paused job"

    assert jobs.resume(job.id).status in ("queued", "running")
    with pytest.raises(BadRequestError) as refused:
        jobs.resume(job.id)
    assert refused.value.code == "invalid_state"
    resumed = wait_for(client, job.id)
    assert resumed.status == "succeeded", resumed.error
    assert [step["step"] for step in steps_of(client, job.id)] == list(range(STEPS + 1))
    told = [event.message for event in events_of(client, job.id)]
    assert f"Training resumed from the checkpoint of step {paused.current_step}" in told
    assert adapter(platform, resumed) == adapter(platform, undisturbed)


def test_a_paused_job_is_cancelled_at_once(client: OpenAI, server: CustomerServer) -> None:
    job = launch(client, server, grader="/grade/hang", hyperparameters={"n_epochs": 50})
    wait_for(client, job.id, ("running",))
    client.fine_tuning.jobs.pause(job.id)
    wait_for(client, job.id, ("paused",))
    assert client.fine_tuning.jobs.cancel(job.id).status == "cancelled"
