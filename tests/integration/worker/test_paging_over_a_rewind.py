"""Pages of a job's events and checkpoints go on where the run stepped back and their last entry is gone."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rft.core.events import RunStarted, TrainEvent
from rft.platform.api.errors import BadRequest
from rft.platform.checkpoints.service import list_checkpoints
from rft.platform.jobs.service import list_events
from rft.platform.settings import Settings
from rft.platform.store.unit_of_work import reading
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import logged, one_step, step_done, whole_run


async def events(bench: Workbench, job_id: str, after: str | None = None) -> list[dict[str, Any]]:
    async with reading(bench.database) as uow:
        return json.loads(await list_events(uow, job_id, None, (), after=after, limit=100))["data"]


async def checkpoints(bench: Workbench, job_id: str, after: str | None = None) -> list[tuple[int, str]]:
    settings = Settings.model_validate({"home": Path("nowhere")})
    async with reading(bench.database) as uow:
        page = await list_checkpoints(uow, settings, job_id, after=after, limit=100)
    return [(one.step_number, one.id) for one in page.data]


def ids(listed: Sequence[dict[str, Any]]) -> list[str]:
    return [one["id"] for one in listed]


def stepping_back(times: int) -> list[TrainEvent]:
    return [RunStarted(resumed_from_step=1, total_steps=3, pid=2 + time) for time in range(times)]


@pytest.mark.parametrize("times", [1, 2])
async def test_the_place_of_an_entry_outlives_it(bench: Workbench, times: int) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    lines = whole_run(job_id, steps=3)[:-3]
    lines.append(step_done(3, 3, kept=(3, 2, 1, 0)))
    await store(bench, ingest, logged(lines))
    seen, kept = await events(bench, job_id), await checkpoints(bench, job_id)
    cursor = next(one for one in seen if one["type"] == "metrics" and one["data"]["step"] == 3)
    older = ids(seen)[ids(seen).index(cursor["id"]) + 1 :]
    for again in stepping_back(times):
        await store(bench, ingest, logged([again], after=len(lines)))
        lines.append(again)
    rest = await events(bench, job_id, after=cursor["id"])
    assert ids(rest) == [id_ for id_ in older if id_ in ids(await events(bench, job_id))]
    assert rest, "those of earlier steps"
    assert [step for step, _ in kept] == [3, 2, 1, 0]
    assert await checkpoints(bench, job_id, after=kept[0][1]) == kept[2:]


async def test_the_place_of_an_entry_that_came_back_is_its_new_one(bench: Workbench) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    lines = whole_run(job_id, steps=3)[:-3]
    await store(bench, ingest, logged(lines))
    more = stepping_back(1)
    for step in (2, 3):
        more.extend(one_step(job_id, step, 3, rollouts=3))
    more.append(step_done(3, 3, kept=(3, 2, 1, 0)))
    before = await checkpoints(bench, job_id)
    await store(bench, ingest, logged(more, after=len(lines)))
    listed, kept = await events(bench, job_id), await checkpoints(bench, job_id)
    assert set(before) <= set(kept), "a checkpoint's id is its step's"
    for place, one in enumerate(listed):
        assert ids(await events(bench, job_id, after=one["id"])) == ids(listed)[place + 1 :]
    for place, (_, checkpoint_id) in enumerate(kept):
        assert await checkpoints(bench, job_id, after=checkpoint_id) == kept[place + 1 :]


async def test_a_place_belongs_to_the_list_of_one_job(bench: Workbench) -> None:
    one, other = await leased(bench), await leased(bench)
    for ingest in (one, other):
        await store(bench, ingest, logged(whole_run(ingest.lease.id, steps=3)[:-1]))
    event = next(it["id"] for it in await events(bench, one.lease.id) if it["type"] == "metrics")
    checkpoint = (await checkpoints(bench, one.lease.id))[0][1]
    lines = len(whole_run(one.lease.id, steps=3)[:-1])
    await store(bench, one, logged(stepping_back(1), after=lines))
    assert await events(bench, one.lease.id, after=event)
    await checkpoints(bench, one.lease.id, after=checkpoint)
    for listed, after in ((events, event), (checkpoints, checkpoint), (events, checkpoint), (checkpoints, event)):
        with pytest.raises(BadRequest) as refused:
            await listed(bench, other.lease.id, after=after)
        assert refused.value.code == "invalid_cursor"
