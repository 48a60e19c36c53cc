"""Polling with `If-None-Match`: 304 as long as nothing changed, the new answer as soon as something did."""

from typing import Any

import httpx
import psycopg
import pytest
from openai import AsyncOpenAI
from psycopg.types.json import Jsonb

from rft.core.endpoint_load import EndpointLoad, LimitReason, NamedLoad
from rft.core.failure import Stage
from rft.core.progress import Activity, RunProgress
from tests.shared.running_api import Api
from tests.shared.train_events import step_done


async def poll(api: Api, path: str, etag: str | None = None) -> httpx.Response:
    """One look at one of the job's addresses."""
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {api.key}"}, timeout=60.0) as client:
        return await client.get(
            f"{api.url}/v1/fine_tuning/jobs/{path}", headers={"if-none-match": etag} if etag else {}
        )


@pytest.mark.parametrize("what", ["", "/events", "/steps", "/curves", "/diagnostics"])
async def test_nothing_new_is_said_in_one_line(
    client: AsyncOpenAI, order: dict[str, Any], api: Api, migrated_url: str, what: str
) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    path = job.id + what
    first = await poll(api, path)
    etag = first.headers["etag"]
    assert (first.status_code, etag[:3], first.headers["content-type"]) == (200, 'W/"', "application/json")
    for known in (etag, etag.removeprefix("W/"), f'"x", {etag}', "*"):
        again = await poll(api, path, known)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert (await poll(api, path, 'W/"other"')).content == first.content
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        await connection.execute("update jobs set lease_until = now()")
        assert (await poll(api, path, etag)).status_code == 304, "a heartbeat is nothing new"
        record = Jsonb(step_done(0, 3).model_dump(mode="json"))
        await connection.execute("insert into steps (job_id, step, record) values (%s, 0, %s)", (job.id, record))
        await connection.execute(
            "insert into job_events (id, job_id, level, type, message) values ('ftevent-x', %s, 'info', 'message', '')",
            (job.id,),
        )
        await connection.execute("update jobs set last_event_seq = 5, current_step = 0")
    changed = await poll(api, path, etag)
    assert (changed.status_code, changed.headers["etag"] != etag) == (200, True)
    assert changed.content != first.content


ATTEMPT = (
    "insert into attempts (job_id, step, trace_id, stage, endpoint, call_id, attempt, latency_ms, queued_ms,"
    " sent_bytes, received_bytes, at) values (%s, 3, 'trace', 'tool', 'search', 'call', 1, 900000, 0, 1, 1, now())"
)


async def test_diagnostics_are_new_once_an_endpoint_bears_more(
    client: AsyncOpenAI, order: dict[str, Any], api: Api, migrated_url: str
) -> None:
    path = (await client.fine_tuning.jobs.create(**order)).id + "/diagnostics"
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:

        async def tell(limit: int, in_flight: int) -> None:
            load = EndpointLoad(
                limit=limit,
                reason=LimitReason.REFUSED,
                changed_at=0.0,
                in_flight=in_flight,
                queued=in_flight,
                calls_per_s=1.0,
            )
            search = NamedLoad(stage=Stage.TOOL, endpoint="search", is_shared=False, load=load)
            told = RunProgress(activity=Activity.TRAINING, since=0.0, endpoints=(search,))
            await connection.execute("update jobs set progress = %s", (Jsonb(told.model_dump(mode="json")),))

        for step in range(4):
            record = Jsonb(step_done(step, 3).model_dump(mode="json"))
            await connection.execute(
                "insert into steps (job_id, step, record) select id, %s, %s from jobs", (step, record)
            )
        await connection.execute(ATTEMPT, (path.partition("/")[0],))
        await tell(1, in_flight=0)
        first = await poll(api, path)
        assert "bears 1 call at once" in first.json()["pace"]["message"]
        await tell(1, in_flight=1)
        assert (await poll(api, path, first.headers["etag"])).status_code == 304, "calls come and go"
        await tell(2, in_flight=1)
        changed = await poll(api, path, first.headers["etag"])
    assert changed.status_code == 200
    assert "bears 2 calls at once" in changed.json()["pace"]["message"]


@pytest.mark.parametrize("path", ["/fine_tuning/jobs?limit=5", "/fine_tuning/jobs/{job_id}/checkpoints"])
async def test_lists_of_jobs_and_checkpoints_can_be_polled(
    client: AsyncOpenAI, order: dict[str, Any], api: Api, migrated_url: str, path: str
) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    url = f"{api.url}/v1{path.format(job_id=job.id)}"
    headers = {"authorization": f"Bearer {api.key}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=60.0) as http,
        await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection,
    ):
        first = await http.get(url)
        known = {"if-none-match": first.headers["etag"]}
        assert (first.status_code, first.json()["has_more"]) == (200, False)
        assert (await http.get(url, headers=known)).status_code == 304
        await connection.execute("update jobs set current_step = 1")
        await connection.execute(
            "insert into checkpoints (id, job_id, step, path, metrics, is_kept)"
            " values ('ftckpt_1', %s, 1, 'x', '{}', true)",
            (job.id,),
        )
        changed = await http.get(url, headers=known)
    assert (changed.status_code, changed.json() != first.json()) == (200, True)


async def test_pages_have_tags_of_their_own(client: AsyncOpenAI, order: dict[str, Any], api: Api) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    whole = (await poll(api, f"{job.id}/events")).headers["etag"]
    assert (await poll(api, f"{job.id}/events?limit=1", whole)).status_code == 200


@pytest.mark.parametrize("what", ["", "/events", "/steps", "/curves", "/diagnostics"])
async def test_an_unknown_job_has_no_tag(api: Api, what: str) -> None:
    reply = await poll(api, f"ftjob-none{what}", "*")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "fine_tune_not_found")
