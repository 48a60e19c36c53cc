"""Dataset rows: good ones parse, bad ones say where and why."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.dataset import DatasetRow, RowProblem, parse_row, parse_rows
from rft.core.messages import Role

USER = {"role": "user", "content": "What was the revenue?"}
TOOL = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
FLAT = {"type": "function", "name": "search", "parameters": {"type": "object"}}
CALL = {"id": "a", "type": "function", "function": {"name": "search", "arguments": "{}"}}
ASKING = {"role": "assistant", "tool_calls": [CALL]}


def problem(row: object) -> RowProblem:
    parsed = parse_row(row if isinstance(row, bytes | str) else json.dumps(row), line_number=7, index=0)
    assert isinstance(parsed, RowProblem)
    assert parsed.line == 7
    return parsed


def test_a_row_keeps_everything_the_customer_wrote() -> None:
    item = {"messages": [USER], "tools": [TOOL], "answer": 41, "nested": {"a": [1, None]}}
    row = parse_row(json.dumps(item), line_number=1, index=3)
    assert isinstance(row, DatasetRow)
    assert (row.index, row.item, row.tools[0].name) == (3, item, "search")
    assert row.messages[0].role is Role.USER


def test_a_row_may_be_as_deep_as_a_body_of_the_api() -> None:
    deep = '{"messages": [{"role": "user", "content": "?"}], "a": ' + "[" * 100 + "]" * 100 + "}"
    row = parse_row(deep, line_number=1, index=0)
    assert isinstance(row, DatasetRow)
    assert DatasetRow.model_validate_json(row.model_dump_json()) == row, "as it travels to rollout workers"


def test_text_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    row = parse_row(json.dumps({"messages": [{"role": "user", "content": parts}]}), line_number=1, index=0)
    assert isinstance(row, DatasetRow)
    assert row.messages[0].content == "ab"


def test_a_tool_may_be_described_as_in_the_responses_api() -> None:
    flat = parse_row(json.dumps({"messages": [USER], "tools": [FLAT]}), line_number=1, index=0)
    nested = parse_row(json.dumps({"messages": [USER], "tools": [TOOL]}), line_number=1, index=0)
    assert isinstance(flat, DatasetRow)
    assert isinstance(nested, DatasetRow)
    assert flat.tools == nested.tools


def test_a_tool_message_answers_a_call_before_it() -> None:
    messages = [ASKING, {"role": "tool", "content": "7", "tool_call_id": "a"}, USER]
    row = parse_row(json.dumps({"messages": messages}), line_number=1, index=0)
    assert isinstance(row, DatasetRow)
    assert row.messages[1].tool_call_id == row.messages[0].tool_calls[0].call_id


@pytest.mark.parametrize(
    ("row", "path", "reason"),
    [
        (b"\xff\xfe", "", "not UTF-8"),
        ("{", "", "not JSON"),
        ('{"messages": NaN}', "", "NaN is not JSON"),
        ("[" * 100_000, "", "nested too deeply"),
        ('{"a": ' + "[" * 101 + "]" * 101 + "}", "", "nested more than 100 levels deep"),
        ('{"a": ' + "[" * 300 + "]" * 300 + "}", "", "nested more than 100 levels deep"),
        ([1], "", "a row must be a JSON object, this is a list"),
        (True, "", "this is a boolean"),
        ({}, "messages", "missing"),
        ({"messages": []}, "messages", "empty"),
        ({"messages": "hi"}, "messages", "this is a string"),
        ({"messages": [1]}, "messages[0]", "this is a number"),
        ({"messages": [{"role": "king", "content": ""}]}, "messages[0].role", "'king'"),
        ({"messages": [{"role": ["user"], "content": ""}]}, "messages[0].role", "must be one of"),
        ({"messages": [{"role": "system", "content": ""}, USER]}, "messages[0].role", "use developer"),
        ({"messages": [USER, {"role": "assistant", "content": "x"}]}, "messages[1].role", "the last message"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content", "this is null"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]", "text parts"),
        ({"messages": [USER], "tools": {}}, "tools", "must be a list"),
        ({"messages": [USER], "tools": ["x"]}, "tools[0]", "must look like"),
        ({"messages": [USER], "tools": [{"function": {"name": ""}}]}, "tools[0].function.name", "non-empty"),
        ({"messages": [USER], "tools": [TOOL, TOOL]}, "tools[1].function.name", "described twice"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}, USER]},
            "messages[0].tool_calls[0]",
            "function",
        ),
        ({"messages": [{"role": "assistant", "content": None}, USER]}, "messages[0].content", "this is null"),
        ({"messages": [{**USER, "tool_calls": [CALL]}]}, "messages[0].tool_calls", "only an assistant"),
        ({"messages": [{"role": "tool", "content": "7"}, USER]}, "messages[0].tool_call_id", "missing"),
        (
            {"messages": [ASKING, {"role": "tool", "content": "7", "tool_call_id": "b"}, USER]},
            "messages[1].tool_call_id",
            "no assistant message before it made a call 'b'",
        ),
        ({"messages": [USER], "tools": [{"function": {"name": "two words"}}]}, "tools[0].function.name", "letters"),
        ({"messages": [USER], "tools": [{"type": "function", "name": "x" * 65}]}, "tools[0].name", "1 to 64"),
        ({"messages": [USER], "tools": [{"type": "function", "name": "search\n"}]}, "tools[0].name", "1 to 64"),
        (
            {"messages": [USER], "tools": [{"function": {"name": "a", "parameters": {"type": "objekt"}}}]},
            "tools[0].function.parameters",
            "not a JSON Schema at $.type",
        ),
        (
            {"messages": [USER], "tools": [{"function": {"name": "a", "parameters": {"$ref": "http://x/y"}}}]},
            "tools[0].function.parameters",
            "cannot be followed",
        ),
        (
            {"messages": [USER], "tools": [{"function": {"name": "a", "parameters": {"type": "array"}}}]},
            "tools[0].function.parameters",
            "must describe an object",
        ),
        (
            {"messages": [USER], "tools": [{"function": {"name": "a", "description": 5}}]},
            "tools[0].function.description",
            "must be a string, this is a number",
        ),
        ({"messages": [{**USER, "name": 5}]}, "messages[0].name", "must be a string, this is a number"),
        (
            {"messages": [ASKING, {"role": "tool", "content": "7", "tool_call_id": 5}, USER]},
            "messages[1].tool_call_id",
            "must be a string",
        ),
        ({"messages": [{**ASKING, "tool_calls": [{**CALL, "id": 5}]}, USER]}, "messages[0].tool_calls[0].id", "string"),
        ({"messages": [USER], "tools": [TOOL, FLAT]}, "tools[1].name", "described twice"),
        ('{"messages": 1e999}', "", "too large"),
        ('{"messages": ' + "1" * 5000 + "}", "", "too many digits"),
        ('{"messages": "\\ud800"}', "", "surrogate"),
        (b'"' + b"x" * (1 << 20) + b'"', "", "longer than 983,040 bytes"),
    ],
)
def test_bad_rows_say_where_and_why(row: object, path: str, reason: str) -> None:
    found = problem(row)
    assert found.path == path
    assert reason in found.reason
    assert str(found).startswith("line 7")


def test_lines_are_counted_as_an_editor_does_and_rows_without_gaps() -> None:
    good = json.dumps({"messages": [USER]})
    parsed = list(parse_rows([good, "", "oops", good]))
    assert [p.index if isinstance(p, DatasetRow) else p.line for p in parsed] == [0, 3, 1]


def test_a_byte_order_mark_is_no_content() -> None:
    assert isinstance(
        parse_row(b"\xef\xbb\xbf" + json.dumps({"messages": [USER]}).encode(), line_number=1, index=0), DatasetRow
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.lengthy
@given(st.dictionaries(st.sampled_from(["messages", "tools", "x"]), json_values) | json_values)
def test_any_json_is_a_row_or_a_problem(value: object) -> None:
    assert isinstance(parse_row(json.dumps(value), line_number=1, index=0), DatasetRow | RowProblem)


@given(st.binary())
def test_any_bytes_are_a_row_or_a_problem(line: bytes) -> None:
    assert isinstance(parse_row(line, line_number=1, index=0), DatasetRow | RowProblem)
