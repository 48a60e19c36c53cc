"""A held or paused job's tools and grader get new addresses and headers, and its next trainer is told of them."""

import json
from typing import Any

import httpx
import pytest

from rft.core.spec import RunSecrets, RunSpec
from rft.platform.lifecycle.owner import is_alive
from rft.platform.queue.messages import RUN_JOB
from rft.platform.worker.run_job import run_job
from tests.integration.worker.test_hold import go_on, has_status, held_run
from tests.integration.worker.test_pause import hanging_run
from tests.integration.worker.workbench import Workbench
from tests.shared.waiting import until

NEW = {
    "tools": {"search": {"server_url": "http://127.0.0.1:9/search", "headers": {"Authorization": "Bearer new-token"}}}
}


async def headered_job(bench: Workbench) -> str:
    """A queued job whose tool and grader have headers, as creation would have stored them."""
    job_id = await bench.queued_job()
    await bench.do(
        "update jobs set method = jsonb_set(jsonb_set(method, '{reinforcement,tools,0,headers}',"
        """ '{"Authorization": "**********"}'), '{reinforcement,grader,headers}', '{"X-Key": "**********"}')"""
        " where id = %s",
        job_id,
    )
    return job_id


def told(bench: Workbench, job_id: str) -> tuple[RunSpec, RunSecrets]:
    """What the last trainer was handed."""
    spec = RunSpec.model_validate_json((bench.run_dir(job_id) / "spec.json").read_text())
    return spec, RunSecrets.model_validate_json((bench.control / "secrets.json").read_text())


async def changes_told(bench: Workbench, job_id: str) -> list[dict[str, Any]]:
    query = (
        "select message, level, data from job_events where job_id = %s and data->>'code' like 'endpoint%%' order by seq"
    )
    return await bench.all(query, job_id)


async def test_a_held_jobs_trainer_starts_again_with_the_new_endpoints(
    bench: Workbench, http: httpx.AsyncClient
) -> None:
    job_id = await headered_job(bench)
    async with held_run(bench, job_id) as task:
        spec, secrets = told(bench, job_id)
        assert (spec.tools[0].server_url, secrets.tool_headers["search"]) == (
            "http://127.0.0.1:9/tool",
            {"Authorization": "Bearer tool-secret-value"},
        )
        reply = await http.post(f"/{job_id}/endpoints", json=NEW)
        assert reply.status_code == 200, reply.text
        shown = reply.json()["method"]["reinforcement"]["tools"][0]
        assert (shown["server_url"], shown["headers"]) == (
            "http://127.0.0.1:9/search",
            {"Authorization": "**********"},
        )
        assert await task == "over"
    spec, secrets = told(bench, job_id)
    assert (spec.tools[0].server_url, spec.grader.model_dump()["url"]) == (
        "http://127.0.0.1:9/search",
        "http://127.0.0.1:9/grade",
    )
    assert secrets.tool_headers == {"search": {"Authorization": "Bearer new-token"}}
    assert secrets.grader_headers == {"X-Key": "grader-secret-value"}
    job = await bench.job(job_id)
    assert (job["status"], job["hold"], len(bench.launches)) == ("succeeded", None, 2)
    assert not is_alive(bench.launches[0])
    await bench.assert_every_step_once(job_id, steps=3)
    changed, doubtful = await changes_told(bench, job_id)
    assert changed["data"] == {
        "code": "endpoints_changed",
        "fields": ["tools.search.server_url", "tools.search.headers"],
    }
    assert "http://127.0.0.1:9/search" in changed["message"]
    assert "headers Authorization" in changed["message"]
    assert (doubtful["level"], doubtful["data"]["params"]) == ("warn", ["tools.search.server_url"])
    stored = json.dumps([await changes_told(bench, job_id), {**job, "secrets": None}], default=str)
    assert "new-token" not in stored
    assert "tool-secret-value" not in stored
    assert "new-token" not in (bench.run_dir(job_id) / "spec.json").read_text()


async def test_a_launch_that_ended_for_new_endpoints_is_no_sign_of_a_job_that_cannot_run(
    bench: Workbench, http: httpx.AsyncClient
) -> None:
    """However often a customer needs to get it right."""
    bench.changed_settings["max_launches_without_progress"] = 2
    job_id = await headered_job(bench)
    async with held_run(bench, job_id) as task:
        # From here on every launch is held in step 2 until the test says so.
        bench.plan(bench_plan_held_always())
        for number in range(4):
            headers = {"Authorization": f"Bearer token-{number}"}
            reply = await http.post(f"/{job_id}/endpoints", json={"tools": {"search": {"headers": headers}}})
            assert reply.status_code == 200, reply.text
            await until(lambda count=number + 2: is_held_again(bench, job_id, count), "the next trainer to be held")
            assert told(bench, job_id)[1].tool_headers["search"] == headers
        go_on(bench)
        assert await task == "over"
    assert (await bench.job(job_id))["status"] == "succeeded"
    await bench.assert_every_step_once(job_id, steps=3)


def bench_plan_held_always() -> Any:
    from tests.integration.worker.scripted_trainer import Fault, Plan

    return Plan(faults=(Fault(launch=0, step=2, how="hold"),))


async def is_held_again(bench: Workbench, job_id: str, launches: int) -> bool:
    return len(bench.launches) == launches and await has_status(bench, job_id, "paused")


async def test_a_paused_job_goes_on_with_the_new_endpoints(bench: Workbench, http: httpx.AsyncClient) -> None:
    job_id = await headered_job(bench)
    async with hanging_run(bench, job_id) as task:
        assert (await http.post(f"/{job_id}/endpoints", json=NEW)).json()["error"]["code"] == "invalid_state"
        assert (await http.post(f"/{job_id}/pause")).status_code == 200
        assert await task == "paused"
    reply = await http.post(f"/{job_id}/endpoints", json={"grader": {"url": "http://127.0.0.1:9/v2"}})
    assert (reply.status_code, reply.json()["status"]) == (200, "paused")
    assert (await http.post(f"/{job_id}/resume")).status_code == 200
    assert (await http.post(f"/{job_id}/endpoints", json=NEW)).json()["status"] == "queued"
    assert await run_job(job_id, bench.context()) == "over"
    spec, secrets = told(bench, job_id)
    assert (spec.tools[0].server_url, spec.grader.model_dump()["url"]) == (
        "http://127.0.0.1:9/search",
        "http://127.0.0.1:9/v2",
    )
    assert secrets.grader_headers == {"X-Key": "grader-secret-value"}
    refused = await http.post(f"/{job_id}/endpoints", json=NEW)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_state")
    assert bench.enqueued == [] or bench.enqueued[-1].task_name == RUN_JOB


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({}, None, "invalid_value"),
        ({"tools": {}}, "tools", "invalid_value"),
        ({"tools": None}, None, "nothing_to_change"),
        ({"grader": {"graders": None}}, None, "nothing_to_change"),
        ({"tools": {"serch": {"headers": None}}}, "tools.serch", "tool_not_found"),
        ({"tools": {"search": {"server_url": "ftp://x/"}}}, "tools.search.server_url", "invalid_value"),
        ({"tools": {"search": {"server_url": "http://10.1.2.3/", "headers": None}}}, "tools.search.server_url",
         "tool_unreachable"),
        ({"tools": {"search": {"server_url": "http://localhost:9/"}}}, "tools.search.headers", "invalid_value"),
        ({"tools": {"search": {"headers": {"Authorization": "a\r\nb"}}}}, "tools.search.headers", "invalid_value"),
        ({"grader": {"url": "http://10.1.2.3/", "headers": None}}, "grader.url", "grader_unreachable"),
        ({"grader": {"timeout_s": 3}}, "grader.timeout_s", None),
    ],
)  # fmt: skip
async def test_changes_that_cannot_be_made_are_refused_and_change_nothing(
    bench: Workbench, http: httpx.AsyncClient, body: dict[str, Any], param: str | None, code: str | None
) -> None:
    job_id = await headered_job(bench)
    before = await bench.job(job_id)
    reply = await http.post(f"/{job_id}/endpoints", json=body)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert (error["param"], error["code"] if code else None) == (param, code)
    assert await bench.job(job_id) == before
    assert (await http.post("/ftjob-none/endpoints", json=NEW)).status_code == 404
