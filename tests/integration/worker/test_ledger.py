"""The failure ledger: every attempt of every call, by rollout and summed up by endpoint."""

from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rft.core.events import AttemptsMade, RunStarted, TrainEvent
from rft.core.failure import FailureCode, Stage
from rft.platform.lifecycle.lease import LeaseLost
from rft.platform.worker.ingest import Ingest
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import (
    START,
    attempts_made,
    logged,
    one_step,
    rollout_done,
    step_done,
)

TIMEOUT, BUSY = FailureCode.TIMEOUT, FailureCode.SERVER_ERROR


async def stored(bench: Workbench, ingest: Ingest) -> list[tuple[int, str, str | None]]:
    rows = await bench.all("select * from attempts where job_id = %s order by id", ingest.lease.id)
    return [(row["step"], row["trace_id"], row["code"]) for row in rows]


def a_run(job_id: str) -> list[TrainEvent]:
    """Died in step 2 and resumed from step 1; in each step one rollout that met a tool failure."""
    events: list[TrainEvent] = [RunStarted(resumed_from_step=None, total_steps=2, pid=1)]
    for step in (0, 1):
        events.append(attempts_made(step, rollout_done(job_id, step, 0).trace_id, TIMEOUT, None))
        events.extend(one_step(job_id, step, 2, rollouts=2))
    events.append(attempts_made(2, "trace_lost", BUSY))
    events.append(RunStarted(resumed_from_step=1, total_steps=2, pid=2))
    events.append(attempts_made(2, rollout_done(job_id, 2, 0).trace_id, BUSY, BUSY, None))
    events.append(attempts_made(2, rollout_done(job_id, 2, 0).trace_id, None, stage=Stage.GRADER))
    return [*events, *one_step(job_id, 2, 2, rollouts=2)]


async def test_a_rollouts_attempts_are_told_in_order(bench: Workbench, http: httpx.AsyncClient) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    await store(bench, ingest, logged(a_run(job_id)))
    trace_id = rollout_done(job_id, 2, 0).trace_id
    url = f"/{job_id}/rollouts/{trace_id}/attempts"
    page = (await http.get(url)).json()
    assert [(one["stage"], one["attempt"], one["code"], one["status"]) for one in page["data"]] == [
        ("tool", 1, "server_error", 503),
        ("tool", 2, "server_error", 503),
        ("tool", 3, None, 200),
        ("grader", 1, None, 200),
    ]
    third = page["data"][2]
    assert {key: third[key] for key in ("object", "step", "trace_id", "endpoint", "call_id")} == {
        "object": "fine_tuning.job.attempt",
        "step": 2,
        "trace_id": trace_id,
        "endpoint": "search",
        "call_id": "call_1",
    }
    assert (third["sent_bytes"], third["received_bytes"], third["at"]) == (300, 40, START + 3)
    assert (third["latency_ms"], third["queued_ms"]) == (pytest.approx(30), pytest.approx(3))
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        part = (await http.get(url, params={"limit": 3, **after})).json()
        found.extend(one["id"] for one in part["data"])
        if not part["has_more"]:
            break
        after = {"after": part["last_id"]}
    assert found == [one["id"] for one in page["data"]]


async def test_what_cannot_be_found_is_said(bench: Workbench, http: httpx.AsyncClient) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    await store(bench, ingest, logged([attempts_made(1, "trace_running", None), rollout_done(job_id, 1, 0)]))
    assert len((await http.get(f"/{job_id}/rollouts/trace_running/attempts")).json()["data"]) == 1
    called_nobody = rollout_done(job_id, 1, 0).trace_id
    assert (await http.get(f"/{job_id}/rollouts/{called_nobody}/attempts")).json()["data"] == []
    assert (await http.get(f"/{job_id}/rollouts/trace_none/attempts")).status_code == 404
    assert (await http.get("/ftjob-none/rollouts/trace_running/attempts")).status_code == 404
    assert (await http.get("/ftjob-none/endpoints")).status_code == 404
    for after in ("x", "-1", "99999999999999999999", "²"):
        reply = await http.get(f"/{job_id}/rollouts/trace_running/attempts", params={"after": after})
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "after")


async def test_what_we_gave_up_ourselves_is_listed_but_no_error_of_the_endpoint(
    bench: Workbench, http: httpx.AsyncClient
) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    await store(bench, ingest, logged([attempts_made(1, "trace_late", None, BUSY, None, FailureCode.CANCELLED)]))
    [tool] = (await http.get(f"/{job_id}/endpoints")).json()["data"]
    assert (tool["attempts"], tool["errors"], tool["error_share"]) == (4, 1, 1 / 4)
    assert tool["errors_by_code"]["cancelled"] == {"count": 1, "share": 1 / 4}
    assert tool["last_failure"]["code"] == "server_error"


async def test_4xx_that_the_model_read_are_counted_apart_by_status(bench: Workbench, http: httpx.AsyncClient) -> None:
    """A URL that is wrong by one letter is neither an error nor healthy."""
    ingest = await leased(bench)
    job_id = ingest.lease.id
    made = attempts_made(1, "trace_lost", None, None, None, None, BUSY)
    statuses = (404, 404, 422, 200, 503)
    attempts = tuple(replace(one, status=status) for one, status in zip(made.attempts, statuses, strict=True))
    await store(bench, ingest, logged([made.model_copy(update={"attempts": attempts})]))
    [tool] = (await http.get(f"/{job_id}/endpoints")).json()["data"]
    assert (tool["attempts"], tool["errors"], tool["client_errors"], tool["client_error_share"]) == (5, 1, 3, 3 / 5)
    assert tool["client_errors_by_status"] == {"404": {"count": 2, "share": 2 / 5}, "422": {"count": 1, "share": 1 / 5}}
    assert tool["errors_by_code"] == {"server_error": {"count": 1, "share": 1 / 5}}
    assert (tool["last_client_error"]["status"], tool["last_client_error"]["code"]) == (422, None)
    assert tool["last_failure"]["status"] == 503
    assert tool["warning"] is None


async def test_a_tool_that_refuses_nearly_every_call_is_warned_of(bench: Workbench, http: httpx.AsyncClient) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    made = attempts_made(1, "trace_lost", *[None] * 6)
    attempts = tuple(replace(one, status=404) for one in made.attempts)
    await store(bench, ingest, logged([made.model_copy(update={"attempts": attempts})]))
    [tool] = (await http.get(f"/{job_id}/endpoints")).json()["data"]
    assert tool["warning"] == f"{tool['endpoint']} answered 404 to nearly every call: check its URL."


async def test_endpoints_are_summed_up_over_a_window_of_steps(bench: Workbench, http: httpx.AsyncClient) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    assert (await http.get(f"/{job_id}/endpoints")).json()["data"] == []
    await store(bench, ingest, logged(a_run(job_id)))
    tool, grader = (await http.get(f"/{job_id}/endpoints")).json()["data"]
    assert (tool["id"], tool["from_step"], tool["to_step"]) == ("tool:search", 0, 2)
    assert (tool["attempts"], tool["errors"], tool["error_share"]) == (7, 4, 4 / 7)
    assert tool["errors_by_code"] == {
        "server_error": {"count": 2, "share": 2 / 7},
        "timeout": {"count": 2, "share": 2 / 7},
    }
    assert (tool["latency_p50_ms"], tool["latency_p95_ms"]) == (pytest.approx(20), pytest.approx(27))
    last = tool["last_failure"]
    assert (last["code"], last["step"], last["attempt"], last["at"]) == ("server_error", 2, 2, START + 2)
    assert (grader["id"], grader["errors"], grader["errors_by_code"], grader["last_failure"]) == (
        "grader:judge",
        0,
        {},
        None,
    )
    page = (await http.get(f"/{job_id}/endpoints", params={"from_step": 0, "to_step": 0})).json()
    assert [(one["id"], one["attempts"]) for one in page["data"]] == [("tool:search", 2)]
    only_last = (await http.get(f"/{job_id}/endpoints", params={"from_step": 2})).json()["data"]
    assert [one["attempts"] for one in only_last] == [3, 1]
    for params, param in (({"from_step": 2, "to_step": 1}, "to_step"), ({"from_step": 9}, "from_step")):
        reply = await http.get(f"/{job_id}/endpoints", params=params)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


async def test_a_resumed_run_voids_the_attempts_of_later_steps(bench: Workbench) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    await store(bench, ingest, logged(a_run(job_id)))
    found = await stored(bench, ingest)
    assert ("trace_lost" in [trace_id for _, trace_id, _ in found]) is False
    assert [step for step, _, _ in found] == [0, 0, 1, 1, 2, 2, 2, 2]


@given(cuts=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=6))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_replay_gives_every_attempt_once(bench: Workbench, cuts: list[tuple[int, int]]) -> None:
    ingest = await leased(bench)
    lines, last = logged(a_run(ingest.lease.id)), 0
    for back, length in cuts:
        start = max(0, last - back)
        last = (await store(bench, ingest, lines[start : start + length])).last_seq
    await store(bench, ingest, lines)
    assert [step for step, _, _ in await stored(bench, ingest)] == [0, 0, 1, 1, 2, 2, 2, 2]


async def test_a_stale_token_adds_no_line(bench: Workbench) -> None:
    ingest = await leased(bench)
    await bench.do("update jobs set lease_token = lease_token + 1 where id = %s", ingest.lease.id)
    with pytest.raises(LeaseLost):
        await store(bench, ingest, logged([attempts_made(0, "trace_1", None)]))
    assert await stored(bench, ingest) == []


async def test_strange_text_and_empty_events_are_taken(bench: Workbench, http: httpx.AsyncClient) -> None:
    ingest = await leased(bench)
    odd = attempts_made(0, "trace_odd", None).attempts[0]
    strange = AttemptsMade(step=0, attempts=(replace(odd, call_id="tab\t\\N nul\x00 \n"),))
    done = await store(bench, ingest, logged([AttemptsMade(step=0, attempts=()), strange, step_done(0, 2)]))
    assert done.last_seq == 3
    page: Any = (await http.get(f"/{ingest.lease.id}/rollouts/trace_odd/attempts")).json()
    assert page["data"][0]["call_id"] == "tab\t\\N nul\ufffd \n"
