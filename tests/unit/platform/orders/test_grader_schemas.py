"""Graders on the wire: what is taken, what is refused and where, and what a run is told of it."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from rft.core import graders as core
from rft.core.graders import JudgeMessage, SamplingParams
from rft.core.spec import RunSecrets
from rft.platform.api.errors import BadRequest
from rft.platform.orders.grader_schemas import Grader
from rft.platform.orders.grader_specification import (
    grader_targets,
    refuse_unfillable_templates,
    refuse_without_judge,
    secrets_of_grader,
    to_grader_spec,
    with_name,
)
from rft.platform.settings import Settings

ADAPTER = TypeAdapter[Grader](Grader)
SETTINGS = Settings.model_validate({"judge_base_url": None})
EXACT = {
    "type": "string_check",
    "name": "exact",
    "input": "{{ sample.output_text }}",
    "reference": "{{item.answer}}",
    "operation": "eq",
}
CLOSE = {
    "type": "text_similarity",
    "name": "close",
    "input": "{{ sample.output_text }}",
    "reference": "{{item.answer}}",
    "evaluation_metric": "fuzzy_match",
}
SCORE = {
    "type": "score_model",
    "name": "score",
    "model": "judge-1",
    "input": [
        {"role": "developer", "content": "Judge.", "type": "message"},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "{{ sample.output_text }}"}, {"type": "text", "text": "End."}],
        },
    ],
    "range": [0, 5],
    "sampling_params": {"temperature": 0, "max_completions_tokens": 200, "reasoning_effort": "low"},
}
LABEL = {
    "type": "label_model",
    "name": "label",
    "model": "judge-1",
    "input": [{"role": "user", "content": {"type": "input_text", "text": "{{ sample.output_text }}"}}],
    "labels": ["good", "bad"],
    "passing_labels": ["good"],
}
PYTHON = {
    "type": "python",
    "name": "code",
    "source": "def grade(sample, item):\n    return 1.0\n",
    "image_tag": "2025-05-08",
}
ENDPOINT = {"type": "endpoint", "name": "remote", "url": "http://127.0.0.1:9/g", "headers": {"X-Key": "secret-value"}}
MULTI: dict[str, Any] = {
    "type": "multi",
    "graders": {"exact": EXACT, "close": CLOSE, "score": SCORE, "label": LABEL, "code": PYTHON, "remote": ENDPOINT},
    "calculate_output": "0.5 * exact + max(close, score / 5) ^ 2 + label * code * remote + 1e-9",
    "invalid_grade": 0.0,
}
RULER = {"type": "ruler", "name": "ruler", "model": "judge-1", "rubric": "Short answers win."}
EVERY_KIND: list[dict[str, Any]] = [EXACT, CLOSE, SCORE, LABEL, PYTHON, ENDPOINT, MULTI, RULER]


@pytest.mark.parametrize("written", EVERY_KIND, ids=lambda written: written["type"])
def test_every_kind_is_taken_and_given_back_as_it_was_written(written: dict[str, Any]) -> None:
    grader = ADAPTER.validate_python(written)

    assert grader.model_dump(mode="json", exclude_unset=True) == written
    spec = to_grader_spec(grader, SETTINGS)
    assert spec.type == written["type"]
    assert TypeAdapter[core.GraderSpec](core.GraderSpec).validate_json(spec.model_dump_json()) == spec


def test_a_judge_is_told_texts_and_sampling_under_the_usual_names() -> None:
    spec = to_grader_spec(ADAPTER.validate_python(SCORE), SETTINGS)

    assert isinstance(spec, core.ScoreModelGrader)
    assert spec.range == (0.0, 5.0)
    assert spec.input[1] == JudgeMessage(role="user", content="{{ sample.output_text }}\nEnd.")
    assert spec.sampling_params == SamplingParams(temperature=0.0, max_completion_tokens=200, reasoning_effort="low")


def test_unknown_fields_are_kept() -> None:
    written = {**EXACT, "future": {"knob": 3}}

    assert ADAPTER.validate_python(written).model_dump(mode="json", exclude_unset=True) == written


def test_a_list_of_named_graders_stands_for_the_dictionary() -> None:
    listed = {**MULTI, "graders": [EXACT, CLOSE], "calculate_output": "exact + close"}

    grader = ADAPTER.validate_python(listed)

    spec = to_grader_spec(grader, SETTINGS)
    assert isinstance(spec, core.MultiGrader)
    assert list(spec.graders) == ["exact", "close"]


def test_names_are_invented_where_they_are_absent() -> None:
    nameless = {key: value for key, value in EXACT.items() if key != "name"}
    multi = {"type": "multi", "graders": {"only": nameless}, "calculate_output": "only"}

    spec = to_grader_spec(with_name(ADAPTER.validate_python(multi), "grader-1234"), SETTINGS)

    assert isinstance(spec, core.MultiGrader)
    assert (spec.name, spec.graders["only"].name) == ("grader-1234", "only")


def test_secrets_are_told_apart_by_where_they_belong() -> None:
    alone, within = ADAPTER.validate_python(ENDPOINT), ADAPTER.validate_python(MULTI)

    assert secrets_of_grader(alone) == RunSecrets(grader_headers={"X-Key": "secret-value"})
    assert secrets_of_grader(within) == RunSecrets(part_headers={"remote": {"X-Key": "secret-value"}})
    assert secrets_of_grader(ADAPTER.validate_python(EXACT)) == RunSecrets()
    assert "secret-value" not in to_grader_spec(within, SETTINGS).model_dump_json()


def test_endpoints_inside_a_multi_grader_are_knocked_at_too() -> None:
    targets = grader_targets(ADAPTER.validate_python(MULTI), "method.reinforcement.grader")

    assert [(target.param, target.url) for target in targets] == [
        ("method.reinforcement.grader.graders.remote.url", "http://127.0.0.1:9/g")
    ]


@pytest.mark.parametrize(
    ("written", "param"), [(SCORE, "grader.type"), (RULER, "grader.type"), (MULTI, "grader.graders.score.type")]
)
def test_a_judge_that_is_not_configured_is_said_at_once(written: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequest, match="RFT_JUDGE_BASE_URL") as refused:
        refuse_without_judge(ADAPTER.validate_python(written), SETTINGS, param="grader")

    assert (refused.value.param, refused.value.code) == (param, "judge_not_configured")
    configured = SETTINGS.model_copy(update={"judge_base_url": "http://127.0.0.1:1/v1"})
    refuse_without_judge(ADAPTER.validate_python(written), configured, param="grader")


@pytest.mark.parametrize(
    ("written", "param"),
    [
        (EXACT, "grader.input"),
        (SCORE, "grader.input[1].content"),
        ({"type": "multi", "graders": {"a": EXACT}, "calculate_output": "a"}, "grader.graders.a.input"),
    ],
    ids=["alone", "messages", "part"],
)
def test_a_template_that_no_sample_can_fill_is_refused_at_its_place(written: dict[str, Any], param: str) -> None:
    refuse_unfillable_templates(ADAPTER.validate_python(written), param="grader")
    text = json.dumps(written).replace("sample.output_text", "sample.output_tools[0].name")
    grader = ADAPTER.validate_python(json.loads(text))

    with pytest.raises(
        BadRequest, match=r"`sample.output_tools\[0\]` has no 'name'; it has function, id, type"
    ) as refused:
        refuse_unfillable_templates(grader, param="grader")

    assert (refused.value.param, refused.value.code) == (param, "invalid_value")


def multi(**graders: dict[str, Any]) -> dict[str, Any]:
    return {"type": "multi", "graders": graders, "calculate_output": next(iter(graders))}


LONG = {"type": "python", "source": f"def grade(s, i): return 1{' ' * 140_000}"}
BAD: list[tuple[Any, tuple[str | int, ...], str]] = [
    ("exact", (), "must be an object"),
    ({"input": "x"}, ("type",), "Field required"),
    ({"type": "oracle"}, ("type",), "must be one of"),
    ({"type": ["endpoint"]}, ("type",), "must be one of"),
    ({**EXACT, "operation": "equals"}, ("operation",), "'eq'"),
    ({**EXACT, "input": "{{ row.answer }}"}, ("input",), "row.answer"),
    ({**EXACT, "name": ""}, ("name",), "1 to 512"),
    ({**CLOSE, "evaluation_metric": "cosine"}, ("evaluation_metric",), "embedding"),
    ({**CLOSE, "evaluation_metric": "rouge_9"}, ("evaluation_metric",), "rouge_5"),
    ({**SCORE, "range": [1, 0]}, ("range",), "below its end"),
    ({**SCORE, "range": [0]}, ("range",), "two numbers"),
    ({**SCORE, "range": ["0", "1"]}, ("range",), "two numbers"),
    ({**SCORE, "range": [False, True]}, ("range",), "two numbers"),
    ({**EXACT, "pass_threshold": "0.5"}, ("pass_threshold",), "must be a number"),
    ({**PYTHON, "pass_threshold": True}, ("pass_threshold",), "must be a number"),
    (
        {**SCORE, "input": [{"role": "user", "content": ["{{ left", "open }}"]}]},
        ("input", 0, "content"),
        "variables begin with",
    ),
    ({**SCORE, "input": []}, ("input",), "at least 1"),
    ({**SCORE, "input": [{"role": "robot", "content": "x"}]}, ("input", 0, "role"), "'user'"),
    (
        {**SCORE, "input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
        ("input", 0, "content"),
        "images and audio",
    ),
    ({**SCORE, "sampling_params": {"temperature": "hot"}}, ("sampling_params", "temperature"), "from 0 to 2"),
    ({**LABEL, "passing_labels": ["great"]}, ("passing_labels",), "'great' is not among the labels"),
    ({**LABEL, "labels": ["good", "good"]}, ("labels",), "different"),
    ({**PYTHON, "source": "def score(): pass"}, ("source",), "grade"),
    ({**PYTHON, "source": f"def grade(s, i): return 1{' ' * 256 * 1024}"}, ("source",), "longer than 256 kB"),
    (
        multi(a=LONG, b=EXACT, c=LONG, d=LONG),
        ("graders", "c", "source"),
        "all sources of a grader have 256 kB together",
    ),
    (
        {**multi(a=LONG), "graders": [{**LONG, "name": "a"}, {**LONG, "name": "b"}]},
        ("graders", "b", "source"),
        "longer than 256 kB, with those before it",
    ),
    ({**RULER, "model": ""}, ("model",), "model"),
    (multi(exact={**EXACT, "reference": "{{ sam.x }}"}), ("graders", "exact", "reference"), "sam.x"),
    (multi(inner=multi(exact=EXACT)), ("graders", "inner", "type"), "may not hold another one"),
    (multi(ranked=RULER), ("graders", "ranked", "type"), "whole groups"),
    (multi(headers=EXACT), ("graders", "headers"), "word a formula can use"),
    ({**multi(exact=EXACT), "calculate_output": "exact + close"}, ("calculate_output",), "close"),
    ({**multi(exact=EXACT), "calculate_output": "exact +"}, ("calculate_output",), ""),
    ({**multi(exact=EXACT), "graders": EXACT}, ("graders",), "one bare grader"),
    ({**multi(exact=EXACT), "graders": {}}, ("graders",), "at least 1"),
    ({**multi(exact=EXACT), "graders": [EXACT, EXACT]}, ("graders", 1, "name"), "appears twice"),
    ({**multi(exact=EXACT), "graders": {"not a name": EXACT}}, ("graders", "not a name"), "word a formula can use"),
    ({**multi(exact=EXACT), "graders": {"a" * 65: EXACT}}, ("graders", "a" * 65), "word a formula can use"),
]


@pytest.mark.parametrize(("written", "place", "message"), BAD)
def test_what_is_wrong_is_said_where_it_is_wrong(written: Any, place: tuple[str | int, ...], message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        ADAPTER.validate_python(written)

    first = refused.value.errors()[0]
    assert first["loc"] == place
    assert message in first["msg"]


def test_every_kind_is_in_the_schema_of_the_api() -> None:
    schema = ADAPTER.json_schema()

    assert set(schema["discriminator"]["mapping"]) == {written["type"] for written in EVERY_KIND}
