"""Items that bring their samples are graded as they stand: no model is asked."""

import json
from typing import Any

import openai
import pytest
from openai import OpenAI

from rft.testing.loopback import LoopbackEndpoint
from tests.integration.evals.stage import CUSTOM, EXACT, Stage, inline, row
from tests.shared.running_api import changed, collect

RIGHT, WRONG = row("7", "7"), row("7", "8")
CODE: Any = {
    "type": "python",
    "name": "code",
    "source": "def grade(sample, item):\n    return float(len(sample['output_text']) == len(item['answer']))\n",
}


async def test_each_item_is_held_against_every_criterion(stage: Stage) -> None:
    length: Any = {**EXACT, "name": "anything", "operation": "ne", "reference": ""}
    eval_id = await stage.make(EXACT, length, CODE)
    run = await stage.run(eval_id, inline(RIGHT, WRONG))
    assert (run.status, run.error, run.model) == ("completed", None, "")
    assert run.result_counts.to_dict() == {"total": 2, "passed": 1, "failed": 1, "errored": 0}
    told = [(each.testing_criteria[:5], each.passed, each.failed) for each in run.per_testing_criteria_results]
    assert told == [("exact", 1, 1), ("anyth", 2, 0), ("code-", 2, 0)]
    items = await collect(stage.items(eval_id, run.id))
    assert [(item.datasource_item_id, item.status) for item in items] == [(0, "pass"), (1, "fail")]
    assert items[1].datasource_item == WRONG["item"]
    assert [(result.score, result.passed) for result in items[1].results] == [(0.0, False), (1.0, True), (1.0, True)]
    assert [result.type for result in items[0].results] == ["string-check-grader"] * 2 + ["python-grader"]
    assert {result.name for result in items[0].results} == {
        each.testing_criteria for each in run.per_testing_criteria_results
    }
    assert items[0].sample.output[0].content == "7"
    found = await stage.client.evals.runs.output_items.retrieve(items[0].id, eval_id=eval_id, run_id=run.id)
    assert found.to_dict() == items[0].to_dict()


async def test_a_criterion_may_have_a_name_as_long_as_ids_that_the_hosted_service_gives(stage: Stage) -> None:
    names = ["a" * 512, f"{'exact' * 15}-0a8de2b4-6a39-4d0f-8f0a-c1a9a4e0d3b1"]
    eval_id = await stage.make(*({**EXACT, "name": name} for name in names))
    run = await stage.run(eval_id, inline(RIGHT))
    assert run.result_counts.to_dict() == {"total": 1, "passed": 1, "failed": 0, "errored": 0}
    ids = [each.testing_criteria for each in run.per_testing_criteria_results]
    assert [each.rpartition("-")[0][: len(name)] for each, name in zip(ids, names, strict=True)] == names
    (item,) = await collect(stage.items(eval_id, run.id))
    assert [result.name for result in item.results] == ids


async def test_items_of_a_file_are_those_of_an_order(stage: Stage) -> None:
    eval_id = await stage.make()
    lines = [json.dumps(RIGHT), "", json.dumps(WRONG), json.dumps(RIGHT)]
    run = await stage.run(eval_id, await stage.upload("\n".join(lines)))
    assert run.result_counts.to_dict() == {"total": 3, "passed": 2, "failed": 1, "errored": 0}
    failed = await collect(stage.items(eval_id, run.id, status="fail"))
    assert [item.datasource_item_id for item in failed] == [1]


SAMPLES: list[tuple[dict[str, Any] | None, str]] = [
    ({"output_text": "7"}, "pass"),
    ({"choices": [{"message": {"role": "assistant", "content": "7"}, "finish_reason": "stop"}]}, "pass"),
    ({"output": [{"role": "assistant", "content": "7"}]}, "pass"),
    ({"output_json": 7}, "pass"),
    ({"output_text": ""}, "fail"),
    ({"output_text": None, "output_tools": []}, "error"),
    ({"output": [{"role": "assistant", "content": "7"}], "error": {"code": "", "message": ""}}, "pass"),
    ({"output": [], "error": {"code": "server_error", "message": "down"}}, "error"),
    ({"output": [{"role": "assistant", "content": "7"}], "error": {"code": "x", "message": "cut"}}, "error"),
    ({"output_text": 7}, "error"),
    ({"output": [{"role": "tool", "content": "7"}]}, "error"),
    ({}, "error"),
    (None, "error"),
]


async def test_a_sample_is_read_in_the_shapes_that_exports_have(stage: Stage) -> None:
    eval_id = await stage.make()
    rows = [row("7", None) | ({} if sample is None else {"sample": sample}) for sample, _ in SAMPLES]
    run = await stage.run(eval_id, inline(*rows))
    items = await collect(stage.items(eval_id, run.id))
    assert [item.status for item in items] == [status for _, status in SAMPLES]


async def test_fields_of_a_sample_count_as_they_stand(stage: Stage) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "search", "arguments": '{"q": 1}'}}
    tool: Any = changed(EXACT, {"input": "{{sample.output_tools[0].function.name}}", "reference": "search"})
    field: Any = changed(EXACT, {"input": "{{sample.output_json.value}} {{sample.model}}", "reference": "7 other"})
    eval_id = await stage.make(tool, field)
    sample = {"model": "other", "output_text": "no json", "output_json": {"value": 7}, "output_tools": [call]}
    run = await stage.run(eval_id, inline(row("7", None) | {"sample": sample}))
    assert run.result_counts.passed == 1


async def test_a_text_is_told_as_json_where_it_is_an_object_or_a_list(stage: Stage) -> None:
    own: Any = {**CODE, "source": "def grade(sample, item):\n    return float(sample['output_json'] is not None)\n"}
    eval_id = await stage.make(own)
    run = await stage.run(eval_id, inline(*(row("7", said) for said in ('{"value": 7}', "[7]", "7", '"7"', "seven"))))
    items = await collect(stage.items(eval_id, run.id))
    assert [item.results[0].score for item in items] == [1.0, 1.0, 0.0, 0.0, 0.0]


async def test_a_sample_that_ended_with_calls_holds_them_in_its_choice(stage: Stage) -> None:
    tool: Any = changed(EXACT, {"input": "{{sample.choices[0].message.tool_calls[0].function.name}}"})
    end: Any = changed(EXACT, {"input": "{{sample.choices[0].finish_reason}}", "reference": "tool_calls"})
    eval_id = await stage.make(tool, end)
    call = {"id": "c", "type": "function", "function": {"name": "7", "arguments": "{}"}}
    sample = {"output_text": "", "output_tools": [call], "finish_reason": "tool_calls"}
    run = await stage.run(eval_id, inline(row("7", None) | {"sample": sample}))
    assert run.result_counts.passed == 1
    [item] = await collect(stage.items(eval_id, run.id))
    assert item.sample.finish_reason == "tool_calls"


async def test_items_alone_can_be_graded_without_any_sample(stage: Stage) -> None:
    own: Any = changed(EXACT, {"input": "{{item.question}}", "reference": "{{item.answer}}"})
    eval_id = await stage.make(own, CODE)
    run = await stage.run(eval_id, inline(row("7", None)))
    [item] = await collect(stage.items(eval_id, run.id))
    assert [result.score for result in item.results] == [0.0, None], "code sees no empty answer where there is none"
    assert item.results[1].error["code"] == "python_grader_runtime_error"


async def test_a_grader_that_is_down_gives_no_score(stage: Stage, customer: LoopbackEndpoint, refused_url: str) -> None:
    up: Any = {"type": "endpoint", "name": "up", "url": customer.grader_url, "pass_threshold": 0.0}
    down: Any = {"type": "endpoint", "name": "down", "url": refused_url}
    eval_id = await stage.make(EXACT, up, down)
    run = await stage.run(eval_id, inline(RIGHT, WRONG))
    assert run.status == "completed"
    assert run.result_counts.to_dict() == {"total": 2, "passed": 0, "failed": 0, "errored": 2}
    third: Any = run.per_testing_criteria_results[2]
    assert (third.passed, third.failed, third.errored) == (0, 0, 2)
    [item, _] = await collect(stage.items(eval_id, run.id))
    result = item.results[2]
    assert (result.score, result.passed) == (None, False)
    assert result.error | {"message": ""} == {
        "code": "connect_error",
        "message": "",
        "stage": "grader",
        "fault": "endpoint",
    }
    figures: Any = run.to_dict()["figures"]
    assert figures["passed"] is None
    assert figures["errored_by_code"] == {"connect_error": 2}
    assert figures["criteria"][0]["score"]["mean"] == 0.5, "what has a score counts"


async def test_items_that_do_not_fit_are_errors_in_words(stage: Stage) -> None:
    eval_id = await stage.make()
    lines = [json.dumps(RIGHT), json.dumps({"item": {"question": "x"}, "sample": {"output_text": ""}})]
    run = await stage.run(eval_id, await stage.upload("\n".join(lines)))
    assert run.result_counts.to_dict() == {"total": 2, "passed": 1, "failed": 0, "errored": 1}
    [item] = await collect(stage.items(eval_id, run.id, status="error"))
    assert item.sample.error.code == "item_schema_mismatch"
    assert "answer" in item.sample.error.message


async def test_an_item_that_the_schema_cannot_be_held_against_is_an_error_of_its_own(stage: Stage) -> None:
    again: Any = {"oneOf": [{"type": "null"}, {"allOf": [{"anyOf": [{"$ref": "#"}]}]}]}
    next_: Any = {"if": {"type": "object"}, "then": again}
    schema: Any = {"type": "object", "properties": {"next": next_, "answer": {"enum": [*range(300), "7"]}}}
    eval_id = await stage.make(config={**CUSTOM, "item_schema": schema})
    deep: Any = {}
    for _ in range(90):
        deep = {"next": deep}
    sample = {"output_text": "7"}
    rows = [{"item": {"answer": "7", "next": deep}, "sample": sample}, {"item": {"answer": "7"}, "sample": sample}]
    run = await stage.run(eval_id, await stage.upload("\n".join(map(json.dumps, rows))))
    assert run.result_counts.to_dict() == {"total": 2, "passed": 1, "failed": 0, "errored": 1}
    [item] = await collect(stage.items(eval_id, run.id, status="error"))
    assert item.sample.error.code == "item_schema_mismatch"
    assert "nested too deeply" in item.sample.error.message
    with pytest.raises(openai.BadRequestError) as refused:
        await stage.client.evals.runs.create(eval_id, data_source=inline(*rows))
    assert (refused.value.param, refused.value.code) == (FIRST, "item_schema_mismatch")


async def test_a_file_with_broken_lines_grades_nothing_and_names_them(stage: Stage) -> None:
    eval_id = await stage.make()
    run = await stage.run(eval_id, await stage.upload(f'{json.dumps(RIGHT)}\n{{"item"\n{{"question": "x"}}\n'))
    assert (run.status, run.result_counts.total) == ("failed", 0)
    assert run.error.code == "invalid_items"
    assert "line 2: not JSON" in run.error.message
    assert "line 3 at item: missing" in run.error.message


FILE: Any = {"type": "jsonl", "source": {"type": "file_id", "id": "file-none"}}
FIRST = "data_source.source.content[0].item"
REFUSED: list[tuple[Any, dict[str, Any], str, str]] = [
    (inline({"item": {"question": "x"}}), {}, FIRST, "item_schema_mismatch"),
    (inline(row("7", None) | {"samples": {}}), {}, "data_source.source.content[0].samples", "unknown_parameter"),
    (inline({"sample": {}}), {}, FIRST, "missing_required_parameter"),
    (inline(), {}, "data_source.source.content", "invalid_value"),
    (FILE, {}, "data_source.source.id", "file_not_found"),
    ({"type": "completions", "source": {"type": "stored_completions"}}, {}, "data_source.source.type", "invalid_value"),
    ({"type": "responses", "source": {"type": "responses"}}, {}, "data_source.source.type", "invalid_value"),
    ({"type": "batch"}, {}, "data_source.type", "invalid_value"),
    (inline(RIGHT), {"samples_per_row": 2}, "samples_per_row", "invalid_value"),
]


async def test_an_order_that_cannot_be_run_is_refused_by_name(stage: Stage) -> None:
    eval_id = await stage.make()
    for source, more, param, code in REFUSED:
        with pytest.raises(openai.BadRequestError) as refused:
            await stage.client.evals.runs.create(eval_id, data_source=source, extra_body=more)
        assert (refused.value.param, refused.value.code) == (param, code), refused.value.message
    assert not (await stage.client.evals.runs.list(eval_id)).data


async def test_runs_are_listed_filtered_and_deleted(stage: Stage) -> None:
    eval_id = await stage.make()
    runs = stage.client.evals.runs
    made = [(await runs.create(eval_id, data_source=inline(RIGHT), name=f"n{at}")).id for at in range(3)]
    await stage.work(made[1])
    assert [run.id for run in await collect(runs.list(eval_id, limit=1))] == made
    assert [run.id for run in await collect(runs.list(eval_id, limit=2, order="desc"))] == made[::-1]
    assert [run.id for run in await collect(runs.list(eval_id, status="completed"))] == [made[1]]
    assert [run.name for run in await collect(runs.list(eval_id, status="queued"))] == ["n0", "n2"]
    gone = await runs.delete(made[1], eval_id=eval_id)
    assert (gone.deleted, gone.run_id) == (True, made[1])
    for ask in (runs.retrieve, runs.delete, runs.cancel):
        with pytest.raises(openai.NotFoundError) as refused:
            await ask(made[1], eval_id=eval_id)
        assert (refused.value.param, refused.value.code) == ("run_id", "run_not_found")
    other = await stage.make()
    with pytest.raises(openai.NotFoundError):
        await runs.retrieve(made[0], eval_id=other)
    await stage.client.evals.delete(eval_id)
    assert await stage.work(made[0]) == "not to be run now"


async def test_a_run_that_is_polled_is_sent_again_only_when_it_has_changed(stage: Stage) -> None:
    eval_id = await stage.make()
    made = (await stage.client.evals.runs.create(eval_id, data_source=inline(RIGHT))).id
    runs = stage.client.evals.runs.with_raw_response
    tag = (await runs.retrieve(made, eval_id=eval_id)).headers["etag"]
    with pytest.raises(openai.APIStatusError) as unchanged:
        await runs.retrieve(made, eval_id=eval_id, extra_headers={"If-None-Match": tag})
    assert unchanged.value.status_code == 304
    await stage.work(made)
    later = await runs.retrieve(made, eval_id=eval_id, extra_headers={"If-None-Match": tag})
    assert later.parse().status == "completed"


async def test_output_items_are_paged_in_both_orders(stage: Stage) -> None:
    eval_id = await stage.make()
    run = await stage.run(eval_id, inline(*[row(str(at), str(at % 2)) for at in range(5)]))
    for order in ("asc", "desc"):
        items = await collect(stage.items(eval_id, run.id, limit=2, order=order))
        assert [item.datasource_item_id for item in items] == sorted(range(5), reverse=order == "desc")
    assert len(await collect(stage.items(eval_id, run.id, limit=1, status="pass"))) == 2
    with pytest.raises(openai.BadRequestError) as refused:
        await collect(stage.items(eval_id, run.id, after="outputitem_none"))
    assert refused.value.param == "after"
    with pytest.raises(openai.NotFoundError):
        await stage.client.evals.runs.output_items.retrieve("x", eval_id=eval_id, run_id=run.id)


async def test_a_run_that_waits_is_cancelled_once(stage: Stage) -> None:
    eval_id = await stage.make()
    runs = stage.client.evals.runs
    made = (await runs.create(eval_id, data_source=inline(RIGHT))).id
    assert (await runs.cancel(made, eval_id=eval_id)).status == "canceled"
    assert await stage.work(made) == "not to be run now"
    with pytest.raises(openai.BadRequestError) as refused:
        await stage.client.post(f"/evals/{eval_id}/runs/{made}", cast_to=object)
    assert refused.value.code == "invalid_state"


async def test_the_file_of_a_run_stays_until_it_is_over(stage: Stage) -> None:
    eval_id = await stage.make()
    source = await stage.upload(json.dumps(RIGHT))
    made = (await stage.client.evals.runs.create(eval_id, data_source=source)).id
    with pytest.raises(openai.BadRequestError) as refused:
        await stage.client.files.delete(source["source"]["id"])
    assert refused.value.code == "file_in_use"
    await stage.work(made)
    assert (await stage.client.files.delete(source["source"]["id"])).deleted


def test_the_synchronous_client_reads_a_run(stage: Stage) -> None:
    with OpenAI(base_url=stage.url, api_key=stage.key, max_retries=0) as client:
        eval_id = client.evals.create(data_source_config=CUSTOM, testing_criteria=[EXACT]).id
        made = client.evals.runs.create(eval_id, data_source=inline(RIGHT), metadata={"a": "b"})
        assert (made.status, made.metadata, made.object) == ("queued", {"a": "b"}, "eval.run")
        page = f"/evals/{eval_id}/runs/{made.id}"
        assert made.report_url.endswith(page)
        assert not made.report_url.endswith(f"/v1{page}"), "the dashboard's, for people"
        assert [run.id for run in client.evals.runs.list(eval_id, limit=1)] == [made.id]
        assert list(client.evals.runs.output_items.list(made.id, eval_id=eval_id)) == []
        assert client.evals.runs.cancel(made.id, eval_id=eval_id).status == "canceled"
