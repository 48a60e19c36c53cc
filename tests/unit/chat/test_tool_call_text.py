"""Reading what a policy writes: anything may come, nothing may break."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.chat.hermes import HermesChatFormat
from rft.chat.syntax import WrittenCall
from rft.chat.syntaxes.tagged_json import HERMES
from rft.core.messages import ToolCall
from rft.testing.samplers_tokenizer import ByteTokenizer


def read_turn(text: str) -> tuple[str, tuple[WrittenCall, ...]]:
    turn = HERMES.read(text, ())
    return turn.content, turn.calls


def calls_of(text: str) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in read_turn(text)[1]]


def block(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


CALL_A = block('{"name": "a", "arguments": {}}')


@pytest.mark.parametrize(
    "arguments",
    [
        '{"q": 1}',
        '{ "q" :  1.50,"z":[1,  2] }',
        '{"caf\\u00e9": "\\n", "b": 1e3}',
        '{"text": "</tool_call> and <tool_call> in a string"}',
        "{}",
        '{"a": 1, "a": 2}',
    ],
)
def test_arguments_are_the_slice_the_model_wrote(arguments: str) -> None:
    assert calls_of(block(f'{{"name": "search", "arguments": {arguments}}}')) == [("search", arguments)]
    assert calls_of(block(f'{{"arguments":{arguments} , "name":"search"}}')) == [("search", arguments)]


def test_arguments_as_json_text() -> None:
    assert calls_of(block('{"name": "search", "arguments": "{\\"q\\":  1}"}')) == [("search", '{"q":  1}')]


def test_text_around_several_calls() -> None:
    text = f"First.\n{CALL_A}\nThen {CALL_A} done."
    tokenizer = ByteTokenizer()
    parsed = HermesChatFormat(tokenizer).parse(tokenizer.encode(text), call_id_seed=9)
    assert parsed.content == "First.\n\nThen  done."
    calls = [(call.call_id, call.name) for call in parsed.tool_calls]
    assert calls == [("call_0000000000000009_0", "a"), ("call_0000000000000009_1", "a")]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "nonsense",
        "{",
        "[1]",
        '"search"',
        '{"name": "search"}',
        '{"arguments": {}}',
        '{"name": 1, "arguments": {}}',
        '{"name": "", "arguments": {}}',
        '{"name": "search", "arguments": null}',
        '{"name": "search", "arguments": [1]}',
        '{"name": "search", "arguments": "no json"}',
        '{"name": "search", "arguments": "[1]"}',
        '{"name": "search", "arguments": {"q": NaN}}',
        '{"name": "search", "arguments": {"q": 1}} and more',
        '{"name": "search", "arguments": {"q": 1},}',
        '{"name": "\\ud800", "arguments": {}}',
        '{"name": "\\u0000", "arguments": {}}',
        '{"name": "search", "arguments": "\\ud800"}',
        '{"name": "search", "arguments": ' + "[" * 100_000,
        '{"name": "search", "arguments": {"q": ' + "9" * 5000 + "}}",
        "{'name': 'search', 'arguments': {}}",
    ],
)
def test_a_call_that_cannot_be_read_keeps_its_raw_text(body: str) -> None:
    good = block('{"name": "after", "arguments": {}}')
    assert calls_of(block(body) + good) == [("", body.strip()), ("after", "{}")]


def test_a_missing_closing_tag_at_the_end_is_forgiven() -> None:
    assert calls_of('<tool_call>{"name": "a", "arguments": {}}') == [("a", "{}")]
    assert calls_of('<tool_call>{"name": "a", "argu') == [("", '{"name": "a", "argu')]


def test_a_missing_closing_tag_does_not_swallow_the_next_call() -> None:
    assert calls_of('<tool_call>{"name": <tool_call>{"name": "b", "arguments": {}}</tool_call>') == [
        ("", '{"name":'),
        ("b", "{}"),
    ]


@pytest.mark.parametrize(
    ("text", "content", "names"),
    [
        (f"<think>I might {block('{}')}</think>\n\nAnswer.", "Answer.", []),
        (f"thought by the prompt</think>\n{CALL_A}", "", ["a"]),
        ("<think>never closed " + CALL_A, "", []),
        ("No thought at all.", "No thought at all.", []),
        (block('{"name": "a", "arguments": {"q": "</think>"}}'), "", ["a"]),
    ],
)
def test_thinking_is_neither_content_nor_calls(text: str, content: str, names: list[str]) -> None:
    read, calls = read_turn(text)
    assert (read, [call.name for call in calls]) == (content, names)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    name=st.text(min_size=1).filter(lambda name: "\x00" not in name),
    arguments=st.dictionaries(st.text(), json_values, max_size=4),
    indent=st.sampled_from([None, 2]),
    is_ascii=st.booleans(),
)
def test_whatever_json_writes_is_read_back(
    name: str, arguments: dict[str, object], indent: int, is_ascii: bool
) -> None:
    written = json.dumps(arguments, indent=indent, ensure_ascii=is_ascii)
    assert calls_of(block(f'{{"name": {json.dumps(name)}, "arguments": {written}}}')) == [(name, written)]


@given(
    st.lists(
        st.sampled_from(
            [
                "<tool_call>",
                "</tool_call>",
                "<think>",
                "</think>",
                '{"name": "a", "arguments": ',
                "{}",
                "}",
                '"',
                "\n",
                "x",
            ]
        )
        | st.text(max_size=5),
        max_size=20,
    ).map("".join)
)
def test_nothing_a_model_writes_breaks_the_reader(text: str) -> None:
    content, calls = read_turn(text)
    assert "<tool_call>" not in content
    for call in calls:
        told = ToolCall(call_id="call_0", name=call.name, arguments=call.arguments)
        assert ToolCall.model_validate_json(told.model_dump_json()) == told
        if call.name:
            assert isinstance(json.loads(call.arguments), dict)
