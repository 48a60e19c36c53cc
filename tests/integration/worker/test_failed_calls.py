"""Calls that went wrong, from the log to whoever asks for them: the newest twenty of each endpoint of a job."""

from collections.abc import Sequence

import httpx

from rft.core.events import CallsFailed, RunStarted
from rft.core.failed_call import FailedCall
from rft.core.failure import FailureCode, Stage
from rft.platform.worker.failed_call_repository import KEPT
from rft.platform.worker.ingest import Ingest
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import START, logged


def failed(number: int, *, stage: Stage = Stage.TOOL, endpoint: str = "search") -> FailedCall:
    return FailedCall(
        START + number, f"trace_{number}", stage, endpoint, "call_1", 1, FailureCode.SERVER_ERROR, 503,
        "answered 503", f"NUL \x00 of {number}", None,
    )  # fmt: skip


async def tell(bench: Workbench, ingest: Ingest, calls: Sequence[FailedCall], *, after: int) -> None:
    await store(bench, ingest, logged([CallsFailed(calls=tuple(calls))], after=after))


async def asked(http: httpx.AsyncClient, job: str, stage: str, endpoint: str) -> list[dict[str, object]]:
    url = str(http.base_url).rstrip("/").replace("/fine_tuning/jobs", "/dashboard/endpoints/failed_calls")
    reply = await http.get(url, params={"job": job, "stage": stage, "endpoint": endpoint})
    assert reply.status_code == 200, reply.text
    return reply.json()["data"]


async def test_the_newest_of_each_endpoint_are_kept(bench: Workbench, http: httpx.AsyncClient) -> None:
    ingest, other = await leased(bench), await leased(bench)
    job = ingest.lease.id
    await tell(bench, ingest, [failed(number) for number in range(KEPT)], after=0)
    await tell(bench, ingest, [failed(100), failed(101, stage=Stage.GRADER), failed(102, endpoint="lookup")], after=1)
    await tell(bench, other, [failed(200)], after=0)
    found = await asked(http, job, "tool", "search")
    assert [one["trace_id"] for one in found] == ["trace_100", *(f"trace_{n}" for n in reversed(range(1, KEPT)))]
    first = found[0]
    assert (first["code"], first["status"], first["message"], first["reply"]) == (
        "server_error", 503, "answered 503", None,
    )  # fmt: skip
    assert str(first["request"]).endswith(" of 100")
    assert first["at"] == START + 100
    assert [one["trace_id"] for one in await asked(http, job, "grader", "search")] == ["trace_101"]
    assert [one["trace_id"] for one in await asked(http, other.lease.id, "tool", "search")] == ["trace_200"]
    assert await asked(http, "ftjob-nobody", "tool", "search") == []


async def test_a_grader_of_the_longest_name_has_them_too(bench: Workbench, http: httpx.AsyncClient) -> None:
    name = "".join(chr(0x20000 + number * 37 % 40_000) for number in range(512))
    ingest = await leased(bench)
    await tell(bench, ingest, [failed(1, stage=Stage.GRADER, endpoint=name)], after=0)
    assert [one["trace_id"] for one in await asked(http, ingest.lease.id, "grader", name)] == ["trace_1"]


async def test_they_stay_when_a_run_is_taken_over_and_go_with_their_job(
    bench: Workbench, http: httpx.AsyncClient
) -> None:
    ingest = await leased(bench)
    await tell(bench, ingest, [failed(1)], after=0)
    await store(bench, ingest, logged([RunStarted(resumed_from_step=None, total_steps=1, pid=2)], after=1))
    assert len(await asked(http, ingest.lease.id, "tool", "search")) == 1
    await bench.do("delete from jobs where id = %s", ingest.lease.id)
    assert await bench.all("select 1 from failed_calls") == []
