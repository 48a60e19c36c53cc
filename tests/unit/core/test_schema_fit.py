"""Schemas and texts that the quick reading cannot take are judged in linear time, and nothing right is refused."""

import time

import pytest
from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.schema_fit import SchemaFit

UNREADABLE = {"pattern": r"a\Z"}
"""Only Python reads it."""
ROWS: JsonObject = {"type": "object", "properties": {"rows": {"type": "array", "uniqueItems": True}}}
READINGS: dict[str, tuple[JsonObject, JsonValue]] = {
    "a pattern that only Python reads": ({**ROWS, "$defs": {"b": {**UNREADABLE}}}, "x"),
    "an unknown dialect": ({**ROWS, "$schema": "https://a.example/dialect"}, "x"),
    "half a character in the value": (ROWS, "\ud800"),
    "half a character in the schema": ({**ROWS, "required": ["\ud800"]}, "x"),
}
MANY = 10_000


def _misfit(reading: str, rows: list[JsonValue]) -> str | None:
    schema, word = READINGS[reading]
    misfit = SchemaFit.compiled(schema).misfit({"rows": rows, "\ud800" if "required" in schema else "word": word})
    return misfit and misfit.place


@pytest.mark.parametrize("reading", READINGS)
def test_different_objects_are_told_apart_in_linear_time(reading: str) -> None:
    rows: list[JsonValue] = [{"a": number} for number in range(MANY)]
    began = time.process_time()
    assert _misfit(reading, rows) is None
    assert _misfit(reading, [*rows, {"a": 0}]) == "rows"
    assert time.process_time() - began < 10


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(
    ("rows", "place"),
    [
        ([1, 1.0], "rows"),
        ([0, -0.0], "rows"),
        ([1e308, 1e308], "rows"),
        ([[{"a": [1]}], [{"a": [1.0]}]], "rows"),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], "rows"),
        ([None, None], "rows"),
        (["a", "a"], "rows"),
        ([1, True, 0, False, None, "1", "true", [], {}, [1], [True], ["1"], 0.5, "", [[]], {"a": 1}, {"1": "a"}], None),
    ],
)
def test_items_are_the_same_as_json_schema_has_it(reading: str, rows: list[JsonValue], place: str | None) -> None:
    assert _misfit(reading, rows) == place


def test_a_long_list_to_choose_from_is_searched_once() -> None:
    choices: list[JsonValue] = [{"a": number} for number in range(2_000)]
    fit = SchemaFit.compiled({"items": {"enum": [*choices, "\ud800", 1, True]}})
    began = time.process_time()
    assert fit.misfit([choices[-1], "\ud800", 1.0] * MANY) is None
    assert time.process_time() - began < 10
    misfit = fit.misfit([*choices, 0])
    assert misfit is not None
    assert misfit.place == "[2000]"


@pytest.mark.lengthy
@pytest.mark.parametrize("choices", [[*range(3_000)], [{"a": number} for number in range(3_000)]])
def test_a_long_list_to_choose_from_is_searched_once_in_any_schema(choices: list[JsonValue]) -> None:
    fit = SchemaFit.compiled({"items": {"enum": choices}})
    began = time.process_time()
    assert fit.misfit([choices[-1]] * 6 * MANY) is None
    assert time.process_time() - began < 10
    misfit = fit.misfit([choices[-1], 0.5])
    assert misfit is not None
    assert misfit.place == "[1]"


def test_beside_a_long_list_to_choose_from_all_else_is_checked() -> None:
    cities: list[JsonValue] = list(range(300))
    fit = SchemaFit.compiled(
        {
            "properties": {"city": {"enum": cities}, "date": {"pattern": r"^\d{4}$"}, "enum": {"default": 1}},
            "unevaluatedProperties": False,
        }
    )
    assert fit.misfit({"city": 299.0, "date": "2026"}) is None
    wrong: list[tuple[JsonValue, str]] = [({"date": "x"}, "date"), ({"city": 300}, "city"), ({"other": 1}, "")]
    for value, place in wrong:
        misfit = fit.misfit(value)
        assert misfit is not None
        assert misfit.place == place
        assert len(misfit.message) < 200


@pytest.mark.parametrize("name", ["if", "not", "oneOf", "enum", "default"])
def test_patterns_of_any_spelling_are_no_keywords(name: str) -> None:
    """Beside a long list, below which the quick reading leaves some out."""
    choices: list[JsonValue] = [*range(300)]
    fit = SchemaFit.compiled({"patternProperties": {name: {"enum": choices}}, "additionalProperties": False})
    assert fit.misfit({name: 1}) is None
    assert fit.needs_both
    assert fit.misfit({"other": 1}) is not None


def test_a_schema_of_many_levels_is_read() -> None:
    deep: JsonObject = {"type": "object"}
    for _ in range(200):
        deep = {"properties": {"a": deep}}
    assert SchemaFit.compiled(deep).misfit({}) is None


def test_thousands_of_wrong_choices_are_told_in_short() -> None:
    choices: list[JsonValue] = list(range(100_000))
    fit = SchemaFit.compiled({"items": {"anyOf": [{"enum": choices}, {"type": "null"}]}})
    began = time.process_time()
    assert fit.misfit([*[-1] * 2_000]) is not None
    assert time.process_time() - began < 10


def test_what_is_nested_too_deeply_is_refused_in_words_if_at_all() -> None:
    deep: JsonValue = 0
    for _ in range(700):
        deep = [deep]
    assert SchemaFit.compiled({"type": "object", "default": deep}).misfit({}) is None


def test_of_many_mistakes_some_are_read() -> None:
    fit = SchemaFit.compiled({"items": {"type": "integer"}, "default": "\ud800"})
    began = time.process_time()
    assert fit.misfit([*"x" * 200_000]) is not None
    assert time.process_time() - began < 10


RIGHT: dict[str, tuple[JsonObject, JsonValue]] = {
    "a negation": ({"not": {**UNREADABLE}}, "b"),
    "a negation of a negation": ({"not": {"not": {"type": "string", **UNREADABLE}}}, "a"),
    "a negation of a reference": ({"not": {"$ref": "#/properties/v/$defs/a"}, "$defs": {"a": {**UNREADABLE}}}, "b"),
    "a condition": ({"if": {**UNREADABLE}, "then": {"minLength": 5}, "else": {"minLength": 1}}, "b"),
    "one of two": ({"oneOf": [{**UNREADABLE}, {"type": "string"}]}, "b"),
    "one of two, and any": ({"oneOf": [{**UNREADABLE}, {"type": "string"}], "anyOf": [{"minLength": 1}]}, "b"),
    "not too many": ({"contains": {**UNREADABLE}, "maxContains": 1}, ["a", "b"]),
    "names by pattern": (
        {"patternProperties": {r"a\Z": {"type": "string"}}, "additionalProperties": False},
        {"a": "x"},
    ),
    "nothing else": ({"anyOf": [{"patternProperties": {r"a\Z": {}}}], "unevaluatedProperties": False}, {"a": "x"}),
    "no other items": ({"contains": {**UNREADABLE}, "unevaluatedItems": False}, ["a"]),
    "a reference into what is left out": (
        {
            "patternProperties": {r"a\Z": {"type": "string"}},
            "properties": {"b": {"$ref": r"#/properties/v/patternProperties/a\Z"}},
        },
        {"b": "x"},
    ),
    "properties named like keywords": (
        {"properties": {"pattern": {"type": "string", **UNREADABLE}, "not": {"type": "string"}}},
        {"pattern": "a", "not": "b"},
    ),
    "values like schemas": ({"enum": [{"pattern": "a"}], "$defs": {"b": {**UNREADABLE}}}, {"pattern": "a"}),
}


@pytest.mark.parametrize("half", ["", "\ud800"])
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_left_out_refuses_nothing_right(name: str, half: str) -> None:
    schema, value = RIGHT[name]
    fit = SchemaFit.compiled({"properties": {"v": schema}})
    assert fit.misfit({"v": value, "half": half}) is None


WRONG: dict[str, tuple[JsonObject, JsonValue]] = {
    "beside a pattern": ({"type": "string", **UNREADABLE}, 5),
    "a property named like a keyword": ({"properties": {"not": {"type": "string"}, "a": {**UNREADABLE}}}, {"not": 5}),
    "a negation of no pattern": ({"not": {"type": "integer"}, "$defs": {"a": {**UNREADABLE}}}, 5),
    "a condition of no pattern": (
        {"if": {"type": "integer"}, "then": {"minimum": 6, "maximum": 4}, "anyOf": [{**UNREADABLE}]},
        5,
    ),
    "one of two": ({"oneOf": [{"type": "string", **UNREADABLE}, {"type": "null"}]}, 5),
    "one of two that both fit": ({"oneOf": [{"type": "integer"}, {"minimum": 1}], "$defs": {"a": {**UNREADABLE}}}, 5),
    "a reference": ({"$ref": "#/properties/w", "$defs": {"a": {**UNREADABLE}}}, 5),
    "one value to choose": ({"enum": [{"pattern": "a"}], "$defs": {"b": {**UNREADABLE}}}, {}),
    "names that are closed": ({"properties": {"a": {**UNREADABLE}}, "additionalProperties": False}, {"b": 1}),
}


@pytest.mark.parametrize("half", ["", "\ud800"])
@pytest.mark.parametrize("name", WRONG)
def test_the_rest_of_a_schema_is_held_against_the_value(name: str, half: str) -> None:
    schema, value = WRONG[name]
    fit = SchemaFit.compiled({"properties": {"v": schema, "w": {"type": "string"}}})
    misfit = fit.misfit({"v": value, "half": half})
    assert misfit is not None
    assert misfit.place.startswith("v")


HUGE = 10**400
"""No float is as large."""


@pytest.mark.parametrize("half", ["", "\ud800"])
@pytest.mark.parametrize(
    ("multiple", "value", "fits"),
    [
        (0.5, HUGE, True),
        (1.5, HUGE, False),
        (HUGE, 0.5, False),
        (HUGE, HUGE, True),
        (0.5, 1.5, True),
        (0.5, 0.7, False),
    ],
    ids=["halves", "no three halves", "half of it", "itself", "small", "small and no multiple"],
)
def test_numbers_that_no_float_holds_are_multiples_or_not(
    half: str, multiple: float, value: float, *, fits: bool
) -> None:
    fit = SchemaFit.compiled({"properties": {"v": {"multipleOf": multiple}, "w": {"enum": [*range(300)]}}})
    misfit = fit.misfit({"v": value, "half": half})
    assert (misfit is None) == fits


def test_what_is_nested_too_deeply_for_a_schema_is_told_so_whatever_the_stack_holds() -> None:
    """The end of the stack may be reached in any library below."""
    again: JsonValue = {"oneOf": [{"type": "null"}, {"allOf": [{"anyOf": [{"$ref": "#"}]}]}]}
    properties: JsonObject = {"next": {"if": {"type": "object"}, "then": again}, "long": {"enum": [*range(300)]}}
    fit = SchemaFit.compiled({"type": "object", "properties": properties})
    deep: JsonObject = {}
    for _ in range(90):
        deep = {"next": deep}

    def misfit_below(frames: int) -> None:
        if frames:
            misfit_below(frames - 1)
        else:
            fit.misfit(deep)

    for frames in range(24):
        with pytest.raises(RecursionError):
            misfit_below(frames)
