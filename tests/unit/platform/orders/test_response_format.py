"""`response_format` and `invalid_grade` on the wire, and what a run is told of them."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from rft.core.response_format import ResponseFormat
from rft.platform.orders.grader_schemas import Grader
from rft.platform.orders.grader_specification import to_grader_spec
from rft.platform.orders.response_format import ResponseFormatWanted, to_response_format
from rft.platform.settings import Settings

FORMAT: TypeAdapter[Any] = TypeAdapter(ResponseFormatWanted)
GRADER: TypeAdapter[Grader] = TypeAdapter(Grader)
SCHEMA: dict[str, Any] = {"type": "object", "required": ["a"]}
CHECK: dict[str, Any] = {"type": "string_check", "input": "a", "reference": "a", "operation": "eq"}


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, ResponseFormat(type="json_object")),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": SCHEMA}},
            ResponseFormat(type="json_schema", json_schema=SCHEMA),
        ),
        (
            {"type": "json_schema", "name": "x", "strict": False, "schema": SCHEMA},
            ResponseFormat(type="json_schema", json_schema=SCHEMA),
        ),
    ],
    ids=["text", "object", "nested", "flat"],
)
def test_both_shapes_come_to_the_same(written: dict[str, Any], told: ResponseFormat | None) -> None:
    assert to_response_format(FORMAT.validate_python(written)) == told
    assert to_response_format(None) is None


@pytest.mark.parametrize(
    "written",
    [{}, {"type": "json"}, "json_object", {"type": "json_schema"}, {"type": "json_schema", "schema": {"type": "odd"}}],
)
def test_what_is_no_format_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        FORMAT.validate_python(written)


def test_the_invalid_grade_reaches_the_run_and_each_part_has_its_own() -> None:
    parts = {"a": {**CHECK, "invalid_grade": -2}, "b": CHECK}
    multi = {"type": "multi", "name": "m", "graders": parts, "calculate_output": "a + b", "invalid_grade": -0.5}
    settings = Settings(home=Path(), database_url="", broker_url="")
    spec = to_grader_spec(GRADER.validate_python(multi), settings)
    assert spec.invalid_grade == -0.5
    assert [part.invalid_grade for part in getattr(spec, "graders", {}).values()] == [-2.0, None]


@pytest.mark.parametrize("value", [1e16, -1e200, float("inf"), float("nan"), "0", True])
def test_an_invalid_grade_is_a_score(value: Any) -> None:
    with pytest.raises(ValidationError):
        GRADER.validate_python({**CHECK, "invalid_grade": value})


def test_a_judges_range_lies_within_all_scores() -> None:
    judge = {"type": "score_model", "model": "m", "input": [{"role": "user", "content": "?"}]}
    GRADER.validate_python({**judge, "range": [-1e15, 1e15]})
    with pytest.raises(ValidationError):
        GRADER.validate_python({**judge, "range": [0, 1e154]})
