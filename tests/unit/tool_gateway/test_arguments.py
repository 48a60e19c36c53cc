"""Arguments against the row's schema, in words for the model."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.messages import ToolSchema
from rft.tool_gateway.arguments import ArgumentChecker, InvalidToolSchema, schema_problem

SEARCH = ToolSchema(
    name="search",
    parameters={
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
        "required": ["query"],
        "additionalProperties": False,
    },
)


@pytest.mark.parametrize("arguments", ['{"query": "x"}', ' {"query": "", "limit": 1}\n', '{"query": "\\ud800"}'])
def test_fitting_arguments_pass(arguments: str) -> None:
    assert ArgumentChecker().problem(SEARCH, arguments) is None


@pytest.mark.parametrize("key", ["\\ud800", "k" * 100_000])
def test_what_is_wrong_can_be_stored_whatever_keys_the_model_makes_up(key: str) -> None:
    counts = ToolSchema(name="count", parameters={"type": "object", "additionalProperties": {"type": "integer"}})
    problem = ArgumentChecker().problem(counts, f'{{"{key}": "x"}}')
    assert problem is not None
    assert "'x' is not of type 'integer'" in problem or '"x" is not of type "integer"' in problem
    assert len(problem.encode()) < 2000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ('{"query": "x"', "at character 14"),
        ("{'query': 'x'}", "not valid JSON"),
        ('{"query": NaN}', "NaN is not a JSON number"),
        ('"x"', "one JSON object"),
        ("[]", "one JSON object"),
        ("null", "one JSON object"),
        ("{}", '"query" is a required property'),
        ('{"query": 5}', 'argument query does not fit: 5 is not of type "string"'),
        ('{"query": "x", "limit": 0}', "argument limit does not fit"),
        ('{"query": "x", "other": 1}', "'other' was unexpected"),
        ("[" * 100_000, "nested too deeply"),
        ('{"query": ' + "9" * 5000 + "}", "too many digits"),
        ('{"query": -1e400}', "a number that is too large: -1e400"),
    ],
)
def test_what_is_wrong_is_said_in_plain_words(arguments: str, message: str) -> None:
    problem = ArgumentChecker().problem(SEARCH, arguments)
    assert problem is not None
    assert message in problem
    assert len(problem) < 500


@pytest.mark.lengthy
@given(st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(json.dumps))
def test_no_text_of_a_model_breaks_the_check(arguments: str) -> None:
    problem = ArgumentChecker().problem(SEARCH, arguments)
    assert problem is None or problem.startswith("The argument")


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "strange"},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"$ref": "http://169.254.169.254/schema.json"},
        {"$ref": "#/definitions/missing"},
        {"$ref": "#"},
    ],
)
def test_what_is_no_json_schema_is_found_before_a_job_starts(parameters: JsonObject) -> None:
    assert schema_problem(parameters) is not None


def test_a_good_schema_has_no_problem() -> None:
    assert schema_problem(SEARCH.parameters) is None
    assert schema_problem({}) is None


def test_a_bad_schema_is_loud_not_lenient() -> None:
    with pytest.raises(InvalidToolSchema, match="not a JSON Schema"):
        ArgumentChecker().problem(ToolSchema(name="x", parameters={"type": "strange"}), "{}")
    with pytest.raises(InvalidToolSchema, match="cannot be followed"):
        ArgumentChecker().problem(ToolSchema(name="x", parameters={"$ref": "http://127.0.0.1:1/s"}), "{}")


def test_equal_schemas_of_different_rows_are_compiled_once_and_memory_stays_bounded() -> None:
    checker = ArgumentChecker(remembered=10)
    for number in range(100):
        required: list[str] = ["query"] if number % 2 else []
        tool = ToolSchema(name="t", parameters={"type": "object", "required": list(required)})
        assert (checker.problem(tool, "{}") is not None) == bool(required)


_kinds = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
_details = st.fixed_dictionaries(
    {},
    optional={
        "type": _kinds | st.lists(_kinds, min_size=1, max_size=3, unique=True),
        "enum": st.lists(st.sampled_from(["a", "é", 1, 1.0, True, None]), min_size=1, max_size=3, unique_by=repr),
        "minimum": st.integers(-2, 2),
        "exclusiveMaximum": st.integers(-2, 2),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": st.integers(0, 3),
        "pattern": st.sampled_from(["^a+$", r"\d", "[^x]", "é"]),
        "maxItems": st.integers(0, 2),
        "items": st.fixed_dictionaries({"type": _kinds}),
        "uniqueItems": st.booleans(),
    },
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, 2.0, "", "a", "aa", "é", "x", "7"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(
    details=st.dictionaries(st.sampled_from("ab"), _details, max_size=2),
    required=st.lists(st.sampled_from("ab"), max_size=2, unique=True),
    is_closed=st.booleans(),
    arguments=st.dictionaries(st.sampled_from("abc"), _values, max_size=3),
)
def test_the_quick_reading_lets_through_what_the_reference_implementation_does(
    details: dict[str, JsonValue], required: list[str], arguments: dict[str, JsonValue], *, is_closed: bool
) -> None:
    parameters: JsonObject = {"type": "object", "properties": {**details}, "required": [*required]}
    if is_closed:
        parameters["additionalProperties"] = False
    problem = ArgumentChecker().problem(ToolSchema(name="t", parameters=parameters), json.dumps(arguments))
    assert (problem is None) == Draft202012Validator(parameters).is_valid(arguments)


def _text_that_matches(pattern: str) -> ToolSchema:
    return ToolSchema(name="t", parameters={"type": "object", "properties": {"a": {"pattern": pattern}}})


def test_a_pattern_that_backtracks_for_hours_is_judged_at_once() -> None:
    problem = ArgumentChecker().problem(_text_that_matches("^(a+)+$"), json.dumps({"a": "a" * 60 + "!"}))
    assert problem is not None
    assert "does not match" in problem


@pytest.mark.parametrize("pattern", ["^(?:(?=a)a+)+$", "^((a+)\\2?)+$"])
def test_what_takes_too_long_to_match_is_left_to_the_tool(pattern: str) -> None:
    assert ArgumentChecker().problem(_text_that_matches(pattern), json.dumps({"a": "a" * 60 + "!"})) is None


@pytest.mark.parametrize("name", ["a", "additional"])
def test_a_schema_that_the_quick_reading_cannot_take_is_read_without_its_patterns(name: str) -> None:
    parameters: JsonObject = {
        "type": "object",
        "properties": {
            "a": {"pattern": "^(a+)+$"},
            "n": {"type": "integer", "$schema": "https://json-schema.org/draft/2020-12/schema"},
            "b": {"pattern": "(?P<x>b)(?P=x)", "$schema": "https://json-schema.org/draft/2020-12/schema"},
        },
        "patternProperties": {"^(a+)+$": {"type": "string"}},
        "additionalProperties": False,
        "unevaluatedProperties": False,
        "required": ["n"],
    }
    tool, checker = ToolSchema(name="t", parameters=parameters), ArgumentChecker()
    slow = "a" * 60 + "!"
    assert checker.problem(tool, json.dumps({"n": 1, slow: slow, name: slow, "b": slow})) is None
    assert '"n" is a required property' in (checker.problem(tool, json.dumps({"b": slow})) or "")
    assert "argument n does not fit" in (checker.problem(tool, json.dumps({"n": "x", "b": slow})) or "")


@pytest.mark.parametrize("odd", ["\ud800", 10**400, -(10**30), 1e308])
def test_odd_values_do_not_open_the_way_to_a_slow_pattern(odd: str | float) -> None:
    problem = ArgumentChecker().problem(_text_that_matches("^(a+)+$"), json.dumps({"a": "a" * 60 + "!", "b": odd}))
    assert problem is None or "does not match" in problem


def test_the_complaint_that_says_most_is_told() -> None:
    parameters: JsonObject = {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "string"}, {"minimum": 5}]}, "b": {"items": {"type": "integer"}}},
    }
    tool, checker = ToolSchema(name="t", parameters=parameters), ArgumentChecker()
    assert "argument b[1] does not fit" in (checker.problem(tool, '{"a": 1, "b": [1, "x"]}') or "")
    assert "argument a does not fit" in (checker.problem(tool, '{"a": 1}') or "")
