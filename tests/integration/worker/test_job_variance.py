"""How far the rewards of a job's rows spread at one step, as the API tells it."""

from typing import Any

import httpx

from rft.core.events import RunStarted
from rft.core.rollout import Split
from rft.platform.worker.ingest import Ingest
from tests.integration.worker.test_stream_and_rollouts import ingest, store
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import rewarded, rollout_done, step_done

__all__ = ["ingest"]


async def variance(http: httpx.AsyncClient, job_id: str, **query: str | int) -> Any:
    reply = await http.get(f"/{job_id}/variance", params=query)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_the_rows_of_a_baseline_are_told_by_their_mean(
    bench: Workbench, ingest: Ingest, http: httpx.AsyncClient
) -> None:
    job_id = ingest.lease.id
    measured = [rollout_done(job_id, 0, index, split=Split.VALID) for index in range(6)]
    rows = [done.key.row_index for done in measured]
    assert rows == [0, 0, 1, 1, 2, 2]
    rewards = (1.0, 0.0, 1.0, 1.0, 0.0)
    graded = [rewarded(done, reward) for done, reward in zip(measured, rewards, strict=False)]
    failed = rollout_done(job_id, 0, 5, failed=True, split=Split.VALID)
    start = RunStarted(resumed_from_step=None, total_steps=1, pid=1)
    await store(bench, ingest, [start, *graded, failed, step_done(0, 1)])
    told = await variance(http, job_id)
    assert (told["split"], told["step"], told["rows"], told["samples"], told["mean"]) == ("valid", 0, 3, 5, 0.5)
    assert (told["rows_sampled_twice"], told["rows_with_signal"], told["share_with_signal"]) == (2, 1, 0.5)
    assert [(row["row_index"], row["mean"], row["best"]) for row in told["data"]] == [
        (2, 0.0, 0.0),
        (0, 0.5, 1.0),
        (1, 1.0, 1.0),
    ]
    few = await variance(http, job_id, limit=2)
    assert [row["row_index"] for row in few["data"]] == [2, 1]
    assert [row["row_index"] for row in few["widest"]] == [0, 1, 2], "of all rows, whatever is drawn"
    train = await variance(http, job_id, split="train", step=1)
    assert (train["rows"], train["data"], train["advised_multiplier"]) == (0, [], None)
    assert (await http.get("/ftjob-none/variance")).status_code == 404
