"""Reading what models of all families write: parallel, malformed, non-ASCII, and numbers byte for byte."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.chat.formats import FORMATS
from rft.chat.syntax import WrittenTurn
from rft.core.messages import ToolSchema

TOOLS = [
    ToolSchema(
        name="search",
        parameters={
            "type": "object",
            "properties": {
                "q": {"type": "string"},
                "n": {"type": "number"},
                "i": {"type": ["integer", "null"]},
                "b": {"type": "boolean"},
                "l": {"type": "array"},
                "o": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                "e": {"enum": [1, 2]},
                "x": {"type": "integer", "nullable": True},
                "zip": {"$ref": "#/$defs/Zip"},
                "zips": {"anyOf": [{"allOf": [{"$ref": "#/$defs/Zip"}]}, {"type": "null"}]},
                "loop": {"$ref": "#/$defs/Loop"},
            },
            "$defs": {"Zip": {"type": "string"}},
        },
    )
]


def read(name: str, text: str) -> WrittenTurn:
    return FORMATS[name].syntax.read(text, TOOLS)


def calls(name: str, text: str) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in read(name, text).calls]


def xml(body: str) -> str:
    return f"<tool_call>\n<function=search>\n{body}</function>\n</tool_call>"


def seed(body: str) -> str:
    return xml(body).replace("tool_call", "seed:tool_call")


def glm(*pairs: str) -> str:
    return "<tool_call>search\n" + "".join(pairs) + "</tool_call>"


def gpt(body: str) -> str:
    return f"<|channel|>commentary to=functions.search <|constrain|>json<|message|>{body}"


def deepseek(body: str) -> str:
    call = f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{body}\n```<｜tool▁call▁end｜>"
    return f"<｜tool▁calls▁begin｜>{call}<｜tool▁calls▁end｜>"


ONE_CALL = {
    "hermes": '<tool_call>\n{"name": "search", "arguments": %s}\n</tool_call>',
    "llama3": '{"name": "search", "parameters": %s}',
    "gemma3": '```json\n{"name": "search", "parameters": %s}\n```',
    "mistral": '[TOOL_CALLS][{"name": "search", "arguments": %s, "id": "abcDEF123"}]',
    "deepseek_v3": deepseek("%s"),
    "llama4": '<|python_start|><|python_end|>{"name": "search", "parameters": %s}',
    "gpt_oss": "<|channel|>analysis<|message|>hm<|end|><|start|>assistant" + gpt("%s"),
}
"""Families whose calls are JSON."""


@pytest.mark.parametrize("name", ONE_CALL)
@pytest.mark.parametrize(
    "arguments",
    ['{"n": 1.0}', '{ "n":1.50e+3 ,"q" : "caf\\u00e9 é 你好 😀" }', "{}", '{"l": [1, 2.0], "i": 12345678901234567890}'],
)
def test_json_arguments_are_the_slice_that_the_model_wrote(name: str, arguments: str) -> None:
    assert calls(name, ONE_CALL[name].replace("%s", arguments)) == [("search", arguments)]


@pytest.mark.parametrize("name", ONE_CALL)
@pytest.mark.parametrize("arguments", ['{"n": NaN}', '{"n": 1,}', "[1]", '{"n": ', "nonsense", '{"q": "x"} {"q": "y"}'])
def test_json_that_is_no_object_is_a_call_that_cannot_be_read(name: str, arguments: str) -> None:
    (call,) = calls(name, ONE_CALL[name].replace("%s", arguments))
    assert call[0] == ""
    assert arguments.strip() in call[1]


NAMED = '{"name": "search", "arguments": {}}'
BARE = '{"name": "search", "parameters": {}}'
VALUES = [
    ("q", "75001", '"75001"'),
    ("q", "true", '"true"'),
    ("q", "two\nlines", '"two\\nlines"'),
    ("q", '"quoted"', '"\\"quoted\\""'),
    ("q", "1 < 2 & é", '"1 < 2 & é"'),
    ("n", "1.0", "1.0"),
    ("n", "1", "1"),
    ("n", "soon", '"soon"'),
    ("i", "-20", "-20"),
    ("i", "null", "null"),
    ("i", "None", "null"),
    ("x", "null", "null"),
    ("b", "True", "true"),
    ("b", "false", "false"),
    ("b", "1", '"1"'),
    ("l", '["a", 1.0]', '["a", 1.0]'),
    ("l", "['a', 1.50, {'k': None}, True]", '["a", 1.50, {"k": null}, true]'),
    ("l", "['a', b]", "\"['a', b]\""),
    ("q", "['a']", "\"['a']\""),
    ("unknown", "['a']", "\"['a']\""),
    ("o", "75001", "75001"),
    ("o", "7a", '"7a"'),
    ("e", "1", "1"),
    ("zip", "75001", '"75001"'),
    ("zips", "75001", '"75001"'),
    ("zips", "null", "null"),
    ("unknown", "1.50", "1.50"),
    ("unknown", "word", '"word"'),
    ("unknown", "True", '"True"'),
]
"""Key, what stands between the tags, and the JSON of it: only the schema tells."""


@pytest.mark.parametrize(("key", "written", "value"), VALUES)
def test_unquoted_values_are_read_by_the_schema(key: str, written: str, value: str) -> None:
    expected = [("search", f'{{"{key}": {value}}}')]
    assert calls("qwen3_5", xml(f"<parameter={key}>\n{written}\n</parameter>\n")) == expected
    assert calls("glm", glm(f"<arg_key>{key}</arg_key>\n<arg_value>{written}</arg_value>\n")) == expected
    assert calls("seed_oss", seed(f"<parameter={key}>{written}</parameter>\n")) == expected


@pytest.mark.parametrize(
    ("name", "text", "content", "expected"),
    [
        ("qwen3_5", f"<think>\nx\n</think>\n\nOne.\n{xml('')}\n{xml('')}", "One.", ["{}", "{}"]),
        (
            "qwen3_5",
            "One.\n\n" + xml("<parameter=n>\n1.0\n</parameter>\n").removeprefix("<tool_call>\n") + "\n" + xml(""),
            "One.",
            ['{"n": 1.0}', "{}"],
        ),
        ("qwen3_5", "One.\n  <function=search>\n</function>\n</tool_call>\n", "One.", ["{}"]),
        ("qwen3_5", f"{xml('')}\n<function=search>\n</function></tool_call>", "", ["{}", "{}"]),
        ("glm", f"\n<think>x</think>\nOne.\n{glm()}\n{glm()}", "One.", ["{}", "{}"]),
        ("llama3", f"{BARE}; " + BARE.replace("{}", '{"n": 1.0}'), "", ["{}", '{"n": 1.0}']),
        ("llama3", '<|python_tag|>{"type": "function", "name": "search", "parameters": {}}', "", ["{}"]),
        ("gemma3", f"{BARE}\n{BARE}", "", ["{}", "{}"]),
        (
            "mistral",
            'One.[TOOL_CALLS][{"name": "search", "arguments": {}}, {"arguments": {}, "name": "search"}]',
            "One.",
            ["{}", "{}"],
        ),
        (
            "mistral",
            '[THINK]x[/THINK][TOOL_CALLS]search[ARGS]{"n": 1.0}[TOOL_CALLS]search[ARGS]{}',
            "",
            ['{"n": 1.0}', "{}"],
        ),
        ("mistral", '[TOOL_CALLS]search[CALL_ID]abcDEF123[ARGS]{"n": 1.0}', "", ['{"n": 1.0}']),
        (
            "mistral",
            '[TOOL_CALLS]search[ARGS]{"q": "[TOOL_CALLS] [ARGS]"}[TOOL_CALLS]search{"q": "[ARGS]"}',
            "",
            ['{"q": "[TOOL_CALLS] [ARGS]"}', '{"q": "[ARGS]"}'],
        ),
        (
            "mistral",
            '[TOOL_CALLS] [{"name": "search", "arguments": {"q": "[TOOL_CALLS]"}}] ',
            "",
            ['{"q": "[TOOL_CALLS]"}'],
        ),
        ("deepseek_v3", "x</think>One." + deepseek("{}"), "One.", ["{}"]),
        (
            "deepseek_v3",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
            "",
            ["{}"],
        ),
        ("deepseek_v3", "One. " + deepseek("{}") + deepseek('{"n": 1.0}'), "One.", ["{}", '{"n": 1.0}']),
        ("llama3", f"One.<|python_tag|>{BARE}", "One.", ["{}"]),
        ("llama3", BARE.replace("{}", '{"q": "<|python_tag|>"}'), "", ['{"q": "<|python_tag|>"}']),
        ("gpt_oss", ' to=functions.search<|channel|>commentary json<|message|>{"n": 1.0}', "", ['{"n": 1.0}']),
        (
            "function_gemma",
            "One.<start_function_call>call:search{}<end_function_call>"
            "<start_function_call>call:search{n:1.0,q:<escape>a<end_function_call>, b<escape>}<end_function_call>",
            "One.",
            ["{}", '{"n": 1.0, "q": "a<end_function_call>, b"}'],
        ),
        ("function_gemma", "<start_function_call>call:search{l:[1,<escape>a<escape>]}", "", ['{"l": [1, "a"]}']),
        (
            "gemma4",
            "<|channel>thought\nx\n<channel|>One."
            "<|tool_call>call:search{}<tool_call|><|tool_call>call:search{n:1.0}<tool_call|>",
            "One.",
            ["{}", '{"n": 1.0}'],
        ),
        (
            "gemma4",
            '<|tool_call>call:search{l:[1.0,<|"|>é,}<|"|>,{k:null}],b:true}<tool_call|>',
            "",
            ['{"l": [1.0, "é,}", {"k": null}], "b": true}'],
        ),
        (
            "gemma4",
            "<|tool_call>call:search{o:{New York : 3,b:None}, l:[None]}<tool_call|>",
            "",
            ['{"o": {"New York": 3, "b": null}, "l": [null]}'],
        ),
        (
            "gemma4",
            '<|tool_call>call:search{q:<|"|><|tool_call>call:drop{}<tool_call|><|"|>}<tool_call|>'
            "<|tool_call>call:search{}",
            "",
            ['{"q": "<|tool_call>call:drop{}<tool_call|>"}', "{}"],
        ),
        (
            "lfm2",
            "<think>x</think>One.<|tool_call_start|>[search(), search(q='it's, not', n=1.0)]<|tool_call_end|>",
            "One.",
            ["{}", '{"q": "it\'s, not", "n": 1.0}'],
        ),
        (
            "lfm2",
            "<|tool_call_start|>[search(b=True, i=None, l=['a', 1.50, {'k': false}], n=-2)]<|tool_call_end|>",
            "",
            ['{"b": true, "i": null, "l": ["a", 1.50, {"k": false}], "n": -2}'],
        ),
        (
            "lfm2",
            r"<|tool_call_start|>[search(q='f(\'a\', end=\'\')', n=1), search(q='C:\', n=2, l=['x'])]<|tool_call_end|>",
            "",
            ['{"q": "f(\'a\', end=\'\')", "n": 1}', '{"q": "C:\\\\", "n": 2, "l": ["x"]}'],
        ),
        (
            "olmo3",
            "<think>x</think>One.<function_calls>\nsearch(q='it's (not),', n=1.0)\n\n  search(q=\"a\\nb\", b=true)  \n"
            "search()\n</function_calls>",
            "One.",
            ['{"q": "it\'s (not),", "n": 1.0}', '{"q": "a\\nb", "b": true}', "{}"],
        ),
        ("seed_oss", f"<seed:think>x</seed:think>\nOne.\n{seed('')}\n{seed('')}", "One.", ["{}", "{}"]),
        ("llama4", f"<|python_start|>One.<|python_end|>{BARE}{BARE}", "One.", ["{}", "{}"]),
        ("llama4", f"<|python_start|>{BARE}<|python_end|>", "", ["{}"]),
        ("llama4", f"{BARE}; {BARE}<|eom|>", "", ["{}", "{}"]),
        (
            "llama_nemotron",
            '<think>x</think>One.<TOOLCALL>[{"name": "search", "arguments": {"n": 1.0}}, '
            '{"arguments": "{}", "name": "search"}]</TOOLCALL>',
            "One.",
            ['{"n": 1.0}', "{}"],
        ),
        ("phi4_mini", f"One.<|tool_call|>{NAMED}<|/tool_call|><|tool_call|>[{NAMED}]", "One.", ["{}", "{}"]),
        ("granite3", f"<|tool_call|>[\n    {NAMED},\n    {NAMED}\n]", "", ["{}", "{}"]),
        ("granite3", f"One.<|tool_call|> {NAMED} ", "One.", ["{}"]),
    ],
)
def test_calls_as_models_write_them(name: str, text: str, content: str, expected: list[str]) -> None:
    turn = read(name, text)
    assert turn.content == content
    assert [(call.name, call.arguments) for call in turn.calls] == [("search", arguments) for arguments in expected]
    assert turn.reasoning in ("", "x")
    assert bool(turn.reasoning) == ("think" in text.lower() or "thought" in text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("qwen3_5", "<tool_call>\n<function=>\n</function>\n</tool_call>"),
        ("qwen3_5", '<tool_call>\n{"name": "search", "arguments": {}}\n</tool_call>'),
        ("qwen3_5", "<tool_call>\n<function=search>\n<parameter=q>\nnever closed"),
        ("qwen3_5", "<tool_call>\n<function=search>\nwhat is this\n</function>\n</tool_call>"),
        ("glm", "<tool_call></tool_call>"),
        ("glm", "<tool_call>search\n<arg_key>q</arg_key>\nno value</tool_call>"),
        ("llama3", '{"name": "search", "parameters": {"q": "never closed'),
        ("llama3", "<|python_tag|>import os"),
        ("llama3", "Let me see.<|python_tag|>import os"),
        ("llama3", '{"type": "function", "name": "search", "parameters": {"q": "never closed'),
        ("llama3", '{"name": "search", "parameters": {"q": "<|python_tag|>'),
        ("mistral", "[TOOL_CALLS]"),
        ("mistral", '[TOOL_CALLS][{"name": "search", "arguments": {}}'),
        ("mistral", '[TOOL_CALLS][{"name": "search", "arguments": {}}] and more'),
        ("deepseek_v3", "<｜tool▁calls▁begin｜>"),
        ("deepseek_v3", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search"),
        ("gpt_oss", gpt("no json")),
        ("gemma4", '<|tool_call>call:search{q:<|"|>never closed<tool_call|>'),
        ("function_gemma", "<start_function_call>call:search{q:<escape>never closed<end_function_call>"),
        ("function_gemma", "<start_function_call>search{}<end_function_call>"),
        ("gemma4", "<|tool_call>search{}<tool_call|>"),
        ("gemma4", "<|tool_call>call:search{<tool_call|>It is about: 5}"),
        ("gemma4", '<|tool_call>call:search{<|"|>q<|"|>} and: 5}<tool_call|>'),
        ("gemma4", "<|tool_call>call:search" + "{a:" * 500 + "<tool_call|>"),
        ("lfm2", "<|tool_call_start|>[search('positional')]<|tool_call_end|>"),
        ("lfm2", "<|tool_call_start|>[search(q='print('a', end='')')]<|tool_call_end|>"),
        ("lfm2", "<|tool_call_start|>[search(q=os.system('x'))]<|tool_call_end|>"),
        ("lfm2", "<|tool_call_start|>[search(q=" + "[" * 5000 + ")]<|tool_call_end|>"),
        ("olmo3", "<function_calls>search('positional')</function_calls>"),
        ("olmo3", "<function_calls>search(), search()</function_calls>"),
        ("olmo3", "<function_calls>[search()]</function_calls>"),
        ("olmo3", "<function_calls></function_calls>"),
        ("seed_oss", "<seed:tool_call>\n<function=search>\n<parameter=q>\nnever closed"),
        ("seed_oss", '<seed:tool_call>{"name": "search", "arguments": {}}</seed:tool_call>'),
        ("llama4", '<|python_start|>One.<|python_end|>{"name": "search", "parameters": {"q": "never closed'),
        ("llama4", "<|python_start|>import os<|python_end|>"),
        ("llama4", "Let me see.<|python_start|>search(q='x')"),
        ("llama_nemotron", "<TOOLCALL>[]</TOOLCALL>"),
        ("llama_nemotron", f"<TOOLCALL>[{NAMED}</TOOLCALL>"),
        ("llama_nemotron", f"<TOOLCALL>[[{NAMED}]]</TOOLCALL>"),
        ("phi4_mini", f"<|tool_call|>[{NAMED}, 5]<|/tool_call|>"),
        ("phi4_mini", f"<|tool_call|>{NAMED}, {NAMED}<|/tool_call|>"),
        ("granite3", f"<|tool_call|>[{NAMED}] and more"),
        ("granite3", '<|tool_call|>[{"name": "search"}]'),
        ("hermes", f"<tool_call>[{NAMED}]</tool_call>"),
    ],
)
def test_a_call_that_cannot_be_read_is_one_without_a_name(name: str, text: str) -> None:
    assert [call[0] for call in calls(name, text)] == [""]


def test_mistrals_calls_behind_one_that_cannot_be_read_are_read() -> None:
    text = '[TOOL_CALLS]no arguments[TOOL_CALLS]search[ARGS]{"q": 1}[TOOL_CALLS]search{"q": [TOOL_CALLS]search{}'
    told = [("", "no arguments"), ("search", '{"q": 1}'), ("", 'search{"q":'), ("search", "{}")]
    assert calls("mistral", text) == told


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "text",
    [
        "Just an answer.",
        '{"name": "Bob", "age": 3}',
        '{"answer": 1.0}',
        "```json\n[1, 2]\n```",
        "Use search(q='x') for that.",
        "2 < 3 and [a] is a list",
        "",
    ],
)
def test_an_answer_is_no_call(name: str, text: str) -> None:
    assert read(name, text) == WrittenTurn(text)


@pytest.mark.parametrize(
    "text",
    [
        "One.\n<function=search>\n</function>\n</tool_call>\nTwo.",
        f"One.\n<function=search>\n</function>\n</tool_call>\nTwo.\n{xml('')}",
        "One: <function=search>\n</function>\n</tool_call>",
        "It says:\n<function=search>\n</function>",
        "<function=other>\n</function>\n</tool_call>",
        "<function=search>\n<parameter=q>\nnever closed",
    ],
)
def test_a_function_without_its_opening_mark_is_a_call_only_where_it_ends_the_turn(text: str) -> None:
    turn = read("qwen3_5", text)
    assert [call.arguments for call in turn.calls] == ["{}"] * text.count("<tool_call>")
    assert turn.content == text.partition("<tool_call>")[0].strip()


def test_mistral_takes_no_other_ids_than_nine_letters_and_digits() -> None:
    syntax = FORMATS["mistral"].syntax
    assert syntax.shown_id("abcDEF123") == "abcDEF123"
    ids = {syntax.shown_id(f"call_{number}") for number in range(500)}
    assert len(ids) == 500
    assert all(len(call_id) == 9 and call_id.isascii() and call_id.isalnum() for call_id in ids)
    assert read("mistral", ONE_CALL["mistral"].replace("%s", "{}")).calls[0].call_id == "abcDEF123"


LITERALS = sorted({literal for known in FORMATS.values() for literal in known.syntax.control_literals})
WRITTEN = st.lists(
    st.one_of(
        st.sampled_from(LITERALS),
        st.sampled_from(['{"name": "a", "parameters": ', '"arguments": {}', "<function=a>", "<parameter=b>"]),
        st.sampled_from(["</parameter>", "[a(b=", "call:a{b:", "to=functions.a"]),
        st.sampled_from([*"{}[](),\"'\n\x00\ud800"]),
        st.text(max_size=4),
    ),
    max_size=16,
).map("".join)


@pytest.mark.lengthy
@pytest.mark.parametrize("name", FORMATS)
@given(text=WRITTEN)
def test_nothing_that_a_model_writes_breaks_a_reader(name: str, text: str) -> None:
    turn = read(name, text)
    for call in turn.calls:
        call.name.encode()
        call.arguments.encode()
        assert "\x00" not in call.name
        if call.name:
            assert isinstance(json.loads(call.arguments), dict)
