"""What the hosted service answered becomes what this platform is asked for, and nothing of it changes in silence."""

from typing import Any, cast

import pytest
from openai.types import EvalCreateParams
from openai.types.evals import RunCreateParams
from pydantic import TypeAdapter

from rft.core.base import JsonObject
from rft.platform.cli.evals_import.orders import (
    INPUT,
    RunPlan,
    criterion_at,
    eval_order,
    recorded_item,
    run_plan,
    shown_name,
    source_file,
)

UUID = "0b8f3f0e-4f3a-4d59-9a4c-2b1d54a9f7aa"
CRITERIA: list[JsonObject] = [
    {
        "type": "string_check",
        "id": f"Exact-{UUID}",
        "name": f"Exact-{UUID}",
        "operation": "eq",
        "input": "{{sample.output_text}}",
        "reference": "{{item.answer}}",
    },
    {
        "type": "score_model",
        "name": "Helpful",
        "model": "judge",
        "input": [{"type": "message", "role": "user", "content": {"type": "input_text", "text": "{{item.q}}"}}],
        "range": None,
        "sampling_params": None,
        "pass_threshold": 0.5,
    },
]
EVAL: JsonObject = {
    "object": "eval",
    "id": "eval_1",
    "name": "Support",
    "created_at": 1,
    "a_field_of_tomorrow": 1,
    "metadata": {"team": "a"},
    "data_source_config": {
        "type": "custom",
        "schema": {
            "type": "object",
            "properties": {
                "item": {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
                "sample": {"type": "object"},
            },
        },
    },
    "testing_criteria": cast("Any", CRITERIA),
}


def an_item(**changed: Any) -> JsonObject:
    sample: dict[str, Any] = {
        "input": [{"role": "user", "content": "2+2?"}],
        "output": [{"role": "assistant", "content": "4"}],
        "finish_reason": "stop",
        "model": "hosted-1",
        "error": {"code": "", "message": ""},
    }
    return {"id": "item_1", "datasource_item": {"answer": "4"}, "sample": sample | changed}


def a_run(data_source: JsonObject, **more: Any) -> JsonObject:
    return {"id": "evalrun_1", "name": "first", "status": "completed", "data_source": data_source, **more}


def asked(plan: RunPlan, file_id: str | None = None) -> dict[str, Any]:
    """The body, which the SDK's types take."""
    body = plan.body(file_id)
    TypeAdapter(RunCreateParams).validate_python(body)
    return body


def test_an_eval_is_asked_for_as_the_sdk_has_it_with_its_own_schema() -> None:
    body: dict[str, Any] = eval_order(EVAL).body
    TypeAdapter(EvalCreateParams).validate_python(body)
    assert body["data_source_config"] == {
        "type": "custom",
        "item_schema": {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
        "include_sample_schema": True,
    }
    assert body["metadata"] == {"team": "a", "imported_from": "eval_1"}
    assert body["name"] == "Support"


def test_what_a_criterion_never_said_is_not_said_for_it_and_the_rest_is_kept() -> None:
    exact, helpful = cast("list[JsonObject]", eval_order(EVAL).body["testing_criteria"])
    assert exact == {name: value for name, value in CRITERIA[0].items() if name != "id"} | {"name": "Exact"}
    assert helpful == {name: value for name, value in CRITERIA[1].items() if name not in ("range", "sampling_params")}


@pytest.mark.parametrize("kind", ["logs", "stored_completions"])
def test_a_config_over_stored_samples_keeps_its_filter(kind: str) -> None:
    config: JsonObject = {"type": kind, "metadata": {"usecase": "x"}, "schema": {"type": "object"}}
    body = eval_order({**EVAL, "data_source_config": config}).body
    assert body["data_source_config"] == {"type": kind, "metadata": {"usecase": "x"}}
    TypeAdapter(EvalCreateParams).validate_python(body)


def test_an_eval_can_go_without_a_criterion() -> None:
    whole, part = (
        cast("list[JsonObject]", eval_order(EVAL, without=without).body["testing_criteria"]) for without in ([], [0])
    )
    assert part == whole[1:]


def test_metadata_that_finds_no_room_is_told() -> None:
    order = eval_order({**EVAL, "metadata": {f"k{number}": "v" for number in range(16)}})
    assert len(cast("JsonObject", order.body["metadata"])) == 16
    assert order.remarks == ("no room for metadata 'k15'",)


@pytest.mark.parametrize(
    ("param", "place"),
    [
        ("testing_criteria[1].model", 1),
        ("testing_criteria.0.input", 0),
        ("testing_criteria", None),
        ("name", None),
        (None, None),
    ],
)
def test_the_criterion_that_a_refusal_names(param: str | None, place: int | None) -> None:
    assert criterion_at(param) == place


def test_names_of_graders_lose_the_id_behind_them() -> None:
    assert [shown_name(name) for name in (f"Exact-{UUID}", "Exact", "a-b-c")] == ["Exact", "Exact", "a-b-c"]


INLINE: JsonObject = {"type": "file_content", "content": [{"item": {"answer": "4"}, "sample": {"output_text": "4"}}]}
BY_FILE: JsonObject = {"type": "file_id", "id": "file-1"}
SAMPLED: JsonObject = {
    "type": "completions",
    "model": "hosted-1",
    "source": BY_FILE,
    "input_messages": {"type": "template", "template": [{"role": "user", "content": "{{item.q}}"}]},
    "sampling_params": {"temperature": 1.0},
}


def test_items_that_stand_in_the_run_stay_there() -> None:
    plan = run_plan(a_run({"type": "jsonl", "source": INLINE}), model=None, has_file=False)
    assert (plan.file_id, plan.has_recorded_items) == (None, False)
    assert asked(plan) == {
        "name": "first",
        "data_source": {"type": "jsonl", "source": INLINE},
        "metadata": {"imported_from": "evalrun_1", "imported_as": "recorded"},
    }


def test_a_file_of_samples_is_named_as_it_is_called_here() -> None:
    exported = a_run({"type": "jsonl", "source": BY_FILE})
    plan = run_plan(exported, model=None, has_file=True)
    assert (plan.file_id, source_file(exported)) == ("file-1", "file-1")
    assert asked(plan, "file-here")["data_source"] == {
        "type": "jsonl",
        "source": {"type": "file_id", "id": "file-here"},
    }


@pytest.mark.parametrize(
    "data_source",
    [
        {"type": "jsonl", "source": BY_FILE},
        SAMPLED,
        SAMPLED | {"type": "responses"},
        {"type": "completions", "source": {"type": "stored_completions"}},
        {"type": "responses", "source": {"type": "responses"}},
    ],
)
def test_without_a_model_what_was_recorded_is_judged_again(data_source: JsonObject) -> None:
    plan = run_plan(a_run(data_source), model=None, has_file=False)
    assert (plan.file_id, plan.has_recorded_items, plan.reads_stored) == (None, True, False)
    body = asked(plan, "file-new")
    assert body["data_source"] == {"type": "jsonl", "source": {"type": "file_id", "id": "file-new"}}
    assert body["metadata"]["imported_as"] == "recorded"


def test_a_model_answers_anew_with_the_prompt_and_the_file_of_the_run() -> None:
    plan = run_plan(a_run(SAMPLED), model="starter", has_file=True)
    body = asked(plan, "file-here")
    assert body["data_source"] == SAMPLED | {"model": "starter", "source": {"type": "file_id", "id": "file-here"}}
    assert (plan.file_id, body["metadata"]["imported_as"]) == ("file-1", "starter")


def test_a_model_answers_stored_prompts_from_what_was_recorded() -> None:
    stored: JsonObject = {
        "type": "responses",
        "model": "hosted-1",
        "source": {"type": "responses", "model": "hosted-1"},
    }
    plan = run_plan(a_run(stored), model="starter", has_file=False)
    assert (plan.reads_stored, plan.has_recorded_items) == (True, True)
    body = asked(plan, "file-new")["data_source"]
    assert body["input_messages"] == {"type": "item_reference", "item_reference": f"item.{INPUT}"}
    line = recorded_item(an_item(), with_sample=False, with_input=True).line
    assert line == {"item": {"answer": "4", INPUT: [{"role": "user", "content": "2+2?"}]}}


def test_the_file_gone_a_model_answers_the_recorded_items() -> None:
    plan = run_plan(a_run(SAMPLED), model="starter", has_file=False)
    assert (plan.reads_stored, plan.has_recorded_items) == (False, True)
    assert recorded_item(an_item(), with_sample=False).line == {"item": {"answer": "4"}}


def test_a_recorded_sample_is_what_templates_call_sample() -> None:
    calls = [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    output = [{"role": "assistant", "content": '{"a": 1}', "tool_calls": calls}]
    line = cast("Any", recorded_item(an_item(output=output), with_sample=True).line)
    assert line["item"] == {"answer": "4"}
    assert line["sample"] == {
        "output_text": '{"a": 1}',
        "output_tools": calls,
        "output_json": {"a": 1},
        "model": "hosted-1",
        "finish_reason": "stop",
        "input": [{"role": "user", "content": "2+2?"}],
    }


def test_a_recorded_answer_in_parts_is_their_text() -> None:
    output = [
        {"role": "assistant", "content": [{"type": "output_text", "text": "It is "}, {"type": "text", "text": "4"}]}
    ]
    line = cast("Any", recorded_item(an_item(output=output), with_sample=True).line)
    assert line["sample"]["output_text"] == "It is 4"


@pytest.mark.parametrize("finish_reason", ["length", "tool_calls", "content_filter"])
def test_a_recorded_sample_ends_as_it_did_there(finish_reason: str) -> None:
    line = cast("Any", recorded_item(an_item(finish_reason=finish_reason), with_sample=True).line)
    assert line["sample"]["finish_reason"] == finish_reason


def test_how_a_sample_ended_is_not_made_up() -> None:
    line = cast("Any", recorded_item(an_item(finish_reason=None), with_sample=True).line)
    assert "finish_reason" not in line["sample"]


@pytest.mark.parametrize(
    ("item", "why_not"),
    [
        ({"id": "x"}, "no item was recorded"),
        (an_item(output=[]), "no sample was recorded"),
        (an_item(output=[], error={"code": "rate", "message": "slow down"}), "its sampling failed: slow down"),
        (an_item(error={"code": "cut", "message": ""}), "its sampling failed: cut"),
        ({"datasource_item": {}, "sample": None}, "no sample was recorded"),
        (an_item(output=[{"role": "assistant", "content": [{"type": "output_image"}]}]), "its answer is no text"),
    ],
)
def test_an_item_without_a_sample_is_never_judged_as_an_empty_answer(item: JsonObject, why_not: str) -> None:
    recorded = recorded_item(item, with_sample=True)
    assert (recorded.line, recorded.why_not) == (None, why_not)
