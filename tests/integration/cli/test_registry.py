"""`rft tools ...` and `rft graders ...`."""

import json

from rft.testing.loopback import LoopbackEndpoint
from tests.integration.cli.conftest import Shell

EXACT = {"type": "string_check", "name": "exact", "input": "{{sample.output_text}}", "reference": "{{item.answer}}"}


async def test_a_tool_is_registered_tried_changed_and_forgotten(shell: Shell, customer: LoopbackEndpoint) -> None:
    tool = {"name": "search", "server_url": customer.tool_url, "headers": {"X-Key": "tool-secret"}}
    made = await shell.ok("tools", "create", shell.write("tool.json", tool), "--json")
    assert "tool-secret" not in made.out
    tool_id = made.json["id"]
    tried = await shell.rft("tools", "test", tool_id, "--arguments", '{"query": "x"}')
    assert (tried.status, "works" in tried.out) == (0, True), tried.out
    listed = (await shell.ok("tools", "list")).out
    assert tool_id in listed
    assert "healthy" in listed
    changed = (await shell.ok("tools", "update", tool_id, "-", typed='{"timeout_s": 5.0}')).out
    assert "5.0 s" in changed
    assert "search" in (await shell.ok("tools", "get", tool_id)).out
    assert (await shell.ok("tools", "delete", tool_id)).out == f"{tool_id} is deleted\n"
    assert (await shell.ok("tools", "list")).err == "no registered tools\n"


async def test_a_tool_is_called_without_a_registry(shell: Shell, customer: LoopbackEndpoint) -> None:
    body = shell.write("tool.json", {"name": "search", "url": customer.tool_url, "timeout_s": 3.0})
    done = await shell.ok("tools", "run", body, "--arguments", '{"query": "x"}', "--item", '{"answer": 7}')
    assert "1 attempt" in done.out
    assert done.out.splitlines()[-1] == "x: 7"
    raw = (await shell.ok("tools", "run", body, "--arguments", '{"query": "x"}', "--json")).json
    assert raw["type"] == "function_call_output"
    down = shell.write("down.json", {"name": "search", "server_url": "http://127.0.0.1:1/"})
    failed = await shell.rft("tools", "run", down)
    assert (failed.status, failed.err.count("\n")) == (1, 1)
    wrong = await shell.rft("tools", "run", body, "--arguments", "{")
    assert "--arguments is not JSON" in wrong.err


async def test_a_grader_is_checked_run_registered_and_tried(shell: Shell) -> None:
    body = shell.write("grader.json", {**EXACT, "operation": "eq"})
    assert "exact (string_check)" in (await shell.ok("graders", "validate", body)).out
    right = await shell.ok("graders", "run", body, "--sample", "7", "--item", '{"answer": "7"}')
    assert "1.000" in right.out
    nothing = await shell.rft("graders", "run", body, "--sample", "7")
    assert nothing.status == 1
    assert "failure" in nothing.out
    grader_id = (await shell.ok("graders", "create", body, "--json")).json["id"]
    tried = await shell.ok("graders", "test", grader_id, "--sample", "8", "--item", '{"answer": "7"}')
    assert "0.000" in tried.out
    assert grader_id in (await shell.ok("graders", "list")).out
    other = json.dumps({"grader": {**EXACT, "name": "loose", "operation": "ilike"}})
    assert "loose" in (await shell.ok("graders", "update", grader_id, "-", typed=other)).out
    assert "string_check" in (await shell.ok("graders", "get", grader_id)).out
    assert (await shell.ok("graders", "delete", grader_id)).out == f"{grader_id} is deleted\n"


async def test_a_grader_that_no_job_would_take_is_refused(shell: Shell) -> None:
    done = await shell.rft("graders", "validate", shell.write("grader.json", {**EXACT, "operation": "guess"}))
    assert done.status == 1
    assert "operation" in done.err
