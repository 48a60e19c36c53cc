"""Items that a model answers: any model that can be chatted with, with tools that are really called."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf
from typing import Any

import openai
import pytest

from rft.core.base import JsonObject
from rft.core.messages import ToolCall
from rft.platform.worker.run_eval import run_eval
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.faults import Fault, HttpAnswer, ReceivedCall
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.provider import ScriptedProvider, completion
from tests.integration.evals.stage import CUSTOM, EXACT, PartlySilent, Stage, row
from tests.shared.running_api import changed, collect

ASK = [{"role": "developer", "content": "Answer."}, {"role": "user", "content": "{{item.question}}"}]
SEARCH = {"name": "search", "description": "Looks up.", "parameters": {"type": "object", "properties": {"q": {}}}}
KEY = "sk-hush"
PRICE = {"prompt": 1.0, "cached_prompt": 0.5, "completion": 2.0}
SILENT = "silent"
"""The answer of a question whose tokens are not told."""


def says(body: JsonObject) -> Any:
    """The answer of an odd question, "8" else; what a tool said, where one was called."""
    messages: Any = body["messages"]
    if messages[-1]["role"] == "tool":
        return messages[-1]["content"]
    if body.get("tools"):
        return [ToolCall(call_id="", name="search", arguments='{"q": "x"}')]
    if messages[-1]["content"].startswith(SILENT):
        told = {name: value for name, value in completion(body, SILENT).items() if name != "usage"}
        return HttpAnswer(200, json.dumps(told).encode())
    return "8" if messages[-1]["content"].startswith("7") else messages[-1]["content"].split()[0]


@asynccontextmanager
async def lab(stage: Stage, scripted: ScriptedProvider) -> AsyncGenerator[ScriptedProvider]:
    """Registered as `lab`."""
    async with LoopbackEndpoint(scripted) as served:
        body = {"name": "lab", "base_url": f"{served.base_url}/v1", "api_key": KEY, "price_per_million": PRICE}
        await stage.client.post("/providers", body=body, cast_to=object)
        yield scripted


@pytest.fixture
async def provider(stage: Stage) -> AsyncIterator[ScriptedProvider]:
    """The lab, which says what `says` does."""
    async with lab(stage, ScriptedProvider(says, api_key=KEY)) as scripted:
        yield scripted


@pytest.fixture
async def customer() -> AsyncIterator[LoopbackEndpoint]:
    """The customer's tool."""
    tools = ScriptedTools({"search": lambda arguments, item: str(item["answer"])})
    async with LoopbackEndpoint(ScriptedEndpoint(tools, ScriptedGrader(1.0))) as served:
        yield served


def sampled(*rows: Any, kind: str = "completions", **more: Any) -> Any:
    """The data source of a run that asks `lab/small`."""
    template = {"type": "template", "template": ASK}
    source = {"type": "file_content", "content": list(rows)}
    return {"type": kind, "source": source, "model": "lab/small", "input_messages": template, **more}


@pytest.mark.parametrize("kind", ["completions", "responses"])
async def test_a_prompted_model_answers_each_item(stage: Stage, provider: ScriptedProvider, kind: str) -> None:
    eval_id = await stage.make()
    sampling = {"temperature": 0.5, "max_completion_tokens": 64, "seed": 3}
    source = sampled(row("6", None), row("7", None), kind=kind, sampling_params=sampling)
    run = await stage.run(eval_id, source)
    assert (run.status, run.model, run.error) == ("completed", "lab/small", None)
    assert run.result_counts.to_dict() == {"total": 2, "passed": 1, "failed": 1, "errored": 0}
    [usage] = run.per_model_usage
    assert usage.to_dict() == {
        "model_name": "lab/small",
        "invocation_count": 2,
        "prompt_tokens": 200,
        "completion_tokens": 40,
        "cached_tokens": 80,
        "total_tokens": 240,
    }
    [right, wrong] = await collect(stage.items(eval_id, run.id))
    sample = right.sample
    assert [(message.role, message.content) for message in sample.input] == [
        ("developer", "Answer."),
        ("user", "6 + 0?"),
    ]
    assert (sample.output[0].content, wrong.sample.output[0].content) == ("6", "8")
    assert (sample.finish_reason, sample.temperature, sample.max_completion_tokens) == ("stop", 0.5, 64)
    assert sample.seed != wrong.sample.seed
    assert sample.usage.total_tokens == 120
    assert sample.trace_id.startswith("trace_")
    assert [request["temperature"] for request in provider.requests] == [0.5, 0.5]
    figures: Any = run.to_dict()["figures"]
    assert figures["passed"]["mean"] == 0.5
    assert figures["latency"]["p50_s"] > 0
    assert (figures["completion_tokens"], figures["completion_tokens_per_sample"]) == (40, 20.0)
    assert figures["cost"] == pytest.approx((120 * 1.0 + 80 * 0.5 + 40 * 2.0) / 1e6)


async def test_runs_of_2025_are_taken_as_they_were_spelled(stage: Stage, provider: ScriptedProvider) -> None:
    eval_id = await stage.make()
    run = await stage.run(eval_id, sampled(row("6", None), sampling_params={"max_completions_tokens": 64}))
    assert run.to_dict()["data_source"]["sampling_params"] == {"max_completion_tokens": 64}
    assert provider.requests[0]["max_completion_tokens"] == 64


async def test_a_top_p_of_zero_reaches_the_provider(stage: Stage, provider: ScriptedProvider) -> None:
    eval_id = await stage.make()
    run = await stage.run(eval_id, sampled(row("7", None), sampling_params={"top_p": 0}))
    assert run.status == "completed"
    assert provider.requests[0]["top_p"] == 0


async def test_tokens_that_a_server_does_not_tell_are_told_as_missing(stage: Stage, provider: ScriptedProvider) -> None:
    eval_id = await stage.make()
    run = await stage.run(eval_id, sampled(row(SILENT, None)))
    assert run.result_counts.passed == 1
    figures: Any = run.to_dict()["figures"]
    assert (figures["completion_tokens"], figures["turns_without_usage"], figures["cost"]) == (0, 1, None)


@pytest.mark.parametrize("is_told", [True, False])
async def test_tokens_of_an_answer_that_a_filter_cut_are_in_the_figures(stage: Stage, is_told: bool) -> None:
    cut: Any = {"index": 0, "finish_reason": "content_filter", "message": {"role": "assistant", "content": "Fo"}}
    whole = completion({"model": "small"}, cut)
    told = whole if is_told else {name: value for name, value in whole.items() if name != "usage"}
    eval_id = await stage.make()
    async with lab(stage, ScriptedProvider(lambda body: HttpAnswer(200, json.dumps(told).encode()), api_key=KEY)):
        run = await stage.run(eval_id, sampled(row("7", None)))
    assert run.result_counts.errored == 1
    figures: Any = run.to_dict()["figures"]
    tokens = (figures["prompt_tokens"], figures["completion_tokens"], figures["turns_without_usage"])
    assert tokens == ((100, 20, 0) if is_told else (0, 0, 1))
    assert figures["cost"] == (pytest.approx((60 * 1.0 + 40 * 0.5 + 20 * 2.0) / 1e6) if is_told else None)
    [spent] = run.per_model_usage
    assert (spent.invocation_count, spent.total_tokens) == (1, 120 if is_told else 0)


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
    called: Any = changed(EXACT, {"input": "{{sample.output_tools[0].function.name}}", "reference": "search"})
    eval_id = await stage.make(called)
    tool = {"type": "function", "function": SEARCH}
    run = await stage.run(eval_id, sampled(row("7", None), sampling_params={"tools": [tool]}))
    assert run.result_counts.passed == 1
    [item] = await collect(stage.items(eval_id, run.id))
    assert item.sample.finish_reason == "tool_calls"
    assert len(item.sample.output) == 1
    assert len(provider.requests) == 1


async def test_several_samples_of_an_item_tell_of_the_best_of_them(stage: Stage, provider: ScriptedProvider) -> None:
    eval_id = await stage.make()
    run = await stage.run(eval_id, sampled(row("6", None), row("7", None)), samples_per_row=4)
    assert run.to_dict()["samples_per_row"] == 4
    items = await collect(stage.items(eval_id, run.id))
    assert [(item.datasource_item_id, item.sample_index) for item in items] == [
        (a, b) for a in (0, 1) for b in range(4)
    ]
    assert len({item.sample.seed for item in items}) == 8
    figures: Any = run.to_dict()["figures"]
    assert figures["pass_at_k"] == {"1": 0.5, "2": 0.5, "4": 0.5}
    assert (figures["rows"], figures["samples"], figures["variance_within_rows"]) == (2, 8, 0.0)
    again = await stage.run(eval_id, sampled(row("6", None), sampling_params={"n": 2}))
    assert again.result_counts.total == 2


async def test_messages_may_come_with_the_item(stage: Stage, provider: ScriptedProvider) -> None:
    schema = {"type": "object", "properties": {"talk": {}, "answer": {"type": "string"}}}
    eval_id = await stage.make(config={**CUSTOM, "item_schema": schema})
    reference = {"type": "item_reference", "item_reference": "item.talk"}
    rows: list[Any] = [
        {
            "item": {
                "talk": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "6"}],
                "answer": "6",
            }
        },
        {"item": {"talk": "6", "answer": "6"}},
        {"item": {"talk": [{"role": "nobody", "content": "6"}], "answer": "6"}},
        {"item": {"answer": "6"}},
    ]
    run = await stage.run(eval_id, sampled(*rows, input_messages=reference))
    items = await collect(stage.items(eval_id, run.id))
    assert [item.status for item in items] == ["pass", "pass", "error", "error"]
    assert items[2].sample.error.code == "invalid_input_messages"
    assert "talk[0].role" in items[2].sample.error.message
    assert len(provider.requests) == 2


CALLED = [
    {"role": "user", "content": [{"type": "input_text", "text": "How much?"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "of another installation"},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "search", "arguments": '{"q": "x"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "6"}]},
]


@pytest.mark.parametrize("kind", ["completions", "responses"])
async def test_messages_of_an_item_may_have_every_shape_of_the_sdk(
    stage: Stage, provider: ScriptedProvider, kind: str
) -> None:
    eval_id = await stage.make(config={**CUSTOM, "item_schema": {"type": "object"}})
    talks: list[Any] = [
        [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "6"}]}],
        [{"role": "user", "content": {"type": "input_text", "text": "6"}}],
        [{"role": "user", "content": ["6", {"type": "text", "text": " or so"}]}],
        [{"role": "assistant", "content": {"type": "output_text", "text": "5"}}, {"role": "user", "content": "6"}],
        CALLED,
        CALLED[:3],
        [{"role": "user", "content": {"type": "input_image", "image_url": "https://x/y.png"}}],
    ]
    rows: list[Any] = [{"item": {"talk": talk, "answer": "6"}} for talk in talks]
    reference = {"type": "item_reference", "item_reference": "item.talk"}
    run = await stage.run(eval_id, sampled(*rows, kind=kind, input_messages=reference))
    items = await collect(stage.items(eval_id, run.id))
    assert [item.status for item in items] == ["pass"] * 5 + ["error"] * 2
    assert "without an answer: call_1" in items[5].sample.error.message
    assert "item.talk[0].content[0] of the item: only text parts" in items[6].sample.error.message
    (called,) = (request for request in map(json.dumps, provider.requests) if '"tool"' in request)
    assert '"arguments": "{\\"q\\": \\"x\\"}"' in called


async def test_an_item_that_lacks_what_the_messages_name_is_not_asked(stage: Stage, provider: ScriptedProvider) -> None:
    schema = {"type": "object", "properties": {"question": {"type": "string"}, "answer": {"type": "string"}}}
    eval_id = await stage.make(config={**CUSTOM, "item_schema": schema})
    run = await stage.run(eval_id, sampled({"item": {"answer": "6"}}, row("6", None)))
    assert run.result_counts.to_dict() == {"total": 2, "passed": 1, "failed": 0, "errored": 1}
    [item] = await collect(stage.items(eval_id, run.id, status="error"))
    assert item.sample.error.code == "invalid_template_variable"
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


async def test_a_key_that_is_not_taken_fails_the_run_in_words(stage: Stage, provider: ScriptedProvider) -> None:
    found: Any = await stage.client.get("/providers", cast_to=object)
    path = f"/providers/{found['data'][0]['id']}"
    await stage.client.post(path, body={"api_key": "sk-wrong"}, cast_to=object)
    eval_id = await stage.make()
    run = await stage.run(eval_id, sampled(row("7", None)))
    assert (run.status, run.error.code) == ("failed", "model_unusable")
    assert run.result_counts.total == 0
    assert "sk-wrong" not in json.dumps(run.to_dict())


async def test_two_runs_are_compared_item_by_item(stage: Stage, provider: ScriptedProvider) -> None:
    eval_id = await stage.make()
    asked = await stage.run(eval_id, sampled(row("6", None), row("7", None), row("5", None)))
    source = {"type": "jsonl", "source": {"type": "file_content", "content": [row("7", "7"), row("6", "6")]}}
    given = await stage.run(eval_id, source)
    path = f"/evals/{eval_id}/runs/{given.id}/compare"
    told: Any = await stage.client.get(f"{path}?with={asked.id}", cast_to=object)
    assert (told["rows"], told["only_here"], told["only_there"], told["without_verdict"]) == (2, [], [2], [])
    passed = told["passed"]
    assert (passed["difference"], passed["better"], passed["worse"], passed["same"]) == (0.5, 1, 0, 1)
    assert passed["low"] < 0.5 < passed["high"]
    rows: Any = await stage.client.get(f"{path}/rows?with={asked.id}", cast_to=object)
    assert [(one["change"], one["value"], one["other_value"]) for one in rows["data"]] == [
        ("better", 1.0, 0.0),
        ("same", 1.0, 1.0),
    ]
    assert [one["datasource_item"]["answer"] for one in rows["data"]] == ["7", "6"]
    second: Any = await stage.client.get(f"{path}/rows?with={asked.id}&offset=1&limit=1", cast_to=object)
    assert (second["data"], second["total"], second["has_more"]) == (rows["data"][1:], 2, False)
    better: Any = await stage.client.get(f"{path}/rows?with={asked.id}&change=better&limit=1", cast_to=object)
    assert (better["data"], better["total"], better["has_more"]) == (rows["data"][:1], 1, False)
    place = better["data"][0]["other_row_index"]
    [item] = await collect(stage.items(eval_id, asked.id, extra_query={"datasource_item_id": place}))
    assert (item.datasource_item_id, item.datasource_item["answer"]) == (place, "7")
    for lost in (path, f"{path}/rows"):
        with pytest.raises(openai.BadRequestError) as refused:
            await stage.client.get(f"{lost}?with=evalrun_none", cast_to=object)
        assert (refused.value.param, refused.value.code) == ("with", "run_not_found")


async def test_the_variance_of_a_run_says_which_items_have_signal(stage: Stage, provider: ScriptedProvider) -> None:
    eval_id = await stage.make()
    run = await stage.run(eval_id, sampled(row("6", None), row("7", None)), samples_per_row=2)
    path = f"/evals/{eval_id}/runs/{run.id}/variance"
    told: Any = await stage.client.get(path, cast_to=object)
    assert (told["rows"], told["samples"], told["rows_with_signal"], told["share_with_signal"]) == (2, 4, 0, 0.0)
    assert [(one["row_index"], one["mean"], one["spread"]) for one in told["data"]] == [(1, 0.0, 0.0), (0, 1.0, 0.0)]
    assert (told["criterion"], told["advised_multiplier"]) == (None, None)
    criterion = run.per_testing_criteria_results[0].testing_criteria
    scores: Any = await stage.client.get(f"{path}?criterion={criterion}&limit=1", cast_to=object)
    assert (scores["criterion"], scores["data"]) == (criterion, told["data"][:1])
    with pytest.raises(openai.BadRequestError) as refused:
        await stage.client.get(f"{path}?criterion=style", cast_to=object)
    assert (refused.value.param, refused.value.code) == ("criterion", "criterion_not_found")


def template(content: str) -> Any:
    return {"type": "template", "template": [{"role": "user", "content": content}]}


IN = "data_source.input_messages"
PARAMS = "data_source.sampling_params"
JSON: Any = {"type": "json_object"}
OTHER = {**SEARCH, "name": "other"}
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"model": "nobody"}, {}, "data_source.model"),
    ({"model": "nobody/small"}, {}, "data_source.model"),
    ({"model": "ft:none:local::aaaaaaaa"}, {}, "data_source.model"),
    ({"model": None}, {}, "data_source.model"),
    ({"input_messages": None}, {}, IN),
    ({"input_messages": template("{{item.qestion}}")}, {}, f"{IN}.template[0].content"),
    ({"input_messages": template("{{sample.output_text}}")}, {}, f"{IN}.template"),
    ({"input_messages": {"type": "item_reference", "item_reference": "item.x"}}, {}, f"{IN}.item_reference"),
    ({"input_messages": {"type": "item_reference", "item_reference": "row"}}, {}, f"{IN}.item_reference"),
    ({"sampling_params": {"temperature": 3}}, {}, f"{PARAMS}.temperature"),
    ({"sampling_params": {"temprature": 1}}, {}, f"{PARAMS}.temprature"),
    ({"sampling_params": {"max_tokens": 9}}, {}, f"{PARAMS}.max_tokens"),
    ({"input_message": template("x")}, {}, "data_source.input_message"),
    ({}, {"sample_per_row": 2}, "sample_per_row"),
    ({"sampling_params": {"n": 2}}, {"samples_per_row": 3}, "samples_per_row"),
    ({}, {"samples_per_row": 0}, "samples_per_row"),
    ({"sampling_params": {"tools": [{"type": "web_search"}]}}, {}, f"{PARAMS}.tools[0].type"),
    ({"sampling_params": {"tools": [{"type": "function", "name": "a b"}]}}, {}, f"{PARAMS}.tools[0].name"),
    ({"sampling_params": {"tools": [{"id": "tool_none"}]}}, {}, f"{PARAMS}.tools[0].id"),
    (
        {"sampling_params": {"tools": [{"type": "function", **SEARCH, "server_url": "nowhere"}]}},
        {},
        f"{PARAMS}.tools[0].server_url",
    ),
    (
        {
            "sampling_params": {
                "tools": [
                    {"type": "function", **SEARCH, "server_url": "http://127.0.0.1:9/"},
                    {"type": "function", **OTHER},
                ]
            }
        },
        {},
        f"{PARAMS}.tools",
    ),
]


async def test_what_cannot_be_asked_is_refused_by_name(stage: Stage, provider: ScriptedProvider) -> None:
    eval_id = await stage.make()
    for change, more, param in REFUSED:
        source: Any = {name: value for name, value in sampled(row("7", None), **change).items() if value is not None}
        with pytest.raises(openai.BadRequestError) as refused:
            await stage.client.evals.runs.create(eval_id, data_source=source, extra_body=more)
        assert refused.value.param == param, refused.value.message
    assert not (await stage.client.evals.runs.list(eval_id)).data


async def test_tools_keep_their_secrets_until_everything_has_a_verdict(
    stage: Stage, provider: ScriptedProvider, customer: LoopbackEndpoint, judged: tuple[PartlySilent, dict[str, Any]]
) -> None:
    del provider
    grader, criterion = judged
    grader.silent_on = {"7"}
    eval_id = await stage.make(criterion)
    tool = {"type": "function", "function": SEARCH, "server_url": customer.tool_url, "headers": {"X-Key": "hush-hush"}}
    run = await stage.run(eval_id, sampled(row("7", None), sampling_params={"tools": [tool]}))
    assert run.result_counts.errored == 1
    grader.silent_on = set()
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
    grader, criterion = judged
    grader.silent_on = {"7"}
    eval_id = await stage.make(criterion)
    tool = {"type": "function", "function": SEARCH, "server_url": customer.tool_url}
    run = await stage.run(eval_id, sampled(row("7", None), sampling_params={"tools": [tool]}))
    async with stage.context.database.connection() as connection:
        await connection.execute("update eval_runs set sealed = null")
    with pytest.raises(openai.BadRequestError, match="has forgotten the secrets of its tools; order a new one"):
        await stage.retry(eval_id, run.id)
