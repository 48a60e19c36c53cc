"""Validation of a job's files, through the stored bytes."""

import json
from pathlib import Path

import pytest

from rft.core.hyperparameters import LoraSpec
from rft.platform.lifecycle.job_lease import take_for_validation
from rft.platform.queue.messages import RUN_JOB, TaskMessage
from rft.platform.rehearsals.repository import NewRehearsal, RehearsalRepository
from rft.platform.worker.validate_job import validate_job
from rft.rollouts.rehearsal_report import RehearsalPlan
from tests.integration.worker.workbench import ROW, Workbench, jsonl
from tests.shared.rehearsal_reports import endpoint, report
from tests.shared.train_events import step_done


async def test_good_files_queue_the_job_and_tell_the_burst(bench: Workbench) -> None:
    (bench.folder / "config.json").write_text('{"max_position_embeddings": 500}')
    job_id = await bench.new_job(valid=jsonl(ROW, {**ROW, "n": -1}))
    assert await validate_job(job_id, bench.context()) == "queued"
    job = await bench.job(job_id)
    assert (job["status"], job["total_steps"], job["lease_owner"]) == ("queued", 3, None)
    assert (job["resolved"]["group_size"], job["resolved"]["steps"]) == (4, 3)
    assert (job["resolved"]["temperature"], job["resolved"]["max_context_tokens"]) == (1.0, 500)
    assert job["resolved"]["lora"] == LoraSpec(learning_rate=bench.settings.learning_rate).model_dump()
    messages = await bench.messages(job_id)
    assert messages[0] == (
        f"Validating training file: {job['training_file']} and validation file: {job['validation_file']}"
    )
    assert messages[1] == "Files validated, moving job to queued state"
    assert "each step starts 8 rollouts at once (2 rows x 4 rollouts)" in messages[2]
    assert messages[2].endswith("this is the load your tools and grader must bear")
    assert bench.enqueued == [TaskMessage(RUN_JOB, job_id)]


async def test_an_evaluation_that_is_more_than_a_step_is_told_beforehand(bench: Workbench) -> None:
    valid = jsonl(*({**ROW, "n": -number} for number in range(1, 4)))
    job_id = await bench.new_job(valid=valid, hyperparameters={"eval_samples": 5})
    assert await validate_job(job_id, bench.context()) == "queued"
    [plan] = [message for message in await bench.messages(job_id) if "rollouts at once" in message]
    assert plan.endswith(
        "this is the load your tools and grader must bear, and 15 rollouts at once when it is evaluated"
    )


async def test_the_rollouts_of_steps_under_way_at_once_are_told_beforehand(bench: Workbench) -> None:
    job_id = await bench.new_job(hyperparameters={"max_staleness": 2})
    assert await validate_job(job_id, bench.context()) == "queued"
    assert any(
        "each step starts 8 rollouts at once (2 rows x 4 rollouts), up to 24 with those of 3 steps under way" in message
        for message in await bench.messages(job_id)
    )


async def test_an_evaluation_beside_the_steps_under_way_is_told_with_all_of_them(bench: Workbench) -> None:
    job_id = await bench.new_job(valid=jsonl(ROW), hyperparameters={"max_staleness": 1, "eval_samples": 5})
    assert await validate_job(job_id, bench.context()) == "queued"
    [plan] = [message for message in await bench.messages(job_id) if "rollouts at once" in message]
    assert "up to 16 with those of 2 steps under way" in plan
    assert plan.endswith(", and 5 rollouts more beside them while it is evaluated: 21 at once at most")


async def test_auto_staleness_is_none_where_the_engine_holds_one_version_of_the_model(
    bench: Workbench, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"layer_types": ["sliding_attention", "full_attention"]}')
    job_id = await bench.new_job(base_model_path=str(tmp_path), hyperparameters={"max_staleness": "auto"})
    assert await validate_job(job_id, bench.context()) == "queued"
    assert (await bench.job(job_id))["resolved"]["max_staleness"] == 0
    [told] = [message for message in await bench.messages(job_id) if message.startswith("max_staleness auto")]
    assert told.startswith("max_staleness auto is 0: the engine transformers holds one version of this model at a time")


async def rehearsed(bench: Workbench, job_id: str, *, tool_s: float, grader_url: str | None = None) -> None:
    """A rehearsal of this job's endpoints, or with another grader, whose tool took so long."""
    job = await bench.job(job_id)
    if grader_url is not None:
        job["method"]["reinforcement"]["grader"]["url"] = grader_url
    plan = RehearsalPlan(rows_per_step=2, group_size=4, rollouts=8, calls_per_rollout=2)
    new = NewRehearsal(
        id=f"rehearsal-{tool_s}", model="tiny", training_file=job["training_file"], method=job["method"],
        secrets=None, seed=1, plan=plan,
    )  # fmt: skip
    slow = endpoint(p50_ms=tool_s * 1e3, p95_ms=tool_s * 1e3)
    async with bench.database.transaction() as connection:
        await RehearsalRepository(connection).insert(new)
    told = report(slow, rollouts=8).model_dump_json()
    await bench.do("update rehearsals set status = 'completed', report = %s where id = %s", told, new.id)


@pytest.mark.parametrize(
    ("tool_s", "grader_url", "expected", "why"),
    [
        (15.0, None, 3, "tools and grader took 30.0 s of a rollout in rehearsal-15.0, and an update of this model is"),
        (15.0, "http://127.0.0.1:9/another", 1, "no rehearsal of these endpoints tells how long its rollouts take"),
        (0.1, None, 1, "tools and grader took 0.2 s of a rollout in rehearsal-0.1"),
    ],
)
async def test_auto_staleness_follows_the_rehearsal_of_the_job_s_endpoints(
    bench: Workbench, tool_s: float, grader_url: str | None, expected: int, why: str
) -> None:
    job_id = await bench.new_job(hyperparameters={"max_staleness": "auto"})
    await rehearsed(bench, job_id, tool_s=tool_s, grader_url=grader_url)
    assert await validate_job(job_id, bench.context()) == "queued"
    assert (await bench.job(job_id))["resolved"]["max_staleness"] == expected
    [told] = [message for message in await bench.messages(job_id) if message.startswith("max_staleness auto")]
    assert told.startswith(f"max_staleness auto is {expected}: {why}")


async def test_auto_staleness_counts_on_the_updates_of_the_model_s_newest_job(bench: Workbench) -> None:
    """Eight rollouts a step as here took 25 s of update: rollouts of 30 s are hardly longer."""
    before = await bench.queued_job()
    record = step_done(1, 3)
    assert record.train is not None
    timing = record.timing.model_copy(update={"training_s": 25.0 / 8 * record.train.rollouts})
    slow = record.model_copy(update={"timing": timing}).model_dump_json()
    await bench.do("insert into steps (job_id, step, record) values (%s, 1, %s)", before, slow)
    await bench.do("update jobs set current_step = 1 where id = %s", before)
    job_id = await bench.new_job(hyperparameters={"max_staleness": "auto"})
    await rehearsed(bench, job_id, tool_s=15.0)
    assert await validate_job(job_id, bench.context()) == "queued"
    assert (await bench.job(job_id))["resolved"]["max_staleness"] == 2
    assert any(f"an update of this model took in {before} 25.0 s" in told for told in await bench.messages(job_id))


async def test_what_further_rows_may_cost_is_told_beforehand(bench: Workbench) -> None:
    job_id = await bench.new_job(hyperparameters={"resample_zero_variance": 3})
    assert await validate_job(job_id, bench.context()) == "queued"
    [told] = [message for message in await bench.messages(job_id) if "each step starts 8 rollouts at once" in message]
    assert told.endswith(
        "Groups of equal rewards are replaced by other rows, in 3 more rounds a step at most: up to 24 rollouts more,"
        " never more than 8 at once"
    )


async def test_bad_lines_are_named_and_counted(bench: Workbench) -> None:
    bad = b"".join(b'{"messages": []}\n' for _ in range(25))
    job_id = await bench.new_job(jsonl(ROW) + b"\n" + b"{oops\n" + bad)
    assert await validate_job(job_id, bench.context()) == "failed"
    job = await bench.job(job_id)
    error = job["error"]
    assert (job["status"], error["code"], error["param"]) == ("failed", "invalid_training_file", "training_file")
    lines = error["message"].splitlines()
    assert lines[0].endswith("has 26 problems:")
    assert lines[1].startswith("line 3: not JSON")
    assert lines[2] == "line 4 at messages: must be a non-empty list, this is empty"
    assert len(lines) == 22
    assert lines[-1] == "and 6 more"
    assert bench.enqueued == []
    assert job["finished_at"] is not None


@pytest.mark.parametrize("stored", [jsonl(*({**ROW, "n": n} for n in range(4))), b""], ids=["a part", "nothing"])
async def test_a_file_that_the_disk_has_lost_a_part_of_is_not_trained_on(bench: Workbench, stored: bytes) -> None:
    """As after a power cut: every line that is left is a row."""
    job_id = await bench.new_job()
    file_id = (await bench.job(job_id))["training_file"]
    path = bench.settings.files_dir / file_id
    uploaded = path.stat().st_size
    path.write_bytes(stored)
    assert await validate_job(job_id, bench.context()) == "failed"
    error = (await bench.job(job_id))["error"]
    assert (error["code"], error["param"]) == ("invalid_training_file", "training_file")
    assert error["message"] == (
        f"File {file_id} is damaged: {len(stored)} bytes are stored of the {uploaded} that were uploaded."
        " Upload it again."
    )


async def test_a_job_says_where_it_stopped_to_read_its_bad_file(bench: Workbench) -> None:
    job_id = await bench.new_job(jsonl(ROW) + b"x\n" * 5_000_000)
    assert await validate_job(job_id, bench.context()) == "failed"
    lines = (await bench.job(job_id))["error"]["message"].splitlines()
    assert lines[0].endswith("has 1,000 problems, not read from line 1,002 on:")
    assert (lines[1], lines[-1]) == ("line 2: not JSON (Expecting value at column 1)", "and 980 more")


async def test_a_row_with_an_unregistered_tool_is_a_problem(bench: Workbench) -> None:
    row = {**ROW, "tools": [{"type": "function", "function": {"name": "browse"}}]}
    job_id = await bench.new_job(jsonl(ROW, row))
    assert await validate_job(job_id, bench.context()) == "failed"
    message = (await bench.job(job_id))["error"]["message"]
    assert "line 2 at tools[0].function.name: 'browse' is not among the job's tools (search)" in message


async def test_rows_of_a_job_without_tools_may_describe_what_they_like(bench: Workbench) -> None:
    job_id = await bench.new_job(
        jsonl({**ROW, "tools": [{"type": "function", "function": {"name": "browse"}}]}), tools=[]
    )
    assert await validate_job(job_id, bench.context()) == "queued"
    warnings = await bench.all("select message, data from job_events where job_id = %s and level = 'warn'", job_id)
    assert {"code": "unserved_tools", "unserved_tools": ["browse"]} in [row["data"] for row in warnings]


async def test_a_tool_that_no_row_describes_is_a_warning(bench: Workbench) -> None:
    tools = [{"name": name, "server_url": "http://127.0.0.1:9/"} for name in ("search", "idle")]
    job_id = await bench.new_job(tools=tools)
    assert await validate_job(job_id, bench.context()) == "queued"
    warnings = await bench.all("select message, data from job_events where job_id = %s and level = 'warn'", job_id)
    assert [row["data"] for row in warnings] == [{"code": "unused_tools", "unused_tools": ["idle"]}]


async def test_a_file_without_rows_fails_the_job(bench: Workbench) -> None:
    job_id = await bench.new_job(valid=b"\n  \n")
    assert await validate_job(job_id, bench.context()) == "failed"
    error = (await bench.job(job_id))["error"]
    assert (error["code"], error["param"]) == ("invalid_validation_file", "validation_file")
    assert "holds no rows" in error["message"]


async def test_a_file_that_is_gone_fails_the_job(bench: Workbench) -> None:
    job_id = await bench.new_job()
    await bench.do("delete from files")
    assert await validate_job(job_id, bench.context()) == "failed"
    assert "was deleted or has expired" in (await bench.job(job_id))["error"]["message"]


def cut_off(bench: Workbench, file_id: str) -> bytes:
    """As a store that hands nothing out: reading the bytes ends in an error of the system."""
    path = bench.settings.files_dir / file_id
    content = path.read_bytes()
    path.unlink()
    path.symlink_to(path.name)
    return content


async def test_a_store_that_is_away_is_told_and_tried_again(bench: Workbench) -> None:
    job_id = await bench.new_job()
    file_id = (await bench.job(job_id))["training_file"]
    content = cut_off(bench, file_id)
    assert await validate_job(job_id, bench.context()) == "to be validated again"
    assert (await bench.job(job_id))["status"] == "validating_files"
    [told] = await bench.all("select message from job_events where job_id = %s and level = 'warn'", job_id)
    assert told["message"].startswith("The files could not be validated: BytesUnreadable: the bytes of")
    assert told["message"].endswith("Too many levels of symbolic links (os error 40)\nIt is tried again.")
    (bench.settings.files_dir / file_id).unlink()
    (bench.settings.files_dir / file_id).write_bytes(content)
    await bench.do("update jobs set lease_until = clock_timestamp() where id = %s", job_id)
    assert await validate_job(job_id, bench.context()) == "queued"


async def test_a_store_that_stays_away_fails_the_job_in_the_end(bench: Workbench) -> None:
    bench.changed_settings = {"max_launches_without_progress": 3}
    job_id = await bench.new_job()
    cut_off(bench, (await bench.job(job_id))["training_file"])
    for outcome in ("to be validated again", "to be validated again", "failed"):
        await bench.do("update jobs set lease_until = clock_timestamp() where id = %s", job_id)
        assert await validate_job(job_id, bench.context()) == outcome
    job = await bench.job(job_id)
    assert (job["status"], job["error"]["code"], job["error"]["param"]) == ("failed", "internal_error", None)
    assert "could not be validated, 3 times" in job["error"]["message"]


async def test_files_that_end_each_worker_that_reads_them_fail_the_job_in_the_end(bench: Workbench) -> None:
    """As one that is killed for its memory: it can say nothing itself."""
    bench.changed_settings = {"max_launches_without_progress": 3}
    job_id = await bench.new_job()
    for _ in range(3):
        async with bench.database.connection() as connection:
            assert await take_for_validation(connection, job_id, owner="elsewhere/1/x", ttl_s=0.0) is not None
    assert await validate_job(job_id, bench.context()) == "failed"
    job = await bench.job(job_id)
    assert (job["status"], job["error"]["code"]) == ("failed", "internal_error")
    assert "could not be validated, 3 times. The last time: the worker ended" in job["error"]["message"]


async def test_a_second_message_does_nothing(bench: Workbench) -> None:
    job_id = await bench.new_job()
    assert await validate_job(job_id, bench.context()) == "queued"
    before = await bench.job(job_id)
    assert await validate_job(job_id, bench.context()) == "not to be validated"
    assert await bench.job(job_id) == before
    assert len(bench.enqueued) == 1


async def test_a_job_cancelled_before_validation_is_cancelled(bench: Workbench) -> None:
    job_id = await bench.new_job()
    await bench.do("update jobs set is_cancel_requested = true where id = %s", job_id)
    assert await validate_job(job_id, bench.context()) == "cancelled"
    assert (await bench.job(job_id))["status"] == "cancelled"


async def test_many_rows_are_counted_exactly(bench: Workbench) -> None:
    content = b"\n".join(json.dumps({**ROW, "n": n}).encode() for n in range(3000))
    job_id = await bench.new_job(content)
    assert await validate_job(job_id, bench.context()) == "queued"
    assert (await bench.job(job_id))["total_steps"] == 1500


async def test_both_files_are_told_of_at_once(bench: Workbench) -> None:
    job_id = await bench.new_job(b"{oops\n", valid=b"[]\n")
    assert await validate_job(job_id, bench.context()) == "failed"
    job = await bench.job(job_id)
    assert job["error"]["param"] == "training_file"
    assert f"File {job['training_file']} has 1 problem:\nline 1: not JSON" in job["error"]["message"]
    assert f"File {job['validation_file']} has 1 problem:\nline 1: a row must be" in job["error"]["message"]


async def test_a_validation_file_may_have_a_thousand_rows(bench: Workbench) -> None:
    rows = [{**ROW, "n": n} for n in range(1001)]
    job_id = await bench.new_job(valid=jsonl(*rows))
    assert await validate_job(job_id, bench.context()) == "failed"
    error = (await bench.job(job_id))["error"]
    assert (error["param"], "line 1001: more than 1,000 rows" in error["message"]) == ("validation_file", True)


async def test_where_the_models_context_is_unknown_an_event_says_so(bench: Workbench) -> None:
    job_id = await bench.new_job()
    assert await validate_job(job_id, bench.context()) == "queued"
    [said] = await bench.all(
        "select level, message from job_events where job_id = %s and data ->> 'code' = 'context_unknown'", job_id
    )
    assert said["level"] == "info"
    assert "no row was measured" in said["message"]


async def test_repeated_shared_and_long_rows_are_warnings(bench: Workbench) -> None:
    (bench.folder / "config.json").write_text('{"max_position_embeddings": 500}')
    long = {"messages": [{"role": "user", "content": "x" * 5000}]}
    job_id = await bench.new_job(jsonl(ROW, {**ROW, "n": 1}, ROW, long), valid=jsonl({**ROW, "n": 2}, ROW))
    assert await validate_job(job_id, bench.context()) == "queued"
    warnings = await bench.all(
        "select message, data from job_events where job_id = %s and level = 'warn' order by seq", job_id
    )
    assert [row["data"] for row in warnings] == [
        {"code": "duplicate_rows", "param": "training_file", "count": 1},
        {"code": "rows_may_be_too_long", "param": "training_file", "count": 1},
        {"code": "shared_rows", "param": "validation_file", "count": 1},
    ]
    assert "lines 3 = 1" in warnings[0]["message"]
    assert "context of 500 tokens (lines 4)" in warnings[1]["message"]
    assert "lines 2 = 1" in warnings[2]["message"]


async def test_a_tool_that_the_job_describes_itself_needs_no_row(bench: Workbench) -> None:
    tools = [
        {"name": "search", "server_url": "http://127.0.0.1:9/"},
        {"name": "idle", "server_url": "http://127.0.0.1:9/", "parameters": {"type": "object"}},
    ]
    job_id = await bench.new_job(valid=jsonl({**ROW, "n": -2}), tools=tools)
    assert await validate_job(job_id, bench.context()) == "queued"
    unused = await bench.all("select data from job_events where job_id = %s and data ? 'unused_tools'", job_id)
    assert unused == []
