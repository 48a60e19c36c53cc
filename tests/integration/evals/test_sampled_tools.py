"""Tools of a run are called, or their calls are graded; what one that is not there answered is no verdict."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from math import inf
from typing import Any

import openai
import pytest

from rft.core.base import JsonObject
from rft.platform.worker.run_eval import run_eval
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.faults import Fault, HttpAnswer, ReceivedCall
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.provider import ScriptedProvider
from tests.integration.evals.sampling import SEARCH, sampled
from tests.integration.evals.stage import EXACT, PartlySilent, Stage, row
from tests.shared.running_api import changed, collect


@pytest.fixture
async def customer() -> AsyncIterator[LoopbackEndpoint]:
    """The customer's tool."""
    tools = ScriptedTools({"search": lambda arguments, item: str(item["answer"])})
    async with LoopbackEndpoint(ScriptedEndpoint(tools, ScriptedGrader(1.0))) as served:
        yield served


async def test_tools_with_an_address_are_really_called(
    stage: Stage, provider: ScriptedProvider, customer: LoopbackEndpoint
) -> None:
    eval_id = await stage.make()
    tool = {"type": "function", "function": SEARCH, "server_url": customer.tool_url, "headers": {"X-Key": "hush-hush"}}
    run = await stage.run(eval_id, sampled(row("7", None), sampling_params={"tools": [tool]}))
    assert run.result_counts.passed == 1
    [item] = await collect(stage.items(eval_id, run.id))
    output = item.to_dict()["sample"]["output"]
    assert [message["role"] for message in output] == ["assistant", "tool", "assistant"]
    assert output[1]["content"] == "7"
    endpoint: Any = customer.endpoint
    [call] = endpoint.calls
    body = json.loads(call.body)
    assert (body["name"], body["item"], body["trace_id"]) == ("search", row("7", None)["item"], item.sample.trace_id)
    assert call.headers["x-key"] == "hush-hush"
    assert "hush" not in json.dumps(run.to_dict())
    async with stage.context.database.connection() as connection:
        cursor = await connection.execute("select data_source::text, sealed from eval_runs")
        [(shown, sealed)] = await cursor.fetchall()
    assert "hush" not in shown
    assert sealed is None, "what is over needs its secrets no more"


@pytest.mark.parametrize("items", [1, 12])
async def test_a_tool_that_is_not_there_fails_the_run_and_no_model(
    stage: Stage, provider: ScriptedProvider, customer: LoopbackEndpoint, items: int
) -> None:
    """Its URL is wrong by one letter: whatever the model made of the 404s is nobody's score."""
    eval_id = await stage.make()
    tool = {"type": "function", "function": SEARCH, "server_url": f"{customer.base_url}/serch"}
    rows = [row("7", None) for _ in range(items)]
    run = await stage.run(eval_id, sampled(*rows, sampling_params={"tools": [tool]}))
    assert (run.status, run.error.code) == ("failed", "tool_not_found")
    assert "check its URL" in run.error.message
    counts = run.result_counts
    assert (counts.total < max(items, 2), counts.passed, counts.failed) == (True, 0, 0)


class Vanishing(ScriptedEndpoint):
    """A tool that is not there from some call on, until it is put back; it can hold one call until it is let go."""

    def __init__(self, *, good_calls: float, held_call: int = 0) -> None:
        super().__init__(ScriptedTools({"search": lambda arguments, item: str(item["answer"])}))
        self.good_calls, self.held_call, self.let_go = good_calls, held_call, asyncio.Event()

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        if len(self.calls) == self.held_call:
            await self.let_go.wait()
        return await super().answer(call) if len(self.calls) <= self.good_calls else HttpAnswer(404, b"no such page")


async def one_at_a_time(stage: Stage) -> None:
    """So that the tool's calls come in the order of the items."""
    found: Any = await stage.client.get("/providers", cast_to=object)
    await stage.client.post(f"/providers/{found['data'][0]['id']}", body={"max_concurrency": 1}, cast_to=object)


@pytest.mark.parametrize(("items", "good_calls"), [(1, 0), (2, 0), (40, 2)])
async def test_what_met_a_tool_that_is_not_there_is_done_again_by_a_retry(
    stage: Stage, provider: ScriptedProvider, items: int, good_calls: int
) -> None:
    await one_at_a_time(stage)
    tool = Vanishing(good_calls=good_calls)
    async with LoopbackEndpoint(tool) as served:
        eval_id = await stage.make()
        wanted = {"type": "function", "function": SEARCH, "server_url": served.tool_url}
        rows = [row("7", None) for _ in range(items)]
        run = await stage.run(eval_id, sampled(*rows, sampling_params={"tools": [wanted]}))
        assert (run.status, run.error.code) == ("failed", "tool_not_found")
        counts = run.result_counts
        assert (counts.passed, counts.failed, counts.errored > 0) == (good_calls, 0, True)
        assert run.to_dict()["figures"]["errored_by_code"] == {"tool_not_found": counts.errored}
        item, *_ = await collect(stage.items(eval_id, run.id, status="error"))
        [result] = item.results
        assert (result.score, result.passed) == (None, False)
        assert result.name == run.per_testing_criteria_results[0].testing_criteria
        blamed = [result.error[name] for name in ("stage", "fault", "code")]
        assert blamed == ["tool", "endpoint", "tool_not_found"]
        assert item.sample.error.code == "tool_not_found"
        assert "check its URL" in item.sample.error.message
        tool.good_calls = inf
        await stage.retry(eval_id, run.id)
        assert await stage.work(run.id) == "completed"
    again = await stage.client.evals.runs.retrieve(run.id, eval_id=eval_id)
    assert again.result_counts.to_dict() == {"total": items, "passed": items, "failed": 0, "errored": 0}


async def test_what_an_earlier_worker_kept_of_a_tool_that_is_not_there_is_withdrawn_too(
    stage: Stage, provider: ScriptedProvider
) -> None:
    await one_at_a_time(stage)
    tool = Vanishing(good_calls=0, held_call=2)
    earlier = replace(stage.context, is_stopping=lambda: len(tool.calls) == 2)
    async with LoopbackEndpoint(tool) as served:
        eval_id = await stage.make()
        wanted = {"type": "function", "function": SEARCH, "server_url": served.tool_url}
        source = sampled(row("7", None), row("7", None), sampling_params={"tools": [wanted]})
        made = await stage.client.evals.runs.create(eval_id, data_source=source)
        assert await run_eval(made.id, earlier) == "left to another worker"
        tool.let_go.set()
        assert await stage.work(made.id) == "failed: tool_not_found"
    run = await stage.client.evals.runs.retrieve(made.id, eval_id=eval_id)
    assert run.result_counts.to_dict() == {"total": 2, "passed": 0, "failed": 0, "errored": 2}


class Lacking(ScriptedEndpoint):
    """A tool that answers 404 without an `output` where it knows nothing of an item."""

    def __init__(self) -> None:
        super().__init__(ScriptedTools({"search": lambda arguments, item: str(item["answer"])}))
        self.lacks: set[str] = set()

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        lacks = json.loads(call.body)["item"]["answer"] in self.lacks
        return HttpAnswer(404, b"no such record") if lacks else await super().answer(call)


@pytest.mark.parametrize("errored", [1, 3])
async def test_what_a_tool_answered_before_a_retry_counts_when_the_rest_meets_nothing_but_404s(
    stage: Stage, provider: ScriptedProvider, judged: tuple[PartlySilent, dict[str, Any]], errored: int
) -> None:
    """One that knows nothing of the few items that are left is there: the verdicts on the others stand."""
    del provider
    grader, criterion = judged
    grader.silent_on = {"3"}
    tool = Lacking()
    tool.lacks = {"2"}
    async with LoopbackEndpoint(tool) as served:
        eval_id = await stage.make(criterion)
        wanted = {"type": "function", "function": SEARCH, "server_url": served.tool_url}
        rows = [row(answer, None) for answer in ("1", "2", *["3"] * errored)]
        run = await stage.run(eval_id, sampled(*rows, sampling_params={"tools": [wanted]}))
        assert (run.status, run.result_counts.passed, run.result_counts.errored) == ("completed", 2, errored)
        grader.silent_on, tool.lacks = set(), {"2", "3"}
        await stage.retry(eval_id, run.id)
        assert await stage.work(run.id) == "completed"
    again = await stage.client.evals.runs.retrieve(run.id, eval_id=eval_id)
    assert (again.result_counts.passed, again.result_counts.errored) == (2 + errored, 0)


@pytest.mark.parametrize("tool", [{"type": "function", **SEARCH}, "id"])
async def test_a_registered_tool_is_called_by_its_name_or_id(
    stage: Stage, provider: ScriptedProvider, customer: LoopbackEndpoint, tool: Any
) -> None:
    body = {**SEARCH, "server_url": customer.tool_url}
    registered: Any = await stage.client.post("/tools", body=body, cast_to=object)
    wanted = {"id": registered["id"]} if tool == "id" else tool
    eval_id = await stage.make()
    run = await stage.run(eval_id, sampled(row("7", None), kind="responses", sampling_params={"tools": [wanted]}))
    assert run.result_counts.passed == 1
    assert run.to_dict()["data_source"]["sampling_params"]["tools"] == [wanted]


async def test_a_function_without_an_address_ends_the_sample_and_its_call_is_graded(
    stage: Stage, provider: ScriptedProvider
) -> None:
    called = [
        changed(EXACT, {"input": "{{sample.output_tools[0].function.name}}", "reference": "search"}),
        changed(EXACT, {"input": "{{sample.choices[0].message.tool_calls[0].function.name}}", "reference": "search"}),
        changed(EXACT, {"input": "{{sample.choices[0].finish_reason}}", "reference": "tool_calls"}),
        changed(EXACT, {"input": "{{sample.finish_reason}}", "reference": "tool_calls"}),
    ]
    eval_id = await stage.make(*called)
    tool = {"type": "function", "function": SEARCH}
    run = await stage.run(eval_id, sampled(row("7", None), sampling_params={"tools": [tool]}))
    assert run.result_counts.passed == 1
    [item] = await collect(stage.items(eval_id, run.id))
    assert item.sample.finish_reason == "tool_calls"
    assert len(item.sample.output) == 1
    assert len(provider.requests) == 1


async def test_a_tool_that_is_down_is_an_error_with_its_blame(
    stage: Stage, provider: ScriptedProvider, refused_url: str
) -> None:
    eval_id = await stage.make()
    tool = {"type": "function", "function": SEARCH, "server_url": refused_url}
    run = await stage.run(eval_id, sampled(row("7", None), sampling_params={"tools": [tool]}))
    assert run.result_counts.to_dict() == {"total": 1, "passed": 0, "failed": 0, "errored": 1}
    [item] = await collect(stage.items(eval_id, run.id))
    [result] = item.results
    assert result.score is None
    assert (result.error["stage"], result.error["fault"], result.error["code"]) == ("tool", "endpoint", "connect_error")
    assert item.sample.error.code == "connect_error"


async def ungraded_run(stage: Stage, judged: tuple[PartlySilent, dict[str, Any]], tool: JsonObject) -> tuple[str, Any]:
    """An eval and a run of it that called the tool, and whose grader was silent."""
    grader, criterion = judged
    grader.silent_on = {"7"}
    eval_id = await stage.make(criterion)
    wanted = {"type": "function", "function": SEARCH, **tool}
    run = await stage.run(eval_id, sampled(row("7", None), sampling_params={"tools": [wanted]}))
    assert run.result_counts.errored == 1
    return eval_id, run


async def test_tools_keep_their_secrets_until_everything_has_a_verdict(
    stage: Stage, provider: ScriptedProvider, customer: LoopbackEndpoint, judged: tuple[PartlySilent, dict[str, Any]]
) -> None:
    del provider
    tool: JsonObject = {"server_url": customer.tool_url, "headers": {"X-Key": "hush-hush"}}
    eval_id, run = await ungraded_run(stage, judged, tool)
    judged[0].silent_on = set()
    await stage.retry(eval_id, run.id)
    assert await stage.work(run.id) == "completed"
    endpoint: Any = customer.endpoint
    assert [call.headers["x-key"] for call in endpoint.calls] == ["hush-hush"] * 2
    async with stage.context.database.connection() as connection:
        cursor = await connection.execute("select sealed from eval_runs")
        assert await cursor.fetchall() == [(None,)]


async def test_a_run_that_forgot_its_tools_is_not_sampled_without_them(
    stage: Stage, provider: ScriptedProvider, customer: LoopbackEndpoint, judged: tuple[PartlySilent, dict[str, Any]]
) -> None:
    """As those of earlier releases did, whatever had become of their items."""
    del provider
    eval_id, run = await ungraded_run(stage, judged, {"server_url": customer.tool_url})
    async with stage.context.database.connection() as connection:
        await connection.execute("update eval_runs set sealed = null")
    with pytest.raises(openai.BadRequestError, match="has forgotten the secrets of its tools; order a new one"):
        await stage.retry(eval_id, run.id)
