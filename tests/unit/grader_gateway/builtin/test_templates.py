"""The template language: what it resolves, how it shows it, and whose doing it is where it cannot."""

import json
import re
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.messages import Message, Role, ToolSchema
from rft.grader_gateway.contract import to_sample
from rft.grader_gateway.sample_shape import path_problem
from rft.grader_gateway.templates import (
    MAX_RENDERED_CHARS,
    SAMPLE_NAMES,
    TemplateError,
    TooLong,
    Unresolved,
    Variable,
    has_single_braces,
    parse,
    render_all,
    template_problem,
    unfillable,
)
from tests.shared.finished import CALL, finished

ITEM: JsonObject = {
    "answer": "42",
    "n": 3,
    "price": 1.5,
    "is_hard": True,
    "nothing": None,
    "deep": {"list": [{"name": "first"}, {"name": "last"}], "my key": "spaced", "a.b": "dotted"},
    "ünï": "code",
}

RESOLVED = [
    ("{{item.answer}}", "42"),
    ("{{ item.answer }}", "42"),
    ("{{\n item.answer\t}}", "42"),
    ("a {{item.answer}} b {{item.answer}} c", "a 42 b 42 c"),
    ("{{ item.n }}", "3"),
    ("{{ item.price }}", "1.5"),
    ("{{ item.is_hard }}", "true"),
    ("{{ item.nothing }}", "null"),
    ("{{ item.deep.list[0].name }}", "first"),
    ("{{ item.deep.list[-1].name }}", "last"),
    ("{{ item.deep.list.1.name }}", "last"),
    ("{{ item.deep.my key }}", "spaced"),
    ('{{ item.deep["a.b"] }}', "dotted"),
    ("{{ item.deep['a.b'] }}", "dotted"),
    ("{{ item.deep.list[0] }}", '{"name": "first"}'),
    ("{{ item.ünï }}", "code"),
    ("{{ sample.output_text }}", "4"),
    ("{{sample.output_tools[0].function.name}}", "add"),
    ("{{sample.output_tools[0].function.arguments}}", '{"a": 2, "b": 2}'),
    ("{{sample.output_tools[0].function.arguments.a}}", "2"),
    ("{{ sample.trace.messages[1].tool_calls[0].function.arguments['b'] }}", "2"),
    ("{{ sample.choices[0].message.content }}", "4"),
    ("{{ sample.output_json }}", "4"),
    ("{{ sample.input_tools }}", "[]"),
    ("{{ sample.output_audio }}", "null"),
    ("no variable { at } all", "no variable { at } all"),
    ("{{ left open", "{{ left open"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "shown"), RESOLVED)
def test_a_variable_is_replaced_by_its_value(text: str, shown: str) -> None:
    assert template_problem(text) is None
    assert parse(text).render(sample=to_sample(finished()), item=ITEM) == shown


PROBLEMS = [
    ("{{ answer }}", "variables begin with"),
    ("{{ items.answer }}", "expected `.name`"),
    ("{{ }}", "variables begin with"),
    ("{{ item }}", "followed by a name"),
    ("{{ item[0] }}", "followed by a name"),
    ("{{ item. }}", "expected `.name`"),
    ("{{ item.a[x] }}", "expected `.name`"),
    ("{{ item.a[0 }}", "expected `.name`"),
    ("{{ item.a | upper }}", "expected `.name`"),
    ("{{ env.SECRET }}", "variables begin with"),
    ("{{ sample.output_txt }}", "a sample has no 'output_txt'"),
]


@pytest.mark.parametrize(("text", "message"), PROBLEMS)
def test_what_is_no_template_is_told_before_any_rollout(text: str, message: str) -> None:
    problem = template_problem(text)
    assert problem is not None
    assert message in problem


def test_any_key_can_be_quoted() -> None:
    assert parse("{{ item['a|b (c)'] }}").render(sample={}, item={"a|b (c)": "x"}) == "x"


@pytest.mark.parametrize(
    "text",
    [
        "{{ sample.output_tools[1].function.name }}",
        "{{ sample.output_tools[0].function.arguments.c }}",
        "{{ sample.output_json.total }}",
        "{{ sample.output_json }}",
        "{{ sample.choices[0].message.tool_calls[0].function.name }}",
        "{{ sample.choices[0].message.reasoning_content }}",
        "{{ sample.trace.messages[9].content }}",
    ],
)
def test_what_the_answer_lacks_is_the_models_doing(text: str) -> None:
    found = parse(text).render(sample=to_sample(finished("no json")), item=ITEM)
    assert isinstance(found, Unresolved)
    assert found.is_models_doing


NEVER_FILLED = [
    "{{sample.output_tools[0].name}}",
    "{{sample.output_tools[0].function.name.a}}",
    "{{sample.output_tools.function.name}}",
    "{{sample.choices.message.content}}",
    "{{sample.choices[1].message.content}}",
    "{{sample.choices[0].text}}",
    "{{sample.choices[0].message.refusal}}",
    "{{sample.choices[0].message.content.answer}}",
    "{{sample.output_text.answer}}",
    "{{sample.finish_reason.x}}",
    "{{sample.trace.steps}}",
    "{{sample.trace.messages[-1].text}}",
]


LEFT_OPEN = ["{{item.answer}", "{{ sample.output_text", "{{item.n}} of {{\titem.answer", "{{ {{item", "{{sample['a']}"]


@pytest.mark.parametrize("text", LEFT_OPEN)
def test_a_variable_that_nothing_closes_is_told_before_any_rollout(text: str) -> None:
    assert "no `}}` closes it" in (unfillable(text) or "")


@pytest.mark.parametrize("text", ["{{ left open", "{{", "{{ items", "{item.answer}", "{{item.n}} {{ {", ""])
def test_text_with_braces_that_begins_no_variable_stays_text(text: str) -> None:
    assert unfillable(text) is None


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("{item.answer}", True),
        ("is { sample.output_text } {{item.n}}?", True),
        ("{item['a']", True),
        ("{{item.answer}}", False),
        ('{"item": {{item.answer}}}', False),
        ("{items.a} {item} { item is }", False),
    ],
)
def test_what_looks_like_a_variable_in_single_braces_is_seen(text: str, has: bool) -> None:
    assert has_single_braces(text) is has


@pytest.mark.parametrize("text", NEVER_FILLED)
def test_a_path_that_no_sample_has_is_told_before_any_rollout(text: str) -> None:
    assert template_problem(text) is None, "an item of an eval may bring a sample along that has it"
    assert unfillable(text) is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{sample.output_tools[0].name}}", "`sample.output_tools[0]` has no 'name'; it has function, id, type"),
        ("{{sample.choices.message}}", "`sample.choices` is a list: expected an index, as in `[0]`, in place of"),
        ("{{sample.choices[1].message}}", "`sample.choices` has one entry: `[0]`"),
        ("{{sample.output_text.x}}", "`sample.output_text` is one value, with nothing inside"),
    ],
)
def test_it_is_told_where_such_a_path_ends(text: str, message: str) -> None:
    problem = unfillable(text)
    assert problem is not None
    assert message in problem


@pytest.mark.parametrize(
    "text",
    [
        *(text for text, _ in RESOLVED),
        "{{sample.choices[-1].message.tool_calls[0].function.arguments.q}}",
        "{{sample.choices.0.finish_reason}} {{sample.choices[0].message.reasoning_content}}",
        "{{sample.output_json.a[0].b}} {{sample.input_tools[0].function.parameters.properties.q}}",
        "{{sample.trace.messages[0].tool_calls[-1].id}} {{sample.trace.prompt_messages}}",
        "{{item.any.where}}",
    ],
)
def test_what_some_sample_has_is_taken(text: str) -> None:
    assert unfillable(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "{{ item.nix }}",
        "{{ item.answer.more }}",
        "{{ item.deep.list[2] }}",
        "{{ sample.nix }}",
        "{{ sample.input_tools[0].function.name }}",
        "{{ sample.output_audio.data }}",
        "{{ sample.output_reasoning_summary.text }}",
        *NEVER_FILLED,
    ],
)
def test_what_the_row_lacks_is_the_authors_doing(text: str) -> None:
    found = parse(text).render(sample=to_sample(finished()), item=ITEM)
    assert isinstance(found, Unresolved)
    assert not found.is_models_doing


def test_the_authors_mistake_is_told_before_the_models() -> None:
    both = [parse("{{ sample.output_json.x }}"), parse("{{ sample.output_tools[9] }} {{ item.nix }}")]
    for templates in (both, both[::-1]):
        found = render_all(templates, sample=to_sample(finished()), item=ITEM)
        assert isinstance(found, Unresolved)
        assert found.variable.source == "item.nix"


def test_the_names_of_a_sample_are_those_of_the_contract() -> None:
    assert set(to_sample(finished())) == SAMPLE_NAMES


def test_every_path_into_a_sample_is_known() -> None:
    """One with everything: a tool that was called, a thought, calls that nobody answered."""
    calling = Message(role=Role.ASSISTANT, content="", reasoning_content="hm", tool_calls=(CALL,))
    tool = ToolSchema(name="add", description="Adds.", parameters={"type": "object"})
    trace = finished()
    trace = replace(trace, messages=(*trace.messages, calling), finish_reason="tool_calls", tools=(tool,))
    for steps in _paths(to_sample(trace)):
        assert path_problem(steps) is None, steps


def _paths(value: JsonValue, steps: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield steps
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, entry in inside:
        yield from _paths(entry, (*steps, step))


NAMES = st.text("abZ09-_$ü日😀", min_size=1, max_size=5)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), st.data())
def test_every_path_into_a_row_finds_what_is_there(item: JsonObject, data: st.DataObject) -> None:
    path, value = "item", cast("JsonValue", item)
    while isinstance(value, dict | list) and value and (path == "item" or data.draw(st.booleans())):
        if isinstance(value, dict):
            name = data.draw(st.sampled_from(sorted(value)))
            path, value = f"{path}.{name}", value[name]
        else:
            index = data.draw(st.integers(-len(value), len(value) - 1))
            path, value = f"{path}[{index}]", value[index]
    shown = parse(f"<{{{{ {path} }}}}>").render(sample={}, item=item)
    assert isinstance(shown, str)
    assert (shown[1:-1] if isinstance(value, str) else json.loads(shown[1:-1])) == value


@given(st.text())
def test_any_text_is_a_template_or_a_problem(text: str) -> None:
    try:
        template = parse(text)
    except TemplateError:
        assert template_problem(text)
        return
    assert isinstance(template.render(sample={}, item={}), str | Unresolved)


@given(st.text(st.characters(exclude_characters="{}")))
def test_text_without_braces_is_itself(text: str) -> None:
    assert parse(text).render(sample={}, item={}) == text
    assert template_problem(text) is None


@given(st.text(alphabet="{} a", max_size=30))
def test_a_placeholder_begins_at_the_first_braces_and_ends_at_the_next(text: str) -> None:
    filled = text.replace("a", "item.a")
    expected = re.findall(r"\{\{(.*?)\}\}", filled)
    try:
        found = [part.source for part in parse(filled).parts if isinstance(part, Variable)]
    except TemplateError:
        assert any(inside.strip() != "item.a" for inside in expected)
        return
    assert found == [inside.strip() for inside in expected]


@pytest.mark.parametrize("unit", ["{{", "{", "{{ item.a", "{{ item.a }} {{ "])
def test_a_million_open_braces_are_read_in_one_go(unit: str) -> None:
    text = unit * 1_000_000
    assert (template_problem(text) is None) == ("}}" not in unit)
    assert template_problem(text + "}}") is not None


@given(st.text(max_size=40))
def test_whatever_stands_in_the_braces_is_a_variable_or_a_problem(inside: str) -> None:
    try:
        template = parse("{{" + inside + "}}")
    except TemplateError:
        return
    assert len(template.parts) >= 1


@given(st.text(alphabet="{} item.sample[0]'\"", max_size=60))
def test_values_are_not_templates(value: str) -> None:
    assert parse("{{item.x}}").render(sample={}, item={"x": value}) == value


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(["{{item.x}}" * 1000], id="one that repeats itself"),
        pytest.param(["{{item.x}}"] * 100, id="many together"),
        pytest.param(["{{item.list}}" * 100], id="what is no text"),
        pytest.param(["{{sample.output_json.nix}}{{item.x}}" * 1000], id="beside what the answer lacks"),
    ],
)
def test_what_becomes_megabytes_is_given_up_on_the_way_and_is_the_authors_doing(texts: list[str]) -> None:
    texts_of_item: list[JsonValue] = ["x" * 1000] * 100
    item: JsonObject = {"x": "x" * 100_000, "list": texts_of_item}
    tracemalloc.start()
    try:
        found = render_all([parse(text) for text in texts], sample=to_sample(finished("no json")), item=item)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(found, TooLong)
    assert not found.is_models_doing
    assert peak < 3 * MAX_RENDERED_CHARS


def test_as_much_as_the_limit_is_a_text() -> None:
    half = "x" * (MAX_RENDERED_CHARS // 2)
    assert parse("{{item.x}}" * 2).render(sample={}, item={"x": half}) == half * 2
