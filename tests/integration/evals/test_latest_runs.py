"""The list of evals tells of each one's latest run."""

from typing import Any

from tests.integration.evals.stage import EXACT, Stage, inline, row
from tests.shared.running_api import collect

RIGHT, WRONG = row("7", "7"), row("7", "8")


async def latest(stage: Stage, eval_id: str) -> dict[str, Any] | None:
    listed = {found.id: found.to_dict() for found in await collect(stage.client.evals.list())}
    told: Any = listed[eval_id]["latest_run"]
    return told


async def test_an_eval_is_listed_with_the_run_that_was_ordered_last(stage: Stage) -> None:
    alone, both = await stage.make(), await stage.make(EXACT, {**EXACT, "name": "again"})
    assert await latest(stage, alone) is None
    await stage.run(alone, inline(RIGHT, RIGHT))
    second = await stage.run(alone, inline(RIGHT, RIGHT, WRONG, WRONG))
    other = await stage.run(both, inline(RIGHT, WRONG))

    told = await latest(stage, alone)
    assert told is not None
    assert (told["id"], told["status"], told["model"]) == (second.id, "completed", "")
    assert (told["samples"], told["finished"], told["errored"]) == (4, 4, 0)
    figures = second.to_dict()["figures"]
    assert told["passed"] == figures["passed"]
    assert told["passed"]["mean"] == 0.5
    assert told["score"] == figures["criteria"][0]["score"] is not None

    told = await latest(stage, both)
    assert told is not None
    assert (told["id"], told["score"]) == (other.id, None), "several criteria have no score in common"


async def test_of_a_run_that_waits_nothing_is_told_but_that(stage: Stage) -> None:
    eval_id = await stage.make()
    await stage.run(eval_id, inline(RIGHT))
    waiting = await stage.client.evals.runs.create(eval_id, data_source=inline(RIGHT, WRONG))
    told = await latest(stage, eval_id)
    assert told is not None
    assert (told["id"], told["status"], told["finished"]) == (waiting.id, "queued", 0)
    assert (told["samples"], told["passed"], told["finished_at"]) == (None, None, None)
