"""Bad input through the whole product: a clear error or a failed job that says why; nothing hangs, nothing is lost."""

import threading
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError, OpenAI

from tests.e2e.platform.customer import (
    CustomerServer,
    events_of,
    launch,
    order,
    rollouts_of,
    row,
    rows,
    steps_of,
    wait_for,
)
from tests.shared.running_platform import RunningPlatform, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


BAD_FILES = {
    "not JSON": (row(0).encode() + b'\n\n{"messages": [', "line 3: not JSON"),
    "without messages": (row(0).encode() + b'\n{"question": "?"}', "line 2 at messages: missing"),
    "not UTF-8": (b'{"messages": "\xff"}', "line 1: not UTF-8"),
    "no rows": (b"\n  \n", "holds no rows"),
    "tool not registered": (row(0, "search").encode() + b"\n" + row(1, "browse").encode(), "line 2 at tools[0]"),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_a_file_that_is_no_dataset_fails_the_job_with_line_and_reason(
    client: OpenAI, server: CustomerServer, what: str
) -> None:
    content, message = BAD_FILES[what]
    job = wait_for(client, launch(client, server, train=content).id)
    assert job.status == "failed"
    assert (job.error.code, job.error.param) == ("invalid_training_file", "training_file")
    assert message in job.error.message
    assert message in events_of(client, job.id)[-1].message
    assert client.files.content(job.training_file).content == content
    assert server.calls == []


def test_a_bad_validation_file_is_named_as_such(client: OpenAI, server: CustomerServer) -> None:
    job = wait_for(client, launch(client, server, valid=rows(1) + b"\n[]").id)
    assert (job.status, job.error.param) == ("failed", "validation_file")
    assert "line 2: a row must be a JSON object, this is a list" in job.error.message


def test_a_grader_that_never_grades_fails_the_job_by_name(client: OpenAI, server: CustomerServer) -> None:
    of_grader = {"timeout_s": 2}
    job = wait_for(client, launch(client, server, train=rows(4), grader="/grade/hang", of_grader=of_grader).id)
    assert job.status == "failed"
    assert (job.error.code, job.error.param) == ("grader_failed", "method.reinforcement.grader")
    assert "grader 'letters'" in job.error.message
    assert "gave no whole reply within 2 s" in job.error.message
    assert job.fine_tuned_model is None
    assert all(
        step["optimization"] is None or step["optimization"]["loss"] is None for step in steps_of(client, job.id)
    )
    rollouts = rollouts_of(client, job.id)
    assert rollouts
    assert all(rollout["reward"] is None for rollout in rollouts)


@pytest.mark.thorough  # Of the trainer alone: tests/e2e/trainer/test_no_success.py; a failed job: the test above.
def test_the_only_step_without_a_grade_is_no_success(client: OpenAI, server: CustomerServer) -> None:
    job = wait_for(client, launch(client, server, train=rows(2), grader="/grade/nan").id)
    assert (job.status, job.error.code) == ("failed", "grader_failed")
    assert "grader 'letters'" in job.error.message
    assert "the score nan, which is not finite" in job.error.message
    assert job.fine_tuned_model is None


@pytest.mark.thorough  # Of the trainer alone: tests/e2e/trainer/test_no_success.py; a failed job: the tests above.
def test_a_training_that_diverges_is_no_success(client: OpenAI, server: CustomerServer) -> None:
    job = launch(client, server, train=rows(4), hyperparameters={"learning_rate_multiplier": 1e25, "n_epochs": 2})
    job = wait_for(client, job.id)
    assert (job.status, job.error.code) == ("failed", "training_diverged")
    assert job.error.param == "method.reinforcement.hyperparameters.learning_rate_multiplier"
    assert [step["step"] for step in steps_of(client, job.id)] == [0, 1]


def test_a_tool_that_dies_after_creation_excludes_who_called_it(client: OpenAI, server: CustomerServer) -> None:
    mortal, is_dead = CustomerServer(), threading.Event()

    def die(path: str) -> None:
        """Whoever calls before we are that far hears nothing, and finds nobody with the next attempt."""
        is_dead.wait(60)
        raise ConnectionAbortedError(path)

    mortal.before_call = die
    tools = [{"name": "search", "server_url": f"{mortal.url}/tool"}]
    try:
        job_id = launch(client, server, train=rows(4), valid=rows(3, first=100), tools=tools).id
    finally:
        mortal.close()
        is_dead.set()
    job = wait_for(client, job_id)
    assert job.status == "succeeded"
    rollouts = rollouts_of(client, job_id)
    failed = [rollout for rollout in rollouts if rollout["reward"] is None]
    assert 0 < len(failed) < len(rollouts)
    assert {(rollout["failure_stage"], rollout["failure_code"]) for rollout in failed} == {("tool", "connect_error")}
    assert all(rollout["tool_calls"] == 0 for rollout in rollouts if rollout["reward"] is not None)
    record: Any = client.get(f"/fine_tuning/jobs/{job_id}/rollouts/{failed[0]['id']}", cast_to=object)
    assert "tool 'search'" in record["record"]["outcome"]["message"]
    excluded = [
        split["excluded"] for step in steps_of(client, job_id) for split in (step["train"], step["valid"]) if split
    ]
    assert sum(excluded) == len([rollout for rollout in failed if rollout["split"] != "test"])


def test_cancel_in_every_state_and_files_in_use(
    client: OpenAI, server: CustomerServer, platform: RunningPlatform
) -> None:
    server.delay_s = 2.0  # The job is to run for as long as this test needs it.
    running = launch(client, server, hyperparameters={"n_epochs": 50})
    running.status = wait_for(client, running.id, ("running",)).status
    until(lambda: bool(server.calls), "a call of the running job")
    waiting = wait_for(client, launch(client, server).id, ("queued",))
    with pytest.raises(BadRequestError, match=waiting.id) as in_use:
        client.files.delete(waiting.training_file)
    assert (in_use.value.code, in_use.value.param) == ("file_in_use", "id")
    assert client.fine_tuning.jobs.cancel(waiting.id).status == "cancelled"
    assert client.files.delete(waiting.training_file).deleted
    trainers = [process for process in platform.family() if running.id in command_of(process.pid)]
    assert trainers
    client.fine_tuning.jobs.cancel(running.id)
    over = wait_for(client, running.id, ("cancelled",))
    assert over.error is None
    assert over.finished_at is not None
    until(lambda: not any(command_of(process.pid) for process in trainers), "the trainer's end")
    fresh = launch(client, server, hyperparameters={"n_epochs": 50})
    assert client.fine_tuning.jobs.cancel(fresh.id).status in ("cancelled", "running")
    for job_id in (waiting.id, running.id, wait_for(client, fresh.id, ("cancelled",)).id):
        with pytest.raises(BadRequestError, match="cancelled") as over_already:
            client.fine_tuning.jobs.cancel(job_id)
        assert over_already.value.code == "invalid_state"
        told = [event.message for event in events_of(client, job_id)]
        assert told[-1] == "Fine-tuning job cancelled"


def command_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_what_is_refused_at_creation_leaves_nothing_behind(client: OpenAI, server: CustomerServer) -> None:
    jobs = [job.id for job in client.fine_tuning.jobs.list(limit=100)]
    good = order(client, server)
    without_grader = {**good, "method": {"type": "reinforcement", "reinforcement": {"tools": []}}}
    refused: list[tuple[dict[str, Any], str, str]] = [
        ({**good, "training_file": "file-unknown"}, "training_file", "file-unknown"),
        ({**good, "model": "gpt-5-2025-08-07"}, "model", "starter, tiny"),
        (without_grader, "method.reinforcement.grader", "grader"),
    ]
    for bad, param, message in refused:
        with pytest.raises(BadRequestError, match=message) as raised:
            client.fine_tuning.jobs.create(**bad)
        assert raised.value.param == param
    bad = order(client, server, tools=[{"name": "search", "server_url": "http://10.1.2.3/tool"}])
    with pytest.raises(BadRequestError, match="'search'") as raised:
        client.fine_tuning.jobs.create(**bad)
    assert raised.value.code == "tool_unreachable"
    with pytest.raises(NotFoundError):
        client.fine_tuning.jobs.retrieve("ftjob-unknown")
    assert [job.id for job in client.fine_tuning.jobs.list(limit=100)] == jobs
