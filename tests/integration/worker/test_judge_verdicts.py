"""How a judge's calls went lately, of the newest job that has asked it."""

from typing import Any

import httpx
from psycopg.types.json import Jsonb

from rft.core.failure import FailureCode, Stage
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import attempts_made, logged

JUDGE = {"type": "score_model", "name": "judge", "model": "judge-small", "input": []}


async def latest(http: httpx.AsyncClient) -> Any:
    url = str(http.base_url).rstrip("/").replace("/fine_tuning/jobs", "/dashboard/judges")
    (judge,) = (await http.get(url)).raise_for_status().json()["data"]
    return judge["latest"]


async def test_a_job_that_has_begun_and_asked_nobody_yet_does_not_hide_the_one_before_it(
    bench: Workbench, http: httpx.AsyncClient
) -> None:
    older, newer = await leased(bench), await leased(bench)
    method = Jsonb({"type": "reinforcement", "reinforcement": {"grader": JUDGE}})
    await bench.do("update jobs set method = %s, started_at = now()", method)
    assert await latest(http) is None
    verdicts = attempts_made(1, "trace_1", FailureCode.TIMEOUT, None, stage=Stage.GRADER)
    await store(bench, older, logged([verdicts]))
    told = await latest(http)
    assert told["job_id"] == older.lease.id
    assert [(health["attempts"], health["errors"]) for health in told["graders"]] == [(2, 1)]
    await store(bench, newer, logged([verdicts]))
    assert (await latest(http))["job_id"] == newer.lease.id
