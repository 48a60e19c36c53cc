"""kill -9 in the middle of a step, through the whole product: the job goes on by itself and ends with the same bits."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from rft.core.events import EventLine, RolloutDone, StepDone
from rft.run_directory import layout
from tests.e2e.platform.customer import CustomerServer, events_of, launch, rows, steps_of, wait_for
from tests.shared.running_platform import RunningPlatform, until

log = logging.getLogger(__name__)
STEPS = 4
GRADES_BEFORE_A_KILL = 3

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@dataclass(frozen=True, slots=True)
class Ended:
    """What a job left behind."""

    job: Any
    rewards: list[Any]
    adapters: dict[int, bytes]
    """Weights of the kept checkpoints, by step."""
    rollout_ids: set[str]


def start(client: OpenAI, server: CustomerServer) -> Any:
    return launch(
        client,
        server,
        train=rows(4),
        valid=rows(2, first=100),
        hyperparameters={"n_epochs": 2, "batch_size": 2, "compute_multiplier": 0.5, "eval_interval": 2},
    )


def ended(client: OpenAI, platform: RunningPlatform, job_id: str) -> Ended:
    """Wait for the end and check that every step is there exactly once."""
    job = wait_for(client, job_id)
    assert job.status == "succeeded", job.error
    steps = steps_of(client, job_id)
    assert [step["step"] for step in steps] == list(range(STEPS + 1))
    metrics = [event.data["step"] for event in events_of(client, job_id) if event.type == "metrics"]
    assert metrics == list(range(STEPS + 1))
    counted = [(split and split["rollouts"]) for step in steps for split in (step["train"], step["valid"])]
    assert counted == [None, 2, *(8, None, 8, 2) * (STEPS // 2)]
    page: Any = client.get(f"/fine_tuning/jobs/{job_id}/rollouts?limit=1000", cast_to=object)
    places = [(r["split"], r["step"], r["row_index"], r["group_index"], r["attempt"]) for r in page["data"]]
    measured = [place for place in places if place[0] == "test"]  # Of the best checkpoint, at the end.
    assert {place[1] for place in measured} == ({job.best_step} if job.best_step else set())
    assert len(measured) == (2 if job.best_step else 0)
    assert len(places) == len(set(places)) == sum(count or 0 for count in counted) + len(measured)
    run_dir = platform.home / "runs" / job_id
    kept = [checkpoint.step_number for checkpoint in client.fine_tuning.jobs.checkpoints.list(job_id)]
    assert STEPS in kept
    assert all(step["optimization"]["grad_norm"] > 0 for step in steps[1:])
    rewards = [(split and split["reward_mean"]) for step in steps for split in (step["train"], step["valid"])]
    ids = {one["id"] for one in page["data"]}
    return Ended(job, rewards, {step: adapter(run_dir, step) for step in kept}, ids)


def adapter(run_dir: Path, step: int) -> bytes:
    return (run_dir / layout.checkpoint_dir(step) / "adapter_model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def undisturbed(client: OpenAI, platform: RunningPlatform) -> Ended:
    server = CustomerServer()
    try:
        return ended(client, platform, start(client, server).id)
    finally:
        server.close()


def trainers_of(platform: RunningPlatform, job_id: str) -> list[int]:
    found: list[int] = []
    for process in platform.family():
        try:
            command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"rft.trainer" in command and any(word.endswith(job_id.encode()) for word in command):
            found.append(process.pid)
    return found


def kill_trainer(platform: RunningPlatform, job_id: str) -> None:
    for pid in trainers_of(platform, job_id):
        os.kill(pid, signal.SIGKILL)


def kill_worker_and_children(platform: RunningPlatform, job_id: str) -> None:
    """The parent first, so that nobody puts the children's affairs in order; the trainer is among them."""
    del job_id
    worker = platform.child("worker").pid
    below = [process.pid for process in platform.family() if is_below(process.pid, worker)]
    for pid in (worker, *below):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # The kernel took it along with its parent.


def kill_worker_alone(platform: RunningPlatform, job_id: str) -> None:
    del job_id
    os.kill(platform.child("worker").pid, signal.SIGKILL)


def is_below(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            return False
    return pid == ancestor


KILLS = (kill_trainer, kill_worker_and_children, kill_worker_alone)
"""One after the first step, one after the second, one after the third."""


def test_a_job_killed_in_three_of_its_steps_resumes_by_itself_and_ends_bit_equal(
    client: OpenAI, server: CustomerServer, platform: RunningPlatform, undisturbed: Ended
) -> None:
    """Each time in another way, within one job: it ends with the same bits only if each of them lost nothing."""
    job_id = start(client, server).id
    events = platform.home / "runs" / job_id / layout.EVENTS
    finished: set[str] = set()
    is_killed = threading.Event()
    for launches, kill in enumerate(KILLS, start=1):
        earlier, is_killed = is_killed, threading.Event()
        server.before_call = in_the_middle_of_the_step_after(launches, events, is_killed)
        earlier.set()
        until(lambda done=launches: completed_steps(events) >= done, "the step before")
        until(lambda: len(ended_since_last_step(events)) == GRADES_BEFORE_A_KILL, "rollouts of the next step")
        finished |= ended_since_last_step(events)
        is_killed_and_resumes(platform, job_id, kill, launches)
    is_killed.set()
    after = ended(client, platform, job_id)
    assert runs_started(events) == 1 + len(KILLS)
    assert after.adapters == undisturbed.adapters
    assert after.rewards == undisturbed.rewards
    assert after.job.best_step == undisturbed.job.best_step
    assert after.job.trained_tokens == undisturbed.job.trained_tokens
    told = [event.message for event in events_of(client, job_id)]
    resumed = [message for message in told if message.startswith("Training resumed from the checkpoint of step")]
    assert len(resumed) == len(KILLS), told
    assert len(finished) == len(KILLS) * GRADES_BEFORE_A_KILL
    assert finished <= after.rollout_ids, "what had finished keeps its place"
    assert [server.graded[trace_id] for trace_id in finished] == [1] * len(finished)


def is_killed_and_resumes(
    platform: RunningPlatform, job_id: str, kill: Callable[[RunningPlatform, str], None], launches: int
) -> None:
    """The job, which was launched that often, is launched once more."""
    events = platform.home / "runs" / job_id / layout.EVENTS
    assert runs_started(events) == launches
    before, killed_at = trainers_of(platform, job_id), time.monotonic()
    kill(platform, job_id)
    until(lambda: bool(set(trainers_of(platform, job_id)) - set(before)), "another trainer")
    until(lambda: runs_started(events) == launches + 1, "the resumed run")
    log.info("resumed after %.1f s", time.monotonic() - killed_at)


def completed_steps(events: Path) -> int:
    """Complete steps beyond the baseline."""
    return lines(events).count(b'"type":"step_done"') - 1


def in_the_middle_of_the_step_after(done: int, events: Path, is_over: threading.Event) -> Callable[[str], None]:
    """For `before_call`: a few of its rollouts are graded, and all others wait."""
    left, lock = iter(range(GRADES_BEFORE_A_KILL)), threading.Lock()

    def wait(path: str) -> None:
        if path != "/grade" or is_over.is_set() or completed_steps(events) < done:
            return
        with lock:
            is_free = next(left, None) is not None
        if not is_free:
            is_over.wait(300)

    return wait


def ended_since_last_step(events: Path) -> set[str]:
    """Ids of rollouts of the step under way that have ended."""
    whole, _, _ = lines(events).rpartition(b"\n")
    found = [EventLine.model_validate_json(line).event for line in whole.splitlines()]
    last = max(place for place, event in enumerate(found) if isinstance(event, StepDone))
    return {event.trace_id for event in found[last:] if isinstance(event, RolloutDone)}


def runs_started(events: Path) -> int:
    return lines(events).count(b'"type":"run_started"')


def lines(events: Path) -> bytes:
    return events.read_bytes() if events.exists() else b""
