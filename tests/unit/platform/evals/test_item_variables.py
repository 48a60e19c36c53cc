"""A template that names what items do not have is found before any run."""

from typing import Any

import pytest

from rft.platform.evals.item_variables import item_problem

SCHEMA: Any = {
    "type": "object",
    "properties": {
        "answer": {"type": "string"},
        "person": {"type": "object", "properties": {"name": {"type": "string"}}},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"text": {"type": "string"}}}},
        "open": {"type": "object"},
        "extra": {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
        "either": {"anyOf": [{"type": "string"}]},
    },
}


@pytest.mark.parametrize(
    "text",
    [
        "{{item.answer}} {{sample.output_text}}",
        "{{ item.person.name }}",
        "{{item.parts[0].text}}",
        "{{item.open.whatever}}",
        "{{item.extra.b}}",
        "{{item.either.c}}",
        "no variable",
    ],
)
def test_what_the_schema_lists_or_leaves_open_may_be_named(text: str) -> None:
    assert item_problem(text, SCHEMA) is None
    assert item_problem(text, {}) is None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{{item.anwser}}", "Did you mean 'answer'?"),
        ("{{item.person.nmae}}", "'nmae'"),
        ("{{item.parts[0].txet}}", "'text'"),
        ("{{item.answer}} {{item.zzz}}", "answer, either, extra, open, parts, person"),
    ],
)
def test_what_it_lacks_is_named_with_what_it_has(text: str, word: str) -> None:
    problem = item_problem(text, SCHEMA)
    assert problem is not None
    assert word in problem
