"""What has no verdict is done again, and nothing else."""

import json
from typing import Any

import pytest
from openai import BadRequestError

from rft.platform.queue.messages import RUN_EVAL, TaskMessage
from rft.testing.provider import ScriptedProvider
from tests.integration.evals.sampling import sampled
from tests.integration.evals.stage import PartlySilent, Stage, inline, row
from tests.shared.running_api import collect


async def test_only_errors_are_judged_again_and_the_figures_are_made_anew(
    stage: Stage, judged: tuple[PartlySilent, dict[str, Any]]
) -> None:
    grader, criterion = judged
    grader.silent_on = {"2", "3"}
    eval_id = await stage.make(criterion)
    run = await stage.run(eval_id, inline(*(row(answer, answer) for answer in "1234")))
    assert (run.result_counts.passed, run.result_counts.errored) == (2, 2)
    kept = {item.id: item.to_dict() for item in await collect(stage.items(eval_id, run.id, status="pass"))}
    grader.silent_on, grader.asked = {"3"}, []
    queued = await stage.retry(eval_id, run.id)
    assert (queued["status"], queued["figures"], queued["finished_at"]) == ("queued", None, None)
    assert stage.messages.received[-1] == TaskMessage(RUN_EVAL, run.id)
    with pytest.raises(BadRequestError, match="is queued: there is nothing to try again"):
        await stage.retry(eval_id, run.id)
    assert await stage.work(run.id) == "completed"
    assert set(grader.asked) == {"2", "3"}
    again = await stage.client.evals.runs.retrieve(run.id, eval_id=eval_id)
    assert (again.result_counts.total, again.result_counts.passed, again.result_counts.errored) == (4, 3, 1)
    figures: Any = again.to_dict()["figures"]
    assert (figures["samples"], figures["errored_by_code"]) == (3, {"invalid_score": 1})
    now = {item.id: item.to_dict() for item in await collect(stage.items(eval_id, run.id))}
    assert {id_: now[id_] for id_ in kept} == kept
    grader.silent_on = set()
    await stage.retry(eval_id, run.id)
    assert await stage.work(run.id) == "completed"
    with pytest.raises(BadRequestError, match="is completed: there is nothing to try again"):
        await stage.retry(eval_id, run.id)


async def test_a_cancelled_run_goes_on(stage: Stage, judged: tuple[PartlySilent, dict[str, Any]]) -> None:
    _, criterion = judged
    eval_id = await stage.make(criterion)
    made = await stage.client.evals.runs.create(eval_id, data_source=inline(row("1", "1")))
    await stage.client.evals.runs.cancel(made.id, eval_id=eval_id)
    assert await stage.work(made.id) == "not to be run now"
    assert (await stage.retry(eval_id, made.id))["status"] == "queued"
    assert await stage.work(made.id) == "completed"


async def test_a_run_that_is_cancelled_while_it_waits_has_figures_of_what_it_finished(
    stage: Stage, judged: tuple[PartlySilent, dict[str, Any]]
) -> None:
    eval_id, run_id = await half_judged(stage, judged, inline(row("1", "1"), row("2", "2")))
    await stage.retry(eval_id, run_id)
    cancelled: Any = await stage.client.evals.runs.cancel(run_id, eval_id=eval_id)
    assert cancelled.status == "canceled"
    assert (cancelled.figures["samples"], cancelled.figures["passed"]["mean"]) == (1, 1.0)
    again = await stage.client.evals.runs.retrieve(run_id, eval_id=eval_id)
    assert again.to_dict() == cancelled.to_dict()


async def half_judged(stage: Stage, judged: tuple[PartlySilent, dict[str, Any]], source: Any) -> tuple[str, str]:
    """An eval and a completed run of it, with one verdict and one error."""
    grader, criterion = judged
    grader.silent_on = {"2"}
    eval_id = await stage.make(criterion)
    run = await stage.run(eval_id, source)
    assert (run.status, run.result_counts.passed, run.result_counts.errored) == ("completed", 1, 1)
    return eval_id, run.id


async def refused_as_it_was(stage: Stage, eval_id: str, run_id: str, message: str) -> BadRequestError:
    """Whoever asks for a retry is told; the run stays what it was."""
    before = await stage.client.evals.runs.retrieve(run_id, eval_id=eval_id)
    with pytest.raises(BadRequestError, match=message) as refused:
        await stage.retry(eval_id, run_id)
    assert await stage.client.evals.runs.retrieve(run_id, eval_id=eval_id) == before
    assert len(await collect(stage.items(eval_id, run_id))) == 2
    return refused.value


async def test_a_run_whose_file_is_gone_keeps_what_it_has(
    stage: Stage, judged: tuple[PartlySilent, dict[str, Any]]
) -> None:
    source = await stage.upload("".join(json.dumps(row(answer, answer)) + "\n" for answer in "12"))
    eval_id, run_id = await half_judged(stage, judged, source)
    await stage.client.files.delete(source["source"]["id"])
    refused = await refused_as_it_was(stage, eval_id, run_id, "No such file")
    assert refused.code == "file_not_found"


async def test_a_run_whose_provider_is_gone_keeps_what_it_has(
    stage: Stage, provider: ScriptedProvider, judged: tuple[PartlySilent, dict[str, Any]]
) -> None:
    del provider
    eval_id, run_id = await half_judged(stage, judged, sampled(row("1", None), row("2", None)))
    found: Any = await stage.client.get("/providers", cast_to=object)
    await stage.client.delete(f"/providers/{found['data'][0]['id']}", cast_to=object)
    refused = await refused_as_it_was(stage, eval_id, run_id, "there is no provider 'lab'")
    assert refused.code == "model_not_found"
