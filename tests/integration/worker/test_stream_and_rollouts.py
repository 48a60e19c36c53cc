"""What the dashboard reads: steps, rollouts and the live stream, over a real socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import httpx
import pytest

from rft.core.events import RunEnded, RunStarted, TrainEvent
from rft.platform.api.event_stream import EventStream
from rft.platform.stream import endpoints
from rft.platform.worker.ingest import Ingest
from tests.integration.worker.ingesting import leased
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import logged, one_step, whole_run
from tests.shared.waiting import PATIENCE_S

STEPS = 3


@pytest.fixture
async def ingest(bench: Workbench) -> Ingest:
    """A running job's writer."""
    return await leased(bench)


async def store(bench: Workbench, ingest: Ingest, events: Sequence[TrainEvent], *, after: int = 0) -> int:
    async with bench.database.transaction() as connection:
        return (await ingest.batch(connection, logged(events, after=after))).last_seq


class Messages:
    """Server-sent events of one response, as a browser reads them."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()
        self.last_id: str | None = None

    async def next(self) -> tuple[str, Any] | None:
        """Event name and data; None at the end."""
        name, data = "message", ""
        async for line in self._lines:
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                data += value
            elif field == "id":
                self.last_id = value
            elif line == "" and data:
                return name, json.loads(data)
        return None

    async def all(self) -> list[tuple[str, Any]]:
        """Up to the end."""
        return [message async for message in self]

    async def __aiter__(self) -> AsyncIterator[tuple[str, Any]]:
        while (message := await self.next()) is not None:
            yield message


async def test_a_finished_job_is_told_whole_and_ends(bench: Workbench, ingest: Ingest, http: httpx.AsyncClient) -> None:
    job_id = ingest.lease.id
    await store(bench, ingest, whole_run(job_id, steps=STEPS))
    async with http.stream("GET", f"/{job_id}/stream") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        messages = await Messages(response).all()
    assert [data["step"] for name, data in messages if name == "step"] == [0, 1, 2, 3]
    assert [data["record"]["type"] for name, data in messages if name == "step"] == ["step_done"] * 4
    events = [data["message"] for name, data in messages if name == "event"]
    assert events == [row["message"] for row in await all_events(bench, job_id)]
    name, job = messages[-1]
    assert (name, job["id"], job["status"], job["object"]) == ("job", job_id, "succeeded", "fine_tuning.job")


async def all_events(bench: Workbench, job_id: str) -> list[dict[str, Any]]:
    return await bench.all("select message from job_events where job_id = %s order by seq", job_id)


async def test_news_arrive_while_the_job_runs_and_a_broken_stream_goes_on_where_it_was(
    bench: Workbench, ingest: Ingest, http: httpx.AsyncClient
) -> None:
    job_id = ingest.lease.id
    seq = await store(bench, ingest, [RunStarted(resumed_from_step=None, total_steps=STEPS, pid=1)])
    async with http.stream("GET", f"/{job_id}/stream") as response:
        messages = Messages(response)
        first = await messages.next()
        assert first is not None
        assert (first[0], first[1]["status"]) == ("job", "running")
        seq = await store(bench, ingest, list(one_step(job_id, 0, STEPS, rollouts=3)), after=seq)
        async with asyncio.timeout(PATIENCE_S):
            seen = [first[1]["current_step"]]
            async for name, data in messages:
                if name == "step":
                    assert data["step"] == 0
                if name == "event" and data["type"] == "metrics":
                    break
        last_id = messages.last_id
        assert seen == [None]
    assert last_id is not None
    ended: list[TrainEvent] = [*one_step(job_id, 1, STEPS, rollouts=3), RunEnded(outcome="succeeded", best_step=1)]
    await store(bench, ingest, ended, after=seq)
    async with http.stream("GET", f"/{job_id}/stream", headers={"Last-Event-ID": last_id}) as response:
        rest = Messages(response)
        told = await rest.all()
    assert [data["step"] for name, data in told if name == "step"] == [1]
    assert [data["message"] for name, data in told if name == "event"][-1] == "The job has successfully completed"
    assert told[-1][0] == "job"
    async with http.stream("GET", f"/{job_id}/stream", headers={"Last-Event-ID": str(rest.last_id)}) as response:
        assert [name for name, _ in await Messages(response).all()] == ["job"]


async def test_a_stream_without_news_says_that_it_lives(
    bench: Workbench, ingest: Ingest, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "EventStream", partial(EventStream, silence_s=0.1))
    job_id = ingest.lease.id
    async with asyncio.timeout(PATIENCE_S), http.stream("GET", f"/{job_id}/stream") as response:
        assert response.headers["x-accel-buffering"] == "no", "or a proxy may keep what is said until there is more"
        lines = response.aiter_lines()
        signs = 0
        async for line in lines:
            signs += line == ": still there"
            if signs == 3:
                await store(bench, ingest, [RunStarted(resumed_from_step=None, total_steps=STEPS, pid=1)])
            if line == "event: job" and signs >= 3:
                break
        assert signs < 100, "news ends the wait, not the next sign of life"


async def test_ids_only_grow(bench: Workbench, ingest: Ingest, http: httpx.AsyncClient) -> None:
    await store(bench, ingest, whole_run(ingest.lease.id, steps=STEPS))
    async with http.stream("GET", f"/{ingest.lease.id}/stream") as response:
        ids = [int(line.removeprefix("id: ")) async for line in response.aiter_lines() if line.startswith("id: ")]
    assert ids == sorted(ids)
    assert len(set(ids)) >= len(ids) - 1


@pytest.mark.parametrize("last_event_id", ["", "nonsense", "-1", "99999999999999999999999", "9" * 5000])
async def test_a_strange_last_event_id_breaks_nothing(
    bench: Workbench, ingest: Ingest, http: httpx.AsyncClient, last_event_id: str
) -> None:
    await store(bench, ingest, whole_run(ingest.lease.id, steps=1))
    url = f"/{ingest.lease.id}/stream"
    async with http.stream("GET", url, headers={"Last-Event-ID": last_event_id}) as response:
        assert (await Messages(response).all())[-1][0] == "job"


async def test_an_unknown_job_is_not_found(bench: Workbench, http: httpx.AsyncClient) -> None:
    for path in ("stream", "steps", "rollouts", "rollouts/trace_1"):
        response = await http.get(f"/ftjob-none/{path}")
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "fine_tune_not_found"


async def test_steps_are_listed_oldest_first(bench: Workbench, ingest: Ingest, http: httpx.AsyncClient) -> None:
    job_id = ingest.lease.id
    await store(bench, ingest, whole_run(job_id, steps=STEPS))
    page = (await http.get(f"/{job_id}/steps")).json()
    assert [entry["step"] for entry in page["data"]] == [0, 1, 2, 3]
    assert page["has_more"] is False
    assert page["data"][0]["record"]["train"] is None
    assert page["data"][1]["record"]["optimization"]["trained_tokens"] == 100
    page = (await http.get(f"/{job_id}/steps", params={"after": "1", "limit": 1})).json()
    assert ([entry["step"] for entry in page["data"]], page["has_more"]) == ([2], True)
    assert (await http.get(f"/{job_id}/steps", params={"after": "x"})).status_code == 400


async def test_rollouts_are_paged_without_loss(bench: Workbench, ingest: Ingest, http: httpx.AsyncClient) -> None:
    job_id = ingest.lease.id
    await store(bench, ingest, whole_run(job_id, steps=STEPS, rollouts=5))
    found: list[dict[str, Any]] = []
    after: dict[str, str] = {}
    while True:
        page = (await http.get(f"/{job_id}/rollouts", params={"limit": 7, **after})).json()
        found.extend(page["data"])
        if not page["has_more"]:
            break
        after = {"after": page["last_id"]}
    assert len({rollout["id"] for rollout in found}) == len(found) == (STEPS + 1) * 6
    places = [(-r["step"], r["split"], r["row_index"], r["group_index"]) for r in found]
    assert places == sorted(places)


@pytest.mark.parametrize(
    "wanted",
    [
        {"split": "train"},
        {"split": "valid"},
        {"outcome": "failed"},
        {"outcome": "graded"},
        {"row_index": 1},
        {"row_index": 0, "outcome": "graded"},
        {"step": 2},
    ],
    ids=str,
)
async def test_filtered_rollouts_are_paged_without_loss(
    bench: Workbench, ingest: Ingest, http: httpx.AsyncClient, wanted: dict[str, Any]
) -> None:
    job_id = ingest.lease.id
    await store(bench, ingest, whole_run(job_id, steps=STEPS, rollouts=5))
    whole = (await http.get(f"/{job_id}/rollouts", params={"limit": 1000, **wanted})).json()["data"]
    found: list[dict[str, Any]] = []
    after: dict[str, str] = {}
    while True:
        page = (await http.get(f"/{job_id}/rollouts", params={"limit": 2, **wanted, **after})).json()
        found.extend(page["data"])
        if not page["has_more"]:
            break
        after = {"after": page["last_id"]}
    assert whole
    assert found == whole


async def test_a_page_may_begin_behind_a_rollout_that_the_filter_leaves_out(
    bench: Workbench, ingest: Ingest, http: httpx.AsyncClient
) -> None:
    job_id = ingest.lease.id
    await store(bench, ingest, whole_run(job_id, steps=STEPS, rollouts=5))
    everything = (await http.get(f"/{job_id}/rollouts", params={"limit": 1000})).json()["data"]
    for place, rollout in enumerate(everything):
        params = {"limit": 1000, "split": "valid", "after": rollout["id"]}
        behind = (await http.get(f"/{job_id}/rollouts", params=params)).json()["data"]
        assert behind == [other for other in everything[place + 1 :] if other["split"] == "valid"]


async def test_rollouts_are_filtered(bench: Workbench, ingest: Ingest, http: httpx.AsyncClient) -> None:
    job_id = ingest.lease.id
    await store(bench, ingest, whole_run(job_id, steps=STEPS, rollouts=5))

    async def listed(**params: Any) -> list[dict[str, Any]]:
        return (await http.get(f"/{job_id}/rollouts", params=params)).json()["data"]

    assert len(await listed(step=2)) == 6
    assert {rollout["split"] for rollout in await listed(split="valid")} == {"valid"}
    assert {rollout["row_index"] for rollout in await listed(row_index=1, step=1)} == {1}
    failed = await listed(outcome="failed")
    assert [(r["failure_code"], r["failure_stage"], r["reward"]) for r in failed] == [("timeout", "tool", None)] * 4
    assert all(rollout["reward"] is not None for rollout in await listed(outcome="graded"))
    response = await http.get(f"/{job_id}/rollouts", params={"outcome": "lost"})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "outcome")
    response = await http.get(f"/{job_id}/rollouts", params={"after": "trace_none"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_cursor")


async def test_a_rollout_is_told_message_by_message(bench: Workbench, ingest: Ingest, http: httpx.AsyncClient) -> None:
    job_id = ingest.lease.id
    await store(bench, ingest, whole_run(job_id, steps=1))
    summary = (await http.get(f"/{job_id}/rollouts", params={"step": 1, "outcome": "graded"})).json()["data"][0]
    detail = (await http.get(f"/{job_id}/rollouts/{summary['id']}")).json()
    assert {key: detail[key] for key in summary} == summary
    assert [message["role"] for message in detail["record"]["messages"]] == ["user", "assistant"]
    assert detail["record"]["outcome"]["scores"] == {"judge": 0.5}
    assert (await http.get(f"/{job_id}/rollouts/trace_none")).json()["error"]["code"] == "not_found"
