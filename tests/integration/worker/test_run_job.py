"""One runner, one scripted trainer, a real database."""

import asyncio
import os
import signal
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from rft.core.chat_spec import JobChat
from rft.core.events import RunEnded
from rft.core.spec import RunSecrets, RunSpec
from rft.platform.lifecycle import heartbeat
from rft.platform.lifecycle.owner import is_alive
from rft.platform.worker.run_job import run_job
from rft.platform.worker.validate_job import validate_job
from rft.run_directory import layout
from tests.integration.worker.running import hanging_run
from tests.integration.worker.scripted_trainer import Fault, Plan
from tests.integration.worker.workbench import SECRETS, Workbench
from tests.shared.turned_clock import TurnedClock
from tests.shared.waiting import until


async def test_an_undisturbed_run_succeeds(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    assert await run_job(job_id, bench.context()) == "over"
    job = await bench.job(job_id)
    assert job["status"] == "succeeded"
    assert job["fine_tuned_model"] == f"ft:tiny:local:unit:{job_id[-8:]}"
    assert (job["best_step"], job["current_step"], job["total_steps"]) == (2, 3, 3)
    assert job["finished_at"] is not None
    assert job["started_at"] is not None
    assert job["lease_owner"] is None
    assert job["launches_without_progress"] == 0
    await bench.assert_every_step_once(job_id, steps=3)
    assert (await bench.messages(job_id))[-3:] == [
        "Fine-tuning job started",
        f"New fine-tuned model created: {job['fine_tuned_model']}",
        "The job has successfully completed",
    ]
    kept = await bench.all("select step from checkpoints where job_id = %s and is_kept order by step", job_id)
    assert [row["step"] for row in kept] == [1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_slots": 1}, None),
        ({"train_slots": 3}, "for calls to tools and graders"),
        ({"train_slots": 3, "tool_gateway_url": "http://h"}, "for calls to graders"),
        ({"train_slots": 3, "tool_gateway_url": "http://h", "grader_gateway_url": "http://h"}, None),
    ],
)
async def test_jobs_beside_each_other_without_gateway_services_are_warned(
    bench: Workbench, changes: dict[str, object], message: str | None
) -> None:
    job_id = await bench.queued_job()
    bench.changed_settings |= changes
    assert await run_job(job_id, bench.context()) == "over"
    told = await bench.all("select message from job_events where job_id = %s and data->>'code' = 'own_limits'", job_id)
    assert [message in row["message"] for row in told if message] == ([True] if message else [])
    assert len(told) == (message is not None)


async def test_the_trainer_is_handed_spec_and_rows(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    await run_job(job_id, bench.context())
    folder = bench.run_dir(job_id)
    spec = RunSpec.model_validate_json((folder / layout.SPEC).read_text())
    assert (spec.job_id, spec.hyperparameters.group_size, spec.hyperparameters.steps) == (job_id, 4, 3)
    assert len((folder / layout.TRAIN_ROWS).read_text().splitlines()) == 6
    assert not (folder / layout.VALID_ROWS).exists()
    assert folder.stat().st_mode & 0o777 == 0o700


async def test_secrets_reach_the_trainer_and_nothing_else(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    async with hanging_run(bench, job_id) as task:
        pid = bench.launches[-1]
        seen = everything_readable(pid, bench.run_dir(job_id))
        (bench.control / "go-on").touch()
        await task
    assert RunSecrets.model_validate_json((bench.control / "secrets.json").read_text()) == SECRETS
    assert {"cmdline", "environ", layout.SPEC, layout.EVENTS, layout.TRAIN_ROWS} <= seen.keys()
    for name, content in seen.items():
        assert b"grader-secret-value" not in content, name
        assert b"tool-secret-value" not in content, name
        assert bench.database_url.encode() not in content, name


def everything_readable(pid: int, folder: Path) -> dict[str, bytes]:
    """What anybody who can look at the process or its directory sees, but for what it prints itself."""
    seen = {name: Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")}
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != layout.LOG]
    return seen | {path.name: path.read_bytes() for path in files}


@pytest.mark.parametrize("how", ["kill", "exit", "torn", "garbage"])
async def test_a_trainer_that_dies_in_a_step_is_started_again(bench: Workbench, how: str) -> None:
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how=how),)))
    job_id = await bench.queued_job()
    assert await run_job(job_id, bench.context()) == "over"
    assert (await bench.job(job_id))["status"] == "succeeded"
    assert len(bench.launches) == 2
    await bench.assert_every_step_once(job_id, steps=3)
    warnings = await bench.all("select message from job_events where job_id = %s and level = 'warn'", job_id)
    assert len(warnings) == 1
    assert "starts again from the last complete checkpoint" in warnings[0]["message"]


async def test_a_trainer_that_dies_at_every_launch_fails_the_job_in_words(bench: Workbench) -> None:
    bench.plan(Plan(faults=(Fault(launch=0, step=1, how="exit"),)))
    bench.changed_settings = {"max_launches_without_progress": 2}
    job_id = await bench.queued_job()
    assert await run_job(job_id, bench.context()) == "failed"
    job = await bench.job(job_id)
    # The first launch finished step 0, so two more were granted.
    assert (job["status"], len(bench.launches)) == ("failed", 3)
    assert job["error"]["code"] == "trainer_crashed"
    assert "exited with status 3" in job["error"]["message"]
    assert "was used before the crash" in job["error"]["message"]
    assert "tool-secret-value" not in job["error"]["message"]
    assert job["finished_at"] is not None


async def test_a_run_that_reports_failure_fails_the_job(bench: Workbench) -> None:
    ended = RunEnded(
        outcome="failed", best_step=None, error_code="no_signal", error_message="No row.", error_param="training_file"
    )
    bench.plan(Plan(ended=ended))
    job_id = await bench.queued_job()
    await run_job(job_id, bench.context())
    job = await bench.job(job_id)
    assert job["status"] == "failed"
    assert job["error"] == {"code": "no_signal", "message": "No row.", "param": "training_file"}
    assert job["fine_tuned_model"] is None


async def test_a_stopping_worker_gives_the_job_back_and_another_goes_on(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="hang"),)))
    stopping = asyncio.Event()
    task = asyncio.create_task(run_job(job_id, bench.context(is_stopping=stopping.is_set)))
    await until((bench.control / "hanging").exists, "the trainer to hang")
    stopping.set()
    assert await task == "given back"
    job = await bench.job(job_id)
    assert (job["status"], job["lease_owner"], job["launches_without_progress"]) == ("queued", None, 0)
    assert not is_alive(bench.launches[-1])
    assert await run_job(job_id, bench.context()) == "over"
    await bench.assert_every_step_once(job_id, steps=3)


async def test_a_runner_that_lost_its_lease_kills_its_trainer_and_writes_nothing(bench: Workbench) -> None:
    job_id = await bench.queued_job()
    async with hanging_run(bench, job_id) as task:
        await bench.do("update jobs set lease_token = lease_token + 1, lease_owner = 'other/1/x' where id = %s", job_id)
        before = await bench.job(job_id)
        assert await task == "lease lost"
    assert not is_alive(bench.launches[-1])
    after = await bench.job(job_id)
    assert {key: after[key] for key in after if key != "enqueued_at"} == {
        key: before[key] for key in before if key != "enqueued_at"
    }


async def test_a_database_that_is_gone_longer_than_the_lease_stops_the_trainer(
    bench: Workbench, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await bench.queued_job()
    bench.changed_settings = {"lease_ttl_s": 5.0, "heartbeat_s": 0.3}
    clock = TurnedClock(monkeypatch, heartbeat)  # The lease lasts until the database is gone.
    async with hanging_run(bench, job_id) as task:
        name = str((await bench.all("select current_database() as name"))[0]["name"])
        allow = sql.SQL("alter database {} allow_connections {}")
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as admin:
            await admin.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
            await admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))
            clock.go()
            await until(lambda: not is_alive(bench.launches[-1]), "the trainer to be stopped")
            assert await task == "lease lost"
            await admin.execute(allow.format(sql.Identifier(name), sql.SQL("true")))


async def test_a_log_that_lost_its_tail_is_made_good(bench: Workbench) -> None:
    """As after a power failure: the database knows lines that the file has lost."""
    job_id = await bench.queued_job()
    async with hanging_run(bench, job_id) as task:
        await until(lambda: has_step(bench, job_id, 1), "step 1 to be stored")
        os.kill(bench.launches[-1], signal.SIGSTOP)
        path = bench.run_dir(job_id) / layout.EVENTS
        lines = path.read_bytes().splitlines(keepends=True)
        os.truncate(path, len(b"".join(lines[:3])) + 10)
        os.kill(bench.launches[-1], signal.SIGKILL)
        assert await task == "over"
    assert (await bench.job(job_id))["status"] == "succeeded"
    await bench.assert_every_step_once(job_id, steps=3)


async def has_step(bench: Workbench, job_id: str, step: int) -> bool:
    return bool(await bench.all("select 1 from steps where job_id = %s and step = %s", job_id, step))


async def test_events_written_before_the_worker_died_are_stored(bench: Workbench) -> None:
    """The trainer ended, its worker died before it read the end: no second run."""
    job_id = await bench.queued_job()
    await run_job(job_id, bench.context())
    await bench.do(
        "update jobs set status = 'queued', finished_at = null, fine_tuned_model = null,"
        " last_event_seq = last_event_seq - 2 where id = %s",
        job_id,
    )
    assert await run_job(job_id, bench.context()) == "over"
    assert len(bench.launches) == 1
    assert (await bench.job(job_id))["status"] == "succeeded"


async def test_lines_that_the_database_has_lost_are_stored_again(bench: Workbench) -> None:
    """As after a failover to a database that did not have the last commits."""
    job_id = await bench.queued_job()
    async with hanging_run(bench, job_id) as task:
        written = (bench.run_dir(job_id) / layout.EVENTS).read_bytes().count(b"\n")

        async def is_stored() -> bool:
            return (await bench.job(job_id))["last_event_seq"] == written

        await until(is_stored, "all lines to be stored")
        before = "update jobs set last_event_seq = last_event_seq - 2, trained_tokens = 0 where id = %s"
        await bench.do(before, job_id)
        await bench.do("delete from steps where job_id = %s and step = 1", job_id)
        (bench.control / "go-on").touch()
        assert await task == "over"
    assert (await bench.job(job_id))["status"] == "succeeded"
    await bench.assert_every_step_once(job_id, steps=3)


async def test_models_registered_otherwise_change_no_job_that_is_there(bench: Workbench) -> None:
    kept = JobChat(
        chat_format="hermes", max_context_tokens=4096, chat_template_kwargs={"a": [1]}, template_fingerprint="f" * 16
    )
    job_id, old = await bench.new_job(chat=kept), await bench.new_job()
    registered = {"path": "/elsewhere", "chat_format": "llama3", "max_context_tokens": 512}
    bench.changed_settings = {"base_models": {"tiny": registered}}
    for one in (job_id, old):
        await validate(bench, one)
        assert await run_job(one, bench.context()) == "over"
    spec, of_old = (
        RunSpec.model_validate_json((bench.run_dir(one) / layout.SPEC).read_bytes()) for one in (job_id, old)
    )
    assert (spec.chat, spec.base_model) == (kept, str(bench.folder))
    # One of an earlier release kept nothing.
    assert of_old.chat == JobChat(chat_format="llama3", max_context_tokens=512)


async def test_the_starter_is_built_once_and_before_the_first_run(bench: Workbench) -> None:
    builder = bench.folder / "build.sh"
    builder.write_text('#!/bin/sh\nmkdir "$1" && echo built >> "$(dirname "$0")/builds" && touch "$1/config.json"\n')
    builder.chmod(0o755)
    bench.changed_settings = {"starter_command": [str(builder)]}
    for _ in range(2):
        job_id = await bench.new_job(base_model_path=str(bench.settings.starter_dir))
        await validate(bench, job_id)
        assert await run_job(job_id, bench.context()) == "over"
        assert (bench.folder / "builds").read_text() == "built\n"
    assert (bench.settings.starter_dir / "config.json").exists()


async def test_a_starter_that_cannot_be_built_fails_the_job_in_words(bench: Workbench) -> None:
    bench.changed_settings = {
        "starter_command": ["sh", "-c", "echo no space left; exit 5"],
        "max_launches_without_progress": 1,
    }
    job_id = await bench.new_job(base_model_path=str(bench.settings.starter_dir))
    await validate(bench, job_id)
    assert await run_job(job_id, bench.context()) == "failed"
    message = (await bench.job(job_id))["error"]["message"]
    assert "exited with status 5" in message
    assert "no space left" in message


async def validate(bench: Workbench, job_id: str) -> None:
    assert await validate_job(job_id, bench.context()) == "queued"
