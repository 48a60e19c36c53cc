"""Secrets in URLs: whoever is called gets the whole URL; tables, files, logs and replies have none of its secrets."""

import json
import logging
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import psycopg
import pytest
from psycopg import sql

from rft.core.secret_urls import REDACTED
from rft.core.spec import RunSpec
from rft.platform.registry.stored_urls import seal_stored_urls
from rft.platform.store.key_rotation import rotate_key
from rft.platform.store.secret_box import KEY_FILE, SecretBox
from rft.platform.worker.run_job import run_job
from rft.platform.worker.run_rehearsal import run_rehearsal
from rft.platform.worker.validate_job import validate_job
from rft.run_directory.files import redact_specs
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.faults import Fault, FaultKind, HttpAnswer, ReceivedCall
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.worker.test_endpoint_changes import told
from tests.integration.worker.test_hold import held_run
from tests.integration.worker.workbench import Workbench

SECRET = "s3cr3t"
"""In every secret of this module, and in nothing else."""
HOOK_PATH = "/hook"
QUERY = f"key={SECRET}-tool&v=2&{SECRET}bare=="
SHOWN = f"key={REDACTED}&v={REDACTED}&{REDACTED}"
SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}}


class Customer(ScriptedEndpoint):
    """A tool that says what it was called with, as error pages do; a grader; a hook that hears of rollouts."""

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        if call.path == HOOK_PATH:
            return HttpAnswer(200, b"{}")
        if call.query.endswith("broken"):
            return Fault(FaultKind.GARBAGE)
        return await super().answer(call)

    def queries(self, path: str) -> set[str]:
        """Of the calls there; probes have no body."""
        return {call.query for call in self.calls if call.path == path and call.body}


@pytest.fixture
def bench(bench: Workbench) -> Workbench:
    """With a base model that can be ordered."""
    bench.changed_settings["base_models"] = {"tiny": str(bench.folder)}
    return bench


@pytest.fixture
async def customer() -> AsyncIterator[LoopbackEndpoint]:
    made: list[Customer] = []

    def search(arguments: Any, item: Any) -> str:
        return f"called as {made[0].calls[-1].path}?{made[0].calls[-1].query}"

    made.append(Customer(ScriptedTools({"search": search}), ScriptedGrader(0.5)))
    async with LoopbackEndpoint(made[0]) as endpoint:
        yield endpoint


def a_tool(customer: LoopbackEndpoint) -> dict[str, Any]:
    return {
        "name": "search",
        "server_url": f"{customer.tool_url}?{QUERY}",
        "callback_url": f"{customer.base_url}{HOOK_PATH}?sig={SECRET}-hook",
        "description": "Looks.",
        "parameters": SCHEMA,
        "our_webhook_url": f"https://me:{SECRET}@example.com/#{SECRET}",
    }


def a_grader(customer: LoopbackEndpoint) -> dict[str, Any]:
    return {"type": "endpoint", "name": "judge", "url": f"{customer.grader_url}?token={SECRET}-grader"}


def a_formula(customer: LoopbackEndpoint) -> dict[str, Any]:
    part = {**a_grader(customer), "url": f"{customer.grader_url}?token={SECRET}-part"}
    return {"type": "multi", "name": "both", "graders": {"part": part}, "calculate_output": "part"}


def an_order(training_file: str, tool: Any, grader: Any) -> dict[str, Any]:
    hyperparameters = {"batch_size": 2, "compute_multiplier": 0.5, "n_epochs": 1}
    reinforcement = {"tools": [tool], "grader": grader, "hyperparameters": hyperparameters}
    method = {"type": "reinforcement", "reinforcement": reinforcement}
    return {"model": "tiny", "training_file": training_file, "method": method}


class Caller:
    """The API's caller, who keeps every reply."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http, self._root = http, str(http.base_url).removesuffix("/fine_tuning/jobs/")
        self.replies: list[str] = []

    async def post(self, path: str, body: object, status: int = 200, *, key: str = "") -> Any:
        reply = await self._http.post(f"{self._root}{path}", json=body, headers={"Idempotency-Key": key} if key else {})
        self.replies.append(reply.text)
        assert reply.status_code == status, reply.text
        return reply.json()

    async def get(self, path: str) -> Any:
        reply = await self._http.get(f"{self._root}{path}")
        self.replies.append(reply.text)
        assert reply.status_code == 200, reply.text
        return reply.json()


def rows_with(database_url: str, text: str) -> list[str]:
    """Every row of every table in which the text stands, whatever the column's type."""
    found: list[str] = []
    with psycopg.connect(database_url) as connection:
        tables = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
        assert len(tables) > 15
        for (table,) in tables:
            query = sql.SQL("select {0}::text from {0} where {0}::text ~ %s").format(sql.Identifier(table))
            found += [f"{table}: {row}" for (row,) in connection.execute(query, (text,))]
    return found


def files_with(bench: Workbench, text: str) -> list[str]:
    files = [path for path in bench.settings.home.rglob("*") if path.is_file()]
    assert any(path.name == "spec.json" for path in files)
    return [str(path) for path in files if text.encode() in path.read_bytes()]


async def test_whoever_is_called_gets_the_whole_url_and_nothing_else_has_its_secrets(
    bench: Workbench, http: httpx.AsyncClient, customer: LoopbackEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caller, server = Caller(http), customer.endpoint
    assert isinstance(server, Customer)
    tool, grader = a_tool(customer), a_grader(customer)
    file_id = await bench.upload(b'{"messages": [{"role": "user", "content": "How much?"}], "answer": 7}\n' * 6)

    made = await caller.post("/tools", tool)
    assert made["server_url"] == f"{customer.tool_url}?{SHOWN}"
    assert made["callback_url"] == f"{customer.base_url}{HOOK_PATH}?sig={REDACTED}"
    assert made["our_webhook_url"] == f"https://{REDACTED}@example.com/#{REDACTED}"
    tested = await caller.post(f"/tools/{made['id']}/test", {"arguments": {"query": "x"}})
    assert tested["output"] == "called as /tool***", "what an endpoint repeats of its URL is redacted, too"
    judge = await caller.post("/graders", {"grader": grader})
    assert judge["grader"]["url"] == f"{customer.grader_url}?token={REDACTED}"
    await caller.post(f"/graders/{judge['id']}/test", {"model_sample": "7"})
    await caller.post("/fine_tuning/alpha/graders/run", {"grader": grader, "model_sample": "7"})
    await caller.post("/fine_tuning/alpha/graders/validate", {"grader": a_formula(customer)})
    run = {"name": "search", "server_url": tool["server_url"], "arguments": "{}"}
    await caller.post("/fine_tuning/alpha/tool/run", run)
    broken = {**run, "server_url": f"{customer.tool_url}?key={SECRET}-broken"}
    refused = await caller.post("/fine_tuning/alpha/tool/run", broken, 400)
    assert f"at {customer.tool_url} " in refused["error"]["message"]
    await caller.post("/tools", {**tool, "server_url": f"http://me:{SECRET}@h/"}, 400)
    await caller.post("/tools", {**tool, "server_url": f"http://me:{SECRET}/x@h/"}, 400)
    assert server.queries("/tool") == {QUERY, f"key={SECRET}-broken"}
    assert server.queries("/grade") == {f"token={SECRET}-grader"}

    rehearsal = await caller.post("/rehearsals", an_order(file_id, tool, a_formula(customer)))
    assert await run_rehearsal(rehearsal["id"], bench.context()) == "completed"
    await caller.get(f"/rehearsals/{rehearsal['id']}")
    assert server.queries("/grade") == {f"token={SECRET}-{whose}" for whose in ("grader", "part")}
    assert server.queries(HOOK_PATH) == {f"sig={SECRET}-hook"}

    order = an_order(file_id, {"id": made["id"]}, grader)
    job = await caller.post("/fine_tuning/jobs", order, key="once")
    assert job["method"]["reinforcement"]["tools"][0]["server_url"] == f"{customer.tool_url}?{SHOWN}"
    sent_back = an_order(file_id, job["method"]["reinforcement"]["tools"][0], grader)
    refused = await caller.post("/fine_tuning/jobs", sent_back, 400)
    assert refused["error"]["param"].startswith("method.reinforcement.tools[0]."), "as with headers: no mask is a value"
    assert await validate_job(job["id"], bench.context()) == "queued"
    regrade = await caller.post(f"/fine_tuning/jobs/{job['id']}/regrade", {"grader": grader})
    assert regrade["grader"]["url"] == f"{customer.grader_url}?token={REDACTED}"

    async with held_run(bench, job["id"]) as task:
        spec, secrets = told(bench, job["id"])
        assert spec.tools[0].server_url == f"{customer.tool_url}?{SHOWN}"
        assert secrets.tool_urls == {"search": tool["server_url"]}
        assert secrets.callback_urls == {"search": tool["callback_url"]}
        assert secrets.grader_url == grader["url"]
        change = {"server_url": f"{customer.tool_url}/?key={REDACTED}&more={SECRET}-more"}
        changed = await caller.post(f"/fine_tuning/jobs/{job['id']}/endpoints", {"tools": {"search": change}})
        shown = changed["method"]["reinforcement"]["tools"][0]
        assert shown["server_url"] == f"{customer.tool_url}/?key={REDACTED}&more={REDACTED}"
        elsewhere = {"grader": {"url": f"https://evil.example/?token={REDACTED}"}}
        refused = await caller.post(f"/fine_tuning/jobs/{job['id']}/endpoints", elsewhere, 400)
        assert refused["error"]["param"] == "grader.url", "what is kept goes where it went before"
        assert await task == "over"
    _, secrets = told(bench, job["id"])
    assert secrets.tool_urls == {"search": f"{customer.tool_url}/?key={SECRET}-tool&more={SECRET}-more"}
    assert secrets.grader_url == grader["url"]

    for path in ("/fine_tuning/jobs", f"/fine_tuning/jobs/{job['id']}/events", "/tools", "/graders", "/rehearsals"):
        await caller.get(path)
    assert rows_with(bench.database_url, SECRET) == []
    assert files_with(bench, SECRET) == []
    assert [reply for reply in caller.replies if SECRET in reply] == []
    assert [record.getMessage() for record in caplog.records if SECRET in record.getMessage()] == []


async def test_a_registered_url_sent_back_as_it_is_shown_is_kept(
    bench: Workbench, http: httpx.AsyncClient, customer: LoopbackEndpoint
) -> None:
    caller, tool = Caller(http), a_tool(customer)
    made = await caller.post("/tools", tool)
    path = f"/tools/{made['id']}"
    sent_back = {key: value for key, value in made.items() if key in tool}
    await caller.post(path, {**sent_back, "description": "Looks again."})
    await caller.post(path, {"url": f"{customer.tool_url}?{REDACTED}&v=3&key={REDACTED.replace('*', '%2A')}"})
    (stored,) = await bench.all("select sealed from registrations where id = %s", made["id"])
    whole = json.loads(SecretBox.at(bench.settings.home).unseal_text(stored["sealed"]))
    assert whole["server_url"] == f"{customer.tool_url}?{SECRET}bare==&v=3&key={SECRET}-tool"
    assert {key: whole[key] for key in ("callback_url", "our_webhook_url")} == {
        key: tool[key] for key in ("callback_url", "our_webhook_url")
    }
    for url in (f"https://evil.example/?key={REDACTED}", f"{customer.tool_url}?unknown={REDACTED}"):
        assert (await caller.post(path, {"server_url": url}, 400))["error"]["param"] == "server_url"
    callback = {"callback_url": f"https://evil.example/?sig={REDACTED}"}
    assert (await caller.post(path, callback, 400))["error"]["param"] == "callback_url"


async def test_what_an_earlier_release_stored_in_clear_is_sealed_at_the_next_start_and_stays_usable(
    bench: Workbench, customer: LoopbackEndpoint
) -> None:
    tool, grader = a_tool(customer), a_formula(customer)
    old_id = await bench.new_job(tools=[tool])
    method = an_order("", tool, grader)["method"]
    await bench.do("update jobs set method = %s::jsonb, request = %s::jsonb", json.dumps(method), json.dumps(tool))
    assert await validate_job(old_id, bench.context()) == "queued"
    await bench.do(
        "insert into regrades (id, job_id, status, grader, selection) values ('regrade-1', %s, 'failed', %s, '{}')",
        old_id,
        json.dumps(grader),
    )
    await bench.do(
        "insert into rehearsals (id, status, model, training_file, method, secrets, seed, plan)"
        " select 'rehearsal-1', 'completed', model, training_file, method, null, 1, '{}' from jobs"
    )
    await bench.do(
        "insert into registrations (id, kind, body, sealed) values ('tool_1', 'tool', %s, '')", json.dumps(tool)
    )
    assert await run_job(old_id, bench.context()) == "over", "it runs without having been sealed, too"
    spec, secrets = told(bench, old_id)
    assert (secrets.tool_urls, secrets.part_urls) == (
        {"search": tool["server_url"]},
        {"part": f"{customer.grader_url}?token={SECRET}-part"},
    )
    assert files_with(bench, SECRET) == []

    box = SecretBox.at(bench.settings.home)
    assert len(rows_with(bench.database_url, SECRET)) == 4
    assert await seal_stored_urls(bench.database, box) == 4
    assert rows_with(bench.database_url, SECRET) == []
    assert await seal_stored_urls(bench.database, box) == 0
    rotate_key(bench.settings.home / KEY_FILE, bench.database_url, settle_s=0.0)
    (row,) = await bench.all("select secrets, method from jobs")
    sealed = SecretBox.at(bench.settings.home).unseal(row["secrets"])
    assert (sealed.tool_urls, sealed.part_urls, sealed.callback_urls) == (
        secrets.tool_urls,
        secrets.part_urls,
        {"search": tool["callback_url"]},
    )
    assert sealed.tool_headers == {"search": {"Authorization": "Bearer tool-secret-value"}}
    assert row["method"]["reinforcement"]["tools"][0]["parameters"] == SCHEMA

    path = bench.run_dir(old_id) / "spec.json"
    in_clear = spec.tools[0].model_copy(update={"server_url": tool["server_url"]})
    path.write_text(spec.model_copy(update={"tools": (in_clear,)}).model_dump_json())
    assert redact_specs(bench.settings.runs_dir) == 1
    assert RunSpec.model_validate_json(path.read_text()) == spec
    assert redact_specs(bench.settings.runs_dir) == 0


async def test_a_row_whose_key_is_lost_stays_as_it_is(bench: Workbench, customer: LoopbackEndpoint) -> None:
    job_id = await bench.new_job(tools=[a_tool(customer)])
    (bench.settings.home / KEY_FILE).unlink()
    assert await seal_stored_urls(bench.database, SecretBox.at(bench.settings.home)) == 0
    assert re.search(SECRET, json.dumps((await bench.job(job_id))["method"]))
