"""Validation of a job's files, through the stored bytes."""

import json

from rft.platform.store.bell import RUN_JOB, Bell
from rft.platform.worker.validate_job import validate_job
from tests.integration.worker.workbench import ROW, Workbench, jsonl


async def test_good_files_queue_the_job_and_tell_the_burst(bench: Workbench) -> None:
    job_id = await bench.new_job(valid=jsonl(ROW, ROW))
    assert await validate_job(job_id, bench.place()) == "queued"
    job = await bench.job(job_id)
    assert (job["status"], job["total_steps"], job["lease_owner"]) == ("queued", 3, None)
    assert (job["resolved"]["group_size"], job["resolved"]["steps"]) == (4, 3)
    messages = await bench.messages(job_id)
    assert messages[0] == (
        f"Validating training file: {job['training_file']} and validation file: {job['validation_file']}"
    )
    assert messages[1] == "Files validated, moving job to queued state"
    assert "each step starts 8 rollouts at once (2 rows x 4 rollouts)" in messages[2]
    assert bench.bells == [Bell(RUN_JOB, job_id)]


async def test_bad_lines_are_named_and_counted(bench: Workbench) -> None:
    bad = b"".join(b'{"messages": []}\n' for _ in range(25))
    job_id = await bench.new_job(jsonl(ROW) + b"\n" + b"{oops\n" + bad)
    assert await validate_job(job_id, bench.place()) == "failed"
    job = await bench.job(job_id)
    error = job["error"]
    assert (job["status"], error["code"], error["param"]) == ("failed", "invalid_training_file", "training_file")
    lines = error["message"].splitlines()
    assert lines[0].endswith("has 26 problems:")
    assert lines[1].startswith("line 3: not JSON")
    assert lines[2] == "line 4 at messages: must be a non-empty list, this is empty"
    assert len(lines) == 22
    assert lines[-1] == "and 6 more"
    assert bench.bells == []
    assert job["finished_at"] is not None


async def test_a_row_with_an_unregistered_tool_is_a_problem(bench: Workbench) -> None:
    row = {**ROW, "tools": [{"type": "function", "function": {"name": "browse"}}]}
    job_id = await bench.new_job(jsonl(ROW, row))
    assert await validate_job(job_id, bench.place()) == "failed"
    message = (await bench.job(job_id))["error"]["message"]
    assert "line 2 at tools[0].function.name: 'browse' is not among the job's tools (search)" in message


async def test_a_tool_that_no_row_describes_is_a_warning(bench: Workbench) -> None:
    tools = [{"name": name, "server_url": "http://127.0.0.1:9/"} for name in ("search", "idle")]
    job_id = await bench.new_job(tools=tools)
    assert await validate_job(job_id, bench.place()) == "queued"
    warnings = await bench.all("select message, data from job_events where job_id = %s and level = 'warn'", job_id)
    assert [row["data"] for row in warnings] == [{"unused_tools": ["idle"]}]


async def test_a_file_without_rows_fails_the_job(bench: Workbench) -> None:
    job_id = await bench.new_job(valid=b"\n  \n")
    assert await validate_job(job_id, bench.place()) == "failed"
    error = (await bench.job(job_id))["error"]
    assert (error["code"], error["param"]) == ("invalid_validation_file", "validation_file")
    assert "holds no rows" in error["message"]


async def test_a_file_that_is_gone_fails_the_job(bench: Workbench) -> None:
    job_id = await bench.new_job()
    await bench.do("delete from files")
    assert await validate_job(job_id, bench.place()) == "failed"
    assert "was deleted or has expired" in (await bench.job(job_id))["error"]["message"]


async def test_a_second_bell_does_nothing(bench: Workbench) -> None:
    job_id = await bench.new_job()
    assert await validate_job(job_id, bench.place()) == "queued"
    before = await bench.job(job_id)
    assert await validate_job(job_id, bench.place()) == "not to be validated"
    assert await bench.job(job_id) == before
    assert len(bench.bells) == 1


async def test_a_job_cancelled_before_validation_is_cancelled(bench: Workbench) -> None:
    job_id = await bench.new_job()
    await bench.do("update jobs set is_cancel_requested = true where id = %s", job_id)
    assert await validate_job(job_id, bench.place()) == "cancelled"
    assert (await bench.job(job_id))["status"] == "cancelled"


async def test_many_rows_are_counted_exactly(bench: Workbench) -> None:
    content = b"\n".join(json.dumps({**ROW, "n": n}).encode() for n in range(3000))
    job_id = await bench.new_job(content)
    assert await validate_job(job_id, bench.place()) == "queued"
    assert (await bench.job(job_id))["total_steps"] == 1500
