"""What a stranger runs into: errors for programs, bodies that are none, jobs that wait, ids that a shell completes."""

import asyncio
import json
import os
import subprocess
from collections.abc import Sequence

import pytest

from rft.platform.lifecycle.job_lease import Refusal, take
from tests.integration.cli.conftest import Run, Shell
from tests.integration.worker.workbench import Workbench

UNKNOWN = (
    ("jobs", "get", "ftjob-x"),
    ("jobs", "events", "ftjob-x"),
    ("jobs", "steps", "ftjob-x"),
    ("jobs", "curves", "ftjob-x"),
    ("jobs", "checkpoints", "ftjob-x"),
    ("jobs", "endpoints", "ftjob-x"),
    ("jobs", "regrades", "ftjob-x"),
    ("jobs", "cancel", "ftjob-x"),
    ("jobs", "watch", "ftjob-x"),
    ("rollouts", "list", "ftjob-x"),
    ("rollouts", "show", "trace_x", "--job", "ftjob-x"),
    ("files", "get", "file-x"),
    ("files", "delete", "file-x"),
    ("models", "get", "nobody"),
    ("tools", "get", "tool_x"),
    ("graders", "delete", "grader_x"),
    ("rehearsals", "get", "rehearsal-x"),
    ("permissions", "list", "nobody"),
    ("signing-secrets", "retire", "sigsec_x"),
)


@pytest.mark.parametrize("command", UNKNOWN, ids=" ".join)
async def test_what_is_unknown_is_told_in_a_line_and_to_programs_as_json(shell: Shell, command: Sequence[str]) -> None:
    done = await shell.rft(*command, "--json")
    assert (done.status, done.err.count("\n"), done.out.count("\n")) == (1, 1, 1)
    error = done.json["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"


async def test_an_error_of_our_own_has_the_form_of_the_apis(shell: Shell) -> None:
    done = await shell.rft("jobs", "list", "--json", RFT_BASE_URL="http://127.0.0.1:1/v1")
    assert done.status == 1
    assert "nobody answers" in done.json["error"]["message"]
    assert done.json["error"]["type"] is None
    assert (await shell.rft("jobs", "list", RFT_BASE_URL="http://127.0.0.1:1/v1")).out == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xfe{}", "it is not UTF-8"), (b"[" * 100_000, "nested too deeply"), (b"", "is not JSON")],
)
@pytest.mark.parametrize(
    "command", [("jobs", "create"), ("tools", "create"), ("graders", "run"), ("regrade", "ftjob-x")]
)
async def test_a_body_that_is_no_json_is_told_in_a_line(
    shell: Shell, command: Sequence[str], content: bytes, message: str
) -> None:
    done = await shell.rft(*command, shell.put("body.json", content))
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert message in done.err


async def test_a_mark_that_editors_put_before_a_body_does_no_harm(shell: Shell) -> None:
    grader = {"type": "string_check", "name": "x", "input": "a", "reference": "a", "operation": "eq"}
    body = shell.put("grader.json", b"\xef\xbb\xbf" + json.dumps(grader).encode())
    assert "a job would take this grader" in (await shell.ok("graders", "validate", body)).out
    typed = "\ufeff" + json.dumps({**grader, "name": "ä"}, ensure_ascii=False)
    assert "this grader: ä" in (await shell.ok("graders", "validate", "-", typed=typed)).out


@pytest.mark.parametrize("name", ["NaN", "1e999", '"\\ud800"'])
async def test_a_value_that_no_request_can_hold_is_the_platforms_to_refuse(shell: Shell, name: str) -> None:
    grader = f'{{"type": "string_check", "name": {name}, "input": "a", "reference": "a", "operation": "eq"}}'
    done = await shell.rft("graders", "create", "-", typed=grader)
    assert (done.status, done.err.count("\n")) == (1, 1), done.err


@pytest.mark.parametrize("job_id", ["", ".", ".."])
async def test_what_would_be_another_path_is_no_id(shell: Shell, job_id: str) -> None:
    for command in (("jobs", "get", job_id), ("files", "delete", job_id), ("evals", "run", "eval_x", job_id)):
        done = await shell.rft(*command)
        assert (done.status, done.err[: len(job_id) + 16]) == (1, f"rft: '{job_id}' is no id")


async def test_text_of_another_encoding_is_told_in_a_line(shell: Shell) -> None:
    for command in (("jobs", "get", "\udcff"), ("jobs", "list", "--search", "\udcff")):
        done = await shell.rft(*command)
        assert (done.status, "is not UTF-8" in done.err, done.err.count("\n")) == (1, True, 1)


async def test_a_chat_with_a_model_that_is_not_there_does_not_begin(shell: Shell) -> None:
    done = await shell.rft("chat", "nobody", typed="hello\n")
    assert (done.status, done.err) == (1, "rft: The model 'nobody' does not exist. (param: model)\n")


@pytest.mark.parametrize("arguments", [("jobs", "list", "--json"), ("validate", "rows.jsonl")], ids=" ".join)
async def test_a_full_disk_behind_the_output_is_told_in_a_line(shell: Shell, arguments: Sequence[str]) -> None:
    shell.put("rows.jsonl", b"{}")
    full = os.open("/dev/full", os.O_WRONLY)
    process = shell.start(*arguments, stdout=full, stderr=subprocess.PIPE, cwd=shell.folder)
    os.close(full)
    _, err = await asyncio.to_thread(process.communicate)
    assert (process.returncode, err) == (1, "rft: input or output: No space left on device\n")


async def test_a_job_that_waits_for_a_slot_says_whose(shell: Shell, bench: Workbench, run: Run) -> None:
    waiting = await bench.queued_job()
    async with bench.database.connection() as connection:
        assert await take(connection, waiting, owner="here/2/b", ttl_s=600, slots=1) is Refusal.NO_SLOT
    assert f"the slot of {run.job_id}" in (await shell.ok("jobs", "get", waiting)).out
    shown = (await shell.ok("jobs", "get", waiting, "--json")).json
    assert shown["waits_for"] == [{"job": run.job_id, "hold": None}]
    assert f"Waits for the slot of job {run.job_id}" in (await shell.ok("jobs", "events", waiting)).out


async def test_a_shell_completes_ids(shell: Shell, run: Run) -> None:
    async def completed(*message: str, **changed: str) -> list[str]:
        asked = {"_RFT_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(message), "COMP_CWORD": str(len(message) - 1)}
        return (await shell.rft(**asked, **changed)).out.split()

    assert await completed("rft", "jobs", "get", "ftjob-") == [run.job_id]
    assert await completed("rft", "jobs", "steps", run.job_id[:9]) == [run.job_id]
    assert await completed("rft", "rollouts", "show", "x", "--job", "") == [run.job_id]
    assert await completed("rft", "jobs", "get", "ftjob-!") == []
    assert (await completed("rft", "files", "get", ""))[0].startswith("file-")
    assert await completed("rft", "jobs", "get", "", RFT_BASE_URL="http://127.0.0.1:1/v1") == []
    assert await completed("rft", "jobs", "get", "", RFT_BASE_URL=":") == []
