"""`rft jobs ...`, `rft rollouts ...`, `rft models ...` and `rft regrade`."""

import asyncio
import csv
import io
import json
import subprocess
from typing import Any

import pytest

from rft.core.events import RunEnded, RunStarted
from rft.core.failure import FailureCode
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.cli.conftest import Run, Shell
from tests.integration.worker.workbench import ROW, Workbench, jsonl
from tests.shared.train_events import attempts_made, hold_began, one_step, rollout_done, whole_run
from tests.shared.waiting import PATIENCE_S, until


@pytest.fixture
def order(customer: LoopbackEndpoint) -> dict[str, Any]:
    """A job's body without a training file."""
    return {
        "model": "tiny",
        "metadata": {"team": "search", "kind": "test"},
        "method": {
            "type": "reinforcement",
            "reinforcement": {
                "grader": {"type": "endpoint", "name": "judge", "url": customer.grader_url},
                "tools": [{"name": "search", "server_url": customer.tool_url, "headers": {"X-Key": "tool-secret"}}],
            },
        },
    }


async def test_a_job_is_ordered_with_its_files_shown_paused_and_cancelled(shell: Shell, order: dict[str, Any]) -> None:
    body = shell.write("job.json", order)
    shell.put("rows.jsonl", jsonl(*({**ROW, "n": number} for number in range(4))))
    shell.put("check.jsonl", jsonl(ROW))
    made = (await shell.ok("jobs", "create", body, "--train", "rows.jsonl", "--valid", "check.jsonl", "--json")).json
    files = {file["id"]: file["filename"] for file in (await shell.ok("files", "list", "--json")).json}
    assert (files[made["training_file"]], files[made["validation_file"]]) == ("rows.jsonl", "check.jsonl")
    shown = (await shell.ok("jobs", "get", made["id"])).out
    for message in ("validating_files", "tiny", "search", "judge", "team=search"):
        assert message in shown
    listed = (await shell.ok("jobs", "list", "--metadata", "team=search", "--metadata", "kind=test", "--json")).json
    assert [job["id"] for job in listed] == [made["id"]]
    assert (await shell.ok("jobs", "list", "--metadata", "team=other", "--json")).json == []
    assert made["id"] in (await shell.ok("jobs", "list")).out
    found = await shell.ok("jobs", "list", "--search", "TINY search", "--sort", "burst", "--json")
    assert [job["id"] for job in found.json] == [made["id"]]
    assert (await shell.ok("jobs", "list", "--status", "failed", "--json")).json == []
    assert (await shell.ok("jobs", "cancel", made["id"])).out == f"{made['id']}: cancelled\n"
    again = await shell.rft("jobs", "cancel", made["id"])
    assert again.status == 1
    assert "Created fine-tuning job" in (await shell.ok("jobs", "events", made["id"])).out
    assert "no result file yet" in (await shell.rft("jobs", "result", made["id"])).err


async def test_a_refused_order_leaves_no_uploads_behind(shell: Shell, order: dict[str, Any]) -> None:
    rows = shell.put("rows.jsonl", jsonl(ROW))
    body = shell.write("job.json", {**order, "model": "nobody"})
    for command in (
        ("jobs", "create", body, "--train", rows, "--valid", rows),
        ("jobs", "create", body, "--train", rows, "--valid", shell.put("bad.jsonl", b"no json\n")),
    ):
        refused = await shell.rft(*command)
        assert refused.status == 1
        assert (await shell.ok("files", "list", "--json")).json == []
    rehearsal = shell.write("rehearsal.json", {**order, "method": {"type": "dpo"}})
    refused = await shell.rft("rehearse", rehearsal, "--file", rows, "--remote")
    assert (refused.status, "method.type" in refused.err) == (1, True)
    assert (await shell.ok("files", "list", "--json")).json == []


async def test_an_order_that_may_have_been_taken_keeps_its_uploads(
    shell: Shell, order: dict[str, Any], bench: Workbench
) -> None:
    async with bench.database.transaction() as connection:
        await connection.execute("alter table jobs rename column metadata to hidden")
    rows = shell.put("rows.jsonl", jsonl(ROW))
    failed = await shell.rft("jobs", "create", shell.write("job.json", order), "--train", rows)
    (file,) = (await shell.ok("files", "list", "--json")).json
    assert failed.status == 1
    assert f"uploaded and kept, as the order may have been taken: {file['id']}" in failed.err


async def test_what_the_platform_doubts_of_an_order_is_told_at_once(shell: Shell, order: dict[str, Any]) -> None:
    order["method"]["reinforcement"]["hyperparameters"] = {"n_epoch": 5}
    rows = shell.put("rows.jsonl", jsonl(ROW))
    for as_json in ((), ("--json",)):
        made = await shell.ok("jobs", "create", shell.write("job.json", order), "--train", rows, *as_json)
        (told,) = [text for text in made.err.splitlines() if text.startswith("warning: These fields are not known")]
        assert "n_epoch" in told
        assert "warning" not in made.out.replace("has_warnings", "")


async def test_an_order_with_an_unusable_dataset_says_so(shell: Shell, order: dict[str, Any]) -> None:
    rows = shell.put("rows.jsonl", b'{"messages": "none"}\n')
    made = await shell.rft("jobs", "create", shell.write("job.json", order), "--train", rows)
    assert "warning: rows.jsonl has 1 problem: `rft files problems file-" in made.err


async def test_an_order_may_name_another_model_and_be_watched(shell: Shell, order: dict[str, Any]) -> None:
    rows = shell.put("rows.jsonl", jsonl(ROW))
    body = shell.write("job.json", {**order, "model": "nobody"})
    order_and_watch = ("jobs", "create", body, "--train", rows, "--model", "tiny", "--watch")
    watching = shell.start(*order_and_watch, cwd=shell.folder, stdout=subprocess.PIPE)
    ids: list[str] = []

    async def is_ordered() -> bool:
        ids[:] = [job["id"] for job in (await shell.ok("jobs", "list", "--json")).json]
        return bool(ids) or watching.poll() is not None

    try:
        await until(is_ordered, "the order")
        await shell.ok("jobs", "cancel", *ids)
        out, _ = await asyncio.to_thread(watching.communicate, timeout=PATIENCE_S)
    finally:
        watching.kill()
        watching.wait()
    assert watching.returncode == 2, "as `rft jobs watch` of a cancelled job"
    assert out.splitlines()[-1].startswith("cancelled")


@pytest.mark.parametrize("pair", ["team", "=search"])
async def test_a_filter_that_is_no_pair_is_told(shell: Shell, pair: str) -> None:
    done = await shell.rft("jobs", "list", "--metadata", pair)
    assert (done.status, done.err) == (1, f"rft: --metadata takes KEY=VALUE, not '{pair}'\n")


async def test_a_refused_order_names_its_param(shell: Shell, order: dict[str, Any]) -> None:
    order["method"]["reinforcement"]["hyperparameters"] = {"n_epochs": 0}
    done = await shell.rft("jobs", "create", "-", typed=json.dumps({**order, "training_file": "file-x"}))
    assert done.status == 1
    assert "n_epochs" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(("text", "message"), [("{", "is not JSON"), ("[]", "must hold a JSON object")])
async def test_a_body_that_is_no_object_is_told(shell: Shell, text: str, message: str) -> None:
    done = await shell.rft("jobs", "create", "-", typed=text)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert message in done.err
    assert "nowhere.json" in (await shell.rft("jobs", "create", "nowhere.json")).err


async def test_a_running_job_is_paused_and_goes_on(shell: Shell, run: Run) -> None:
    await run.tell(RunStarted(resumed_from_step=None, total_steps=3, pid=1))
    assert (await shell.ok("jobs", "pause", run.job_id)).out == f"{run.job_id}: running, being paused\n"
    refused = await shell.rft("jobs", "resume", run.job_id)
    assert refused.status == 1


async def test_a_paused_job_goes_on_with_another_importance_gap(shell: Shell, run: Run) -> None:
    ended = RunEnded(outcome="paused", best_step=None, error_code="importance_gap", error_message="0.3 apart")
    await run.tell(RunStarted(resumed_from_step=None, total_steps=3, pid=1), ended)
    done = await shell.ok("jobs", "resume", run.job_id, "--max-importance-gap", "0.5")
    assert done.out == f"{run.job_id}: queued\n"
    assert json.loads((await shell.ok("jobs", "get", run.job_id, "--json")).out)["max_importance_gap"] == 0.5


async def test_the_endpoints_of_a_held_job_are_changed(shell: Shell, run: Run) -> None:
    await run.tell(RunStarted(resumed_from_step=None, total_steps=3, pid=1))
    changes = {"tools": {"search": {"headers": {"Authorization": "Bearer new-token"}}}}
    refused = await shell.rft("jobs", "endpoints", run.job_id, "--set", "-", typed=json.dumps(changes))
    assert (refused.status, refused.err.count("\n")) == (1, 1)
    assert "while it is held or paused" in refused.err
    await run.tell(RunStarted(resumed_from_step=None, total_steps=3, pid=1), hold_began(1))
    done = await shell.ok("jobs", "endpoints", run.job_id, "--set", shell.write("changes.json", changes))
    assert done.out == f"{run.job_id}: held (tool 'search')\n"
    events = (await shell.ok("jobs", "events", run.job_id)).out
    assert "tool 'search' is called with the headers Authorization" in events
    assert "new-token" not in events
    assert "Bearer" not in (await shell.ok("jobs", "get", run.job_id, "--json")).out


async def test_a_finished_job_tells_all_it_made(shell: Shell, run: Run) -> None:
    await run.tell(*whole_run(run.job_id, steps=3))
    shown = (await shell.ok("jobs", "get", run.job_id)).out
    assert "succeeded" in shown
    assert "3/3" in shown
    checkpoints = (await shell.ok("jobs", "checkpoints", run.job_id)).out
    assert "0.430" in checkpoints
    assert "0.630" in checkpoints
    events = (await shell.ok("jobs", "events", run.job_id, "--limit", 500)).out.splitlines()
    assert "successfully completed" in events[-1]
    models = (await shell.ok("models", "list")).out
    assert f"ft:tiny:local:unit:{run.job_id[-8:]}" in models
    table = list(csv.DictReader(io.StringIO((await shell.ok("jobs", "result", run.job_id)).out)))
    assert [row["step"] for row in table] == ["0", "1", "2", "3"]
    await shell.ok("jobs", "result", run.job_id, "-o", "result.csv")
    assert shell.content("result.csv").startswith(b"step,")
    step_2 = next(line.split()[0] for line in models.splitlines() if ":ckpt-step-2" in line)
    assert (await shell.ok("models", "delete", step_2)).out == f"{step_2} is deleted\n"
    assert step_2 not in (await shell.ok("models", "list")).out


async def test_a_rollout_reads_like_a_conversation(shell: Shell, run: Run) -> None:
    graded, failed = rollout_done(run.job_id, 0, 0), rollout_done(run.job_id, 0, 2, failed=True)
    await run.tell(
        RunStarted(resumed_from_step=None, total_steps=3, pid=1),
        attempts_made(0, graded.trace_id, FailureCode.SERVER_ERROR, None),
        *one_step(run.job_id, 0, 3, rollouts=3),
    )
    listed = (await shell.ok("rollouts", "list", run.job_id, "--outcome", "failed", "--split", "train")).out
    assert failed.trace_id in listed
    assert graded.trace_id not in listed
    assert "tool timeout" in listed
    shown = (await shell.ok("rollouts", "show", graded.trace_id)).out
    for message in ("user", "How much?", "assistant", "at step 0", "reward 0.000", "judge 0.500", "completed"):
        assert message in shown
    assert "\x00" not in shown
    assert "left out of training" in (await shell.ok("rollouts", "show", failed.trace_id, "--job", run.job_id)).out
    attempts = (await shell.ok("rollouts", "attempts", graded.trace_id)).out.splitlines()
    assert "server_error (503)" in attempts[-2]
    assert "ok (200)" in attempts[-1]
    health = (await shell.ok("jobs", "endpoints", run.job_id)).out
    assert "tool search" in health
    assert "50.0%" in health
    nowhere = await shell.rft("rollouts", "show", "trace_nowhere")
    assert nowhere.status == 1
    assert "--job" in nowhere.err


async def test_another_grader_looks_at_stored_rollouts(shell: Shell, run: Run) -> None:
    await run.tell(*whole_run(run.job_id, steps=3))
    grader = {"type": "string_check", "name": "exact", "input": "{{sample.output_text}}", "reference": "x"}
    body = shell.write("grader.json", {"grader": {**grader, "operation": "like"}})
    done = await shell.ok("regrade", run.job_id, body, "--split", "train", "--step", 1, "--step", 2)
    assert "succeeded" in done.out
    assert "mean reward" in done.out
    raw = (await shell.ok("regrade", run.job_id, body, "--split", "train", "--limit", 4, "--json")).json
    assert raw["report"]["n"] <= 4
    assert raw["id"] in (await shell.ok("jobs", "regrades", run.job_id)).out
    ordered = (await shell.ok("regrade", run.job_id, body, "--no-wait", "--json")).json
    assert (ordered["status"], ordered["report"]) == ("queued", None)
    assert "rank correlation" in (await shell.ok("jobs", "regrades", run.job_id, raw["id"])).out
    assert (await shell.ok("jobs", "regrades", run.job_id, raw["id"], "--json")).json == raw
