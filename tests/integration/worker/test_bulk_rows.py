"""Rollouts and attempts as they are stored by the thousand, and read back without being looked at again."""

import httpx
from pydantic import BaseModel

from rft.core.events import RunStarted, TrainEvent
from rft.platform.api.pagination import ListPage
from rft.platform.jobs.objects import EventObject
from rft.platform.rollouts.objects import RolloutDetail, RolloutSummary
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.test_rollout_tokens import measured, sampled
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import attempts_made, began, logged, one_step, rollout_done


async def test_pages_are_what_the_document_says_of_them(bench: Workbench, http: httpx.AsyncClient) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    started = RunStarted(resumed_from_step=None, total_steps=1, pid=1)
    failed = rollout_done(job_id, 1, 7, failed=True)
    await store(bench, ingest, logged([started, *one_step(job_id, 1, 1, rollouts=2), failed]))
    rollouts = (await http.get(f"/{job_id}/rollouts")).content
    events = (await http.get(f"/{job_id}/events")).content
    found = ListPage[RolloutSummary].model_validate_json(rollouts, strict=True)
    ListPage[EventObject].model_validate_json(events, strict=True)
    assert found.model_dump_json().encode() == rollouts, "field by field and in order"
    assert ListPage[EventObject].model_validate_json(events).model_dump_json().encode() == events
    for summary in found.data:
        detail = RolloutDetail.model_validate_json((await http.get(f"/{job_id}/rollouts/{summary.id}")).content)
        assert _without_record(detail) == summary


def _without_record(detail: BaseModel) -> RolloutSummary:
    return RolloutSummary.model_validate(detail.model_dump(exclude={"record", "status", "superseded_by"}))


async def test_an_empty_page_is_one_of_a_job_that_exists(bench: Workbench, http: httpx.AsyncClient) -> None:
    job_id = (await leased(bench)).lease.id
    page = (await http.get(f"/{job_id}/rollouts")).json()
    assert page == {"object": "list", "data": [], "has_more": False, "first_id": None, "last_id": None}
    for path in ("", "?after=trace_x", "/trace_x"):
        reply = await http.get(f"/ftjob-none/rollouts{path}")
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "fine_tune_not_found"), path
    assert (await http.get(f"/{job_id}/rollouts?after=trace_x")).json()["error"]["code"] == "invalid_cursor"


async def test_an_attempt_that_ended_late_is_listed_with_its_rollout(bench: Workbench, http: httpx.AsyncClient) -> None:
    ingest = await leased(bench)
    job_id, rollout = ingest.lease.id, rollout_done(ingest.lease.id, 1, 0)
    late = attempts_made(2, rollout.trace_id, None)
    await store(bench, ingest, logged([attempts_made(1, rollout.trace_id, None), rollout, late]))
    page = (await http.get(f"/{job_id}/rollouts/{rollout.trace_id}/attempts")).json()
    assert [one["step"] for one in page["data"]] == [1, 2]


async def test_what_is_stored_in_bulk_goes_with_its_job_and_no_other(bench: Workbench) -> None:
    jobs: list[str] = []
    for ingest in (await leased(bench), await leased(bench)):
        job_id = ingest.lease.id
        jobs.append(job_id)
        rollout = rollout_done(job_id, 1, 0)
        under_way = began(rollout_done(job_id, 1, 1))
        told: list[TrainEvent] = [sampled(rollout), rollout, measured(rollout, [0.0] * 4), under_way]
        await store(bench, ingest, logged([*told, attempts_made(1, rollout.trace_id, None, None)]))
    gone, kept = jobs
    async with bench.database.transaction() as connection:
        await connection.execute("delete from jobs where id = %s", (gone,))
    assert [row["job_id"] for row in await bench.all("select job_id from rollouts")] == [kept]
    assert [row["job_id"] for row in await bench.all("select job_id from attempts")] == [kept, kept]
    assert [row["job_id"] for row in await bench.all("select job_id from begun_rollouts")] == [kept]
    for query in (
        "select distinct job_id from rollout_tokens",
        "select distinct job_id from token_prompts",
        "select distinct job_id from token_pieces",
        "select distinct job_id from token_ratios",
    ):
        assert [row["job_id"] for row in await bench.all(query)] == [kept], query
