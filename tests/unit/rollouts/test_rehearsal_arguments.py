"""Made-up calls fit their schemas, come from the row, and are the same for the same seed."""

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from rft.core.dataset import DatasetRow, parse_row
from rft.core.messages import ToolSchema
from rft.core.response_format import ResponseFormat
from rft.grader_gateway.answer_format import AnswerFormat
from rft.rollouts.rehearsal_arguments import Material, answer_for, answer_of, arguments_for
from rft.rollouts.rehearsal_patterns import Steps, UnsupportedPattern, text_matching
from rft.tool_gateway.arguments import ArgumentChecker

QUESTION = "What was the net revenue of Acme Corp in 2019?"


def row(**fields: Any) -> DatasetRow:
    item = {"messages": [{"role": "user", "content": QUESTION}], **fields}
    parsed = parse_row(json.dumps(item), line_number=1, index=0)
    assert isinstance(parsed, DatasetRow)
    return parsed


def draw(parameters: dict[str, Any], seed: int = 0, **fields: Any) -> Any:
    tool = ToolSchema(name="tool", parameters=parameters)
    text = arguments_for(tool, Material.of(row(**fields)), Random(seed), ArgumentChecker())
    return None if text is None else json.loads(text)


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


SCHEMAS = [
    of(query={"type": "string"}),
    of(query={"type": "string", "minLength": 30, "maxLength": 40}),
    of(kind={"enum": ["annual", "quarterly"]}, version={"const": 3}),
    of(limit={"type": "integer", "minimum": 1, "maximum": 5}),
    of(limit={"type": "integer", "exclusiveMinimum": 7, "exclusiveMaximum": 9}),
    of(page={"type": "integer", "multipleOf": 25, "minimum": 10}),
    of(share={"type": "number", "minimum": 0.25, "maximum": 0.5}),
    of(is_exact={"type": "boolean"}, nothing={"type": "null"}),
    of(ids={"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 4}),
    of(tags={"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 3}),
    of(pair={"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False, "maxItems": 2}),
    of(when={"type": "string", "format": "date"}, at={"type": ["string", "null"], "format": "date-time"}),
    of(ticker={"type": "string", "pattern": "^[A-Z]{3,5}$"}),
    of(code={"type": "string", "pattern": r"^(ab|cd)-\d{4}(?:\.[0-9a-f]+)?$"}),
    of(filter=of(field={"type": "string"}, value={"anyOf": [{"type": "string"}, {"type": "number"}]})),
    {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False},
    {"type": "object", "required": ["undescribed"]},
    {"$defs": {"place": of(city={"type": "string"})}, **of(place={"$ref": "#/$defs/place"})},
    {"allOf": [of(a={"type": "integer"}), of(b={"type": "string"})]},
    {"oneOf": [of(path={"type": "string"}), of(url={"type": "string", "format": "uri"})]},
    {},
]


@pytest.mark.parametrize("parameters", SCHEMAS, ids=lambda schema: json.dumps(schema)[:60])
@pytest.mark.parametrize("seed", range(4))
def test_arguments_fit_the_schema(parameters: dict[str, Any], seed: int) -> None:
    arguments = draw(parameters, seed)
    assert arguments is not None
    Draft202012Validator(parameters).validate(arguments)


def test_the_same_seed_gives_the_same_arguments() -> None:
    parameters = of(query={"type": "string"}, limit={"type": "integer"}, kind={"enum": [1, 2, 3]})
    assert [draw(parameters, seed) for seed in range(10)] == [draw(parameters, seed) for seed in range(10)]


def test_different_seeds_give_different_arguments() -> None:
    assert len({draw(of(query={"type": "string"}), seed)["query"] for seed in range(40)}) > 5


def test_texts_are_phrases_of_the_question() -> None:
    for seed in range(20):
        words = draw(of(query={"type": "string"}), seed)["query"].split()
        assert set(words) <= set(re.findall(r"\w+", QUESTION))


def test_a_field_of_the_row_fills_the_argument_of_its_name() -> None:
    companies = [
        draw(of(company={"type": "string"}), seed, meta={"company_name": "Globex"})["company"] for seed in range(20)
    ]
    assert companies.count("Globex") > 8


def test_numbers_of_the_question_are_used() -> None:
    years = [draw(of(year={"type": "integer"}), seed)["year"] for seed in range(20)]
    assert years.count(2019) > 8


@pytest.mark.parametrize(
    "parameters",
    [
        of(a=False),
        of(a={"type": "string", "pattern": "^(?=x)y$"}),
        of(a={"type": "string", "minLength": 10**9}),
        of(a={"type": "array", "minItems": 10**7}),
        of(a={"type": "integer", "minimum": 5, "maximum": 4}),
        of(a={"$ref": "https://example.com/schema.json"}),
        of(a={"$ref": "#/anyOf/first"}),
        of(a={"$ref": "#nowhere"}),
        of(a={"not": {}}),
        {"$ref": "#"},
        {"type": "array"},
        {"type": "nonsense"},
    ],
)
def test_what_cannot_be_made_is_none(parameters: dict[str, Any]) -> None:
    assert draw(parameters) is None


def test_a_schema_that_holds_itself_is_left_at_some_depth() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}, "name": {"type": "string"}}, "required": ["name"]}
    arguments = draw(tree)
    assert arguments is not None
    Draft202012Validator(tree).validate(arguments)


def nested_arrays(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema, "minItems": 200}
    return of(a=schema)


def parts_of_parts(levels: int, make: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Each part is made of the next one, several times over."""
    parts = {f"part{level}": make({"$ref": f"#/$defs/part{level + 1}"}) for level in range(levels)}
    return {"$defs": {**parts, f"part{levels}": {"type": "integer"}}, **of(a={"$ref": "#/$defs/part0"})}


HOSTILE = {
    "a pattern that backtracks": of(a={"type": "string", "pattern": "^(a+)+$"}),
    "nested repetitions of text": of(a={"type": "string", "pattern": f"^{'(' * 40}a{'*)' * 40}$"}),
    "nested repetitions of next to nothing": of(a={"type": "string", "pattern": "^x((((a?){0,900}){900}){900})$"}),
    "nested arrays": nested_arrays(4),
    "objects of objects": parts_of_parts(10, lambda part: of(**{f"p{number}": part for number in range(8)})),
    "all of all of": parts_of_parts(5, lambda part: {"allOf": [part] * 30}),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", HOSTILE)
def test_no_schema_keeps_the_script_busy_for_long(name: str) -> None:
    item = {"messages": [{"role": "user", "content": "a" * 40 + "-"}]}
    parsed = parse_row(json.dumps(item), line_number=1, index=0)
    assert isinstance(parsed, DatasetRow)
    tool = ToolSchema(name="tool", parameters=HOSTILE[name])
    arguments = arguments_for(tool, Material.of(parsed), Random(0), ArgumentChecker())
    assert arguments is None or ArgumentChecker().problem(tool, arguments) is None


def bounded(kind: str, low: float, span: float) -> Any:
    names = ("minLength", "maxLength") if kind == "string" else ("minimum", "maximum")
    return {"type": kind, names[0]: low, names[1]: low + span}


def array(items: Any, least: int) -> Any:
    return {"type": "array", "items": items, "minItems": least}


def some_required(fields: dict[str, Any]) -> Any:
    return {"type": "object", "properties": fields, "required": list(fields)[::2]}


def one_of_these(values: list[str]) -> Any:
    return {"enum": values}


def deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.dictionaries(st.text(min_size=1, max_size=6), inner, max_size=4)
    return st.builds(array, inner, st.integers(0, 3)) | st.builds(some_required, fields)


LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.builds(bounded, st.just("integer"), st.integers(-1000, 1000), st.integers(0, 50)),
    st.builds(bounded, st.just("number"), st.floats(-1000, 1000), st.floats(0, 50)),
    st.builds(bounded, st.just("string"), st.integers(0, 30), st.integers(0, 10)),
    st.builds(one_of_these, st.lists(st.text(max_size=5), min_size=1, max_size=4)),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, True, {}]),
)
DEEP = st.recursive(LEAVES, deeper, max_leaves=8)


@settings(max_examples=80, deadline=None)
@given(schema=DEEP, seed=st.integers(0, 1000))
def test_any_schema_of_the_usual_parts_gets_arguments_that_fit(schema: Any, seed: int) -> None:
    parameters = of(value=schema)
    arguments = draw(parameters, seed)
    assert arguments is not None
    Draft202012Validator(parameters).validate(arguments)


@settings(max_examples=80, deadline=None)
@given(
    pattern=st.recursive(
        st.sampled_from(["a", "x", r"\d", r"\w", r"\.", "[a-f0-9]", "[^a-z]", "."]),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map("".join),
            st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
            st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}"])).map(
                lambda two: f"({two[0]}){two[1]}"
            ),
        ),
        max_leaves=6,
    ),
    seed=st.integers(0, 1000),
)
def test_texts_made_for_a_pattern_match_it(pattern: str, seed: int) -> None:
    assert re.fullmatch(pattern, text_matching(f"^{pattern}$", Random(seed), Steps(10_000)))


@pytest.mark.parametrize(
    "pattern", ["(?=a)b", r"(a)\1", "(a)?(?(1)b|c)", "a{2000}", "[b-a]", "(a", "a)", "*", "[", "\\"]
)
def test_patterns_that_no_text_is_made_for_are_told(pattern: str) -> None:
    with pytest.raises(UnsupportedPattern):
        text_matching(pattern, Random(0), Steps(10_000))


@pytest.mark.parametrize(
    ("fields", "answer"),
    [({"answer": "42"}, "42"), ({"expected": {"n": 1}}, '{"n": 1}'), ({"reference_answer": 7}, "7")],
)
def test_the_answer_is_the_reference_where_the_row_has_one(fields: dict[str, Any], answer: str) -> None:
    known = row(**fields)
    assert answer_of(known, Material.of(known), Random(0)) == answer


def test_the_answer_is_a_word_of_the_row_otherwise() -> None:
    plain = row(topic="money")
    assert answer_of(plain, Material.of(plain), Random(0)) in QUESTION


def test_numbers_beyond_floats_do_no_harm() -> None:
    material = Material.of(row(huge=10**400))
    assert all(number < 1e300 for number in material.numbers)
    assert cast("float", material.fields["huge"]) == float("inf")


LONG_ID = 1234567890123456789


def test_identifiers_keep_all_their_digits() -> None:
    """A float has 53 bits: the tool would be asked for an order that there is not."""
    wanted = of(order_id={"type": "integer"}, thread={"type": "string"}, share={"type": "number"})
    drawn = [draw(wanted, seed, order_id=LONG_ID, thread=LONG_ID + 2, share=0.25) for seed in range(20)]
    assert {one["order_id"] for one in drawn if one["order_id"] > 1e9} == {LONG_ID}
    assert {one["thread"] for one in drawn if one["thread"].isdigit()} == {str(LONG_ID + 2)}
    assert any(one["share"] == 0.25 for one in drawn)


def test_identifiers_of_the_question_keep_all_their_digits() -> None:
    asked = row(messages=[{"role": "user", "content": f"Where is order {LONG_ID}? Or {'9' * 5000}, or 1.5?"}])
    assert Material.of(asked).numbers == (LONG_ID, 1.5)


def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    monkeypatch.setattr(Material, "_look_up", lambda self, wanted: asked.append(wanted))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    draw(of(tags={"type": "array", "items": {"type": "string"}, "minItems": 50}))
    assert asked == ["tags"]


@pytest.mark.parametrize("seed", range(5))
def test_answers_fit_the_jobs_format(seed: int) -> None:
    schema = of(names={"type": "array", "items": {"type": "string"}, "minItems": 1}, score={"type": "number"})
    wanted = AnswerFormat(ResponseFormat(type="json_schema", json_schema={**schema, "required": ["names", "score"]}))
    answer = answer_for(wanted, {**schema, "required": ["names", "score"]}, Material.of(row()), Random(seed))
    assert answer is not None
    assert wanted.problem(answer) is None
