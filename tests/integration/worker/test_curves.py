"""A job's curves: true to its records, and bounded however long the job is."""

import json
from typing import Any

import httpx
import pytest
from psycopg.types.json import Jsonb

from rft.core.events import RunStarted, StepDone
from rft.platform.rollouts.curve_objects import CurvesObject, CurvesOfJobs, SplitCurves, StepCurves
from rft.platform.rollouts.diagnostics import DiagnosticsObject
from rft.platform.worker.ingest import Ingest
from rft.platform.worker.step_bucket_repository import BUCKET, store_buckets
from tests.integration.worker.test_stream_and_rollouts import ingest, store
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import step_done

__all__ = ["ingest"]
TOTAL = 2000


def a_step(number: int, **train: object) -> StepDone:
    """A step that is validated every tenth time; every figure of it different, but for those that are given."""
    step = step_done(number, TOTAL, evaluated=number % 10 == 0)
    if step.train is None:
        return step
    figures = {"tool_calls_mean": 1 + number % 7 / 10, "completion_tokens_mean": 100.0 + number % 13} | train
    timing = step.timing.model_copy(update={"full_step_s": 4.0 + number % 5})
    return step.model_copy(update={"train": step.train.model_copy(update=figures), "timing": timing})


async def fill(bench: Workbench, job_id: str, steps: list[StepDone]) -> None:
    async with bench.database.transaction() as connection, connection.cursor() as cursor:
        await cursor.executemany(
            "insert into steps (job_id, step, record) values (%s, %s, %s)"
            " on conflict (job_id, step) do update set record = excluded.record",
            [(job_id, step.step, Jsonb(step.model_dump(mode="json"))) for step in steps],
        )
        await store_buckets(connection, job_id, first=steps[0].step, last=steps[-1].step)


async def curves(http: httpx.AsyncClient, job_id: str, **query: int) -> CurvesObject:
    reply = await http.get(f"/{job_id}/curves", params=query)
    assert reply.status_code == 200, reply.text
    return CurvesObject.model_validate_json(reply.content, strict=True)


def drawn(step: StepDone) -> StepCurves:
    """What the curves should show of a step, worked out from its record."""
    record: dict[str, Any] = step.model_dump(mode="json")
    for split in ("train", "valid"):
        if record[split] is not None:
            estimate = record[split]["reward_estimate"] or {"mean": record[split]["reward_mean"]}
            figures = record[split] | {f"reward_{name}": estimate.get(name) for name in ("mean", "low", "high")}
            record[split] = {name: figures[name] for name in SplitCurves.model_fields}
            record[split]["tools"] = [
                {"name": tool["name"], "calls_per_rollout_mean": tool["calls_per_rollout_mean"]}
                for tool in record[split]["tools"]
            ]
    return StepCurves.model_validate({name: record[name] for name in StepCurves.model_fields})


def sums(steps: list[StepDone]) -> tuple[int, int, int]:
    stats = [stats for step in steps for stats in (step.train, step.valid) if stats is not None]
    return len(steps), sum(one.rollouts for one in stats), sum(one.excluded for one in stats)


async def test_a_short_job_is_drawn_whole(bench: Workbench, ingest: Ingest, http: httpx.AsyncClient) -> None:
    job_id = ingest.lease.id
    assert await curves(http, job_id) == CurvesObject(steps=0, rollouts=0, excluded=0, data=[])
    steps = [a_step(number) for number in range(40)]
    await store(bench, ingest, [RunStarted(resumed_from_step=None, total_steps=TOTAL, pid=1), *steps])
    found = await curves(http, job_id)
    assert [point.record for point in found.data] == [drawn(step) for step in steps]
    assert (found.steps, found.rollouts, found.excluded) == sums(steps)
    listed = (await http.get(f"/{job_id}/steps")).json()["data"]
    assert [(point.step, point.created_at) for point in found.data] == [(s["step"], s["created_at"]) for s in listed]


async def test_a_long_job_is_downsampled_but_for_what_matters(
    bench: Workbench, ingest: Ingest, http: httpx.AsyncClient
) -> None:
    job_id = ingest.lease.id
    special = {
        301: {"reward_mean": 9.5, "reward_estimate": None},
        777: {"reward_mean": -3.0, "reward_estimate": None},
        778: {"tool_calls_mean": 40.0},
        1203: {"completion_tokens_mean": 0.5},
        1404: {"excluded": 4},
    }
    steps = [a_step(number, **special.get(number, {})) for number in range(1500)]
    await fill(bench, job_id, steps)
    await bench.do("insert into checkpoints (id, job_id, step, path, metrics) values ('c', %s, 642, '', '{}')", job_id)
    found = await curves(http, job_id, points=100)
    shown = [point.step for point in found.data]
    assert len(shown) <= 100
    assert {0, 1499, 1490, 642, *special} <= set(shown)
    assert (found.steps, found.rollouts, found.excluded) == sums(steps)
    assert [point.record for point in found.data] == [drawn(steps[step]) for step in shown]


@pytest.mark.parametrize(
    "window",
    [(0, 10), (5, BUCKET - 1), (3, BUCKET), (BUCKET, 2 * BUCKET), (BUCKET + 1, 3 * BUCKET - 2), (700, 5000)],
)
async def test_a_window_has_its_own_sums_and_ends(
    bench: Workbench, ingest: Ingest, http: httpx.AsyncClient, window: tuple[int, int]
) -> None:
    job_id, (first, last) = ingest.lease.id, window
    steps = [a_step(number) for number in range(800)]
    await fill(bench, job_id, steps)
    found = await curves(http, job_id, points=60, from_step=first, to_step=last)
    wanted = steps[first : last + 1]
    assert (found.data[0].step, found.data[-1].step) == (wanted[0].step, wanted[-1].step)
    assert (found.steps, found.rollouts, found.excluded) == sums(wanted)
    assert len(found.data) <= 60


async def test_a_window_without_steps_is_empty(bench: Workbench, ingest: Ingest, http: httpx.AsyncClient) -> None:
    await fill(bench, ingest.lease.id, [a_step(number) for number in range(5)])
    assert (await curves(http, ingest.lease.id, from_step=9)).data == []
    assert (await curves(http, ingest.lease.id, from_step=4, to_step=2)).data == []
    assert (await curves(http, ingest.lease.id, from_step=2**31 - 2, to_step=0)).data == []


async def test_voided_and_repeated_steps_leave_no_trace(
    bench: Workbench, ingest: Ingest, http: httpx.AsyncClient
) -> None:
    job_id = ingest.lease.id
    await fill(
        bench, job_id, [a_step(number, reward_mean=5.0, reward_estimate=None) for number in range(2 * BUCKET + 9)]
    )
    await bench.do("delete from steps where job_id = %s and step > %s", job_id, BUCKET + 7)
    again = [a_step(number) for number in range(BUCKET + 8, 3 * BUCKET)]
    await fill(bench, job_id, again)
    rewritten = a_step(20, reward_mean=0.25, reward_estimate=None)
    await fill(bench, job_id, [rewritten])
    steps = [a_step(number, reward_mean=5.0, reward_estimate=None) for number in range(BUCKET + 8)] + again
    steps[20] = rewritten
    found = await curves(http, job_id, points=60)
    assert (found.steps, found.rollouts, found.excluded) == sums(steps)
    assert 20 in {point.step for point in found.data}
    assert [point.record for point in found.data] == [drawn(steps[point.step]) for point in found.data]


async def test_a_stream_goes_on_where_a_reply_ends(bench: Workbench, ingest: Ingest, http: httpx.AsyncClient) -> None:
    job_id = ingest.lease.id
    begin = [RunStarted(resumed_from_step=None, total_steps=TOTAL, pid=1), *(a_step(number) for number in range(3))]
    seq = await store(bench, ingest, begin)
    replies = [await http.get(f"/{job_id}/{what}") for what in ("curves", "events", "events?type=message", "steps")]
    (position,) = {reply.headers["last-event-id"] for reply in replies}
    await store(bench, ingest, [a_step(3)], after=seq)
    said: list[str] = []
    async with http.stream("GET", f"/{job_id}/stream", headers={"Last-Event-ID": position}) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: ") and '"step"' in line:
                said.append(line)
                break
    assert json.loads(said[0].removeprefix("data: "))["step"] == 3


async def test_events_of_one_type(bench: Workbench, ingest: Ingest, http: httpx.AsyncClient) -> None:
    job_id = ingest.lease.id
    await store(
        bench, ingest, [RunStarted(resumed_from_step=None, total_steps=TOTAL, pid=1), *(a_step(n) for n in range(3))]
    )
    everything = (await http.get(f"/{job_id}/events")).json()["data"]
    for wanted in ("message", "metrics"):
        page = (await http.get(f"/{job_id}/events", params={"type": wanted})).json()["data"]
        assert page == [event for event in everything if event["type"] == wanted]
    newest = everything[0]["id"]
    rest = (await http.get(f"/{job_id}/events", params={"type": "metrics", "after": newest, "limit": 1})).json()
    assert (len(rest["data"]), rest["has_more"]) == (1, True)


async def test_curves_of_several_jobs_come_at_once(bench: Workbench, ingest: Ingest, http: httpx.AsyncClient) -> None:
    """In the order in which they were asked for, each as its job's own; a job that there is none of is left out."""
    drawn_job, waiting = ingest.lease.id, await bench.queued_job()
    await fill(bench, drawn_job, [a_step(number) for number in range(300)])
    url = http.base_url.copy_with(path="/v1/dashboard/curves")
    asked = [waiting, "ftjob-no", drawn_job, waiting]
    reply = await http.get(url, params={"job": asked, "points": 50})
    told = CurvesOfJobs.model_validate_json(reply.content, strict=True)
    assert [one.job for one in told.data] == [waiting, drawn_job]
    assert (told.data[0].curves.steps, told.data[0].curves.data) == (0, [])
    assert told.data[1].curves == await curves(http, drawn_job, points=50)
    assert told.data[1].rollouts_spent is None
    reply = await http.get(url, params={"job": asked, "points": 50, "spent": True})
    waits, drawn = CurvesOfJobs.model_validate_json(reply.content, strict=True).data
    assert waits.rollouts_spent == []
    steps = (await http.get(f"/{drawn_job}/steps")).json()["data"]
    rollouts = [
        sum((step["record"][split] or {"rollouts": 0})["rollouts"] for split in ("train", "valid")) for step in steps
    ]
    assert drawn.rollouts_spent == [sum(rollouts[: point.step + 1]) for point in drawn.curves.data]
    for query in ({}, {"job": ["ftjob"] * 101}, {"job": ["ftjob"], "points": 501}):
        assert (await http.get(url, params=query)).status_code == 400


async def test_diagnostics_are_those_of_the_steps_that_are_drawn(
    bench: Workbench, ingest: Ingest, http: httpx.AsyncClient
) -> None:
    job_id = ingest.lease.id
    steps = [a_step(number, stop_reasons={"answered": number, "length": 1}) for number in range(300)]
    await fill(bench, job_id, steps)
    query = {"points": 60, "from_step": 20, "to_step": 280}
    found = DiagnosticsObject.model_validate_json(
        (await http.get(f"/{job_id}/diagnostics", params=query)).content, strict=True
    )
    assert [point.step for point in found.data] == [point.step for point in (await curves(http, job_id, **query)).data]
    for point in found.data:
        record = steps[point.step]
        assert record.train is not None
        assert point.optimization == record.optimization
        assert (point.groups, point.stop_reasons) == (record.train.groups, record.train.stop_reasons)
        assert [tool.name for tool in point.tools] == [tool.name for tool in record.train.tools]
        timing = record.timing
        rolling_out_s = timing.sampling_s + timing.tools_s + timing.grading_s
        assert point.sampled_tokens_per_s == pytest.approx(record.train.completion_tokens_total / rolling_out_s)
    first = (await http.get(f"/{job_id}/diagnostics", params={"to_step": 0})).json()["data"]
    assert [(point["step"], point["groups"], point["stop_reasons"]) for point in first] == [(0, None, None)]
