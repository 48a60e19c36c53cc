"""Items that a model answers: any model that can be chatted with, with tools that are really called."""

import json
from typing import Any

import openai
import pytest

from rft.testing.faults import HttpAnswer
from rft.testing.provider import ScriptedProvider, completion
from tests.integration.evals.sampling import KEY, SEARCH, SILENT, lab, sampled
from tests.integration.evals.stage import CUSTOM, EXACT, Stage, row
from tests.shared.running_api import changed, collect

NUMBER = {"type": "json_schema", "json_schema": {"name": "number", "schema": {"type": "number"}}}


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


@pytest.mark.parametrize(("wanted", "scores"), [({}, [1.0, 0.0]), ({"response_format": NUMBER}, [1.0, 1.0])])
async def test_an_answer_is_told_as_json_where_it_was_asked_for_or_is_an_object(
    stage: Stage, provider: ScriptedProvider, wanted: dict[str, Any], scores: list[float]
) -> None:
    told: Any = changed(EXACT, {"input": "{{sample.output_json}}", "reference": "{{item.answer}}"})
    eval_id = await stage.make(told)
    rows = [{"item": {"question": said, "answer": said}} for said in ("{}", "41")]
    run = await stage.run(eval_id, sampled(*rows, sampling_params=wanted))
    items = await collect(stage.items(eval_id, run.id))
    assert [item.results[0].score for item in items] == scores


async def test_graders_are_told_the_model_that_the_item_shows(stage: Stage, provider: ScriptedProvider) -> None:
    eval_id = await stage.make(changed(EXACT, {"input": "{{sample.model}}", "reference": "small-2026"}))
    run = await stage.run(eval_id, sampled(row("6", None)))
    [item] = await collect(stage.items(eval_id, run.id))
    assert (item.sample.model, item.results[0].score) == ("small-2026", 1.0)


async def test_runs_of_2025_are_taken_as_they_were_spelled(stage: Stage, provider: ScriptedProvider) -> None:
    eval_id = await stage.make()
    run = await stage.run(eval_id, sampled(row("6", None), sampling_params={"max_completions_tokens": 64}))
    assert run.to_dict()["data_source"]["sampling_params"] == {"max_completion_tokens": 64}
    assert provider.requests[0]["max_completion_tokens"] == 64


async def test_an_item_shows_the_limit_that_its_answer_was_held_to_where_none_was_ordered(
    stage: Stage, provider: ScriptedProvider
) -> None:
    eval_id = await stage.make()
    run = await stage.run(eval_id, sampled(row("6", None)))
    [item] = await collect(stage.items(eval_id, run.id))
    assert item.sample.max_completion_tokens == provider.requests[0]["max_completion_tokens"] == 4096


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
