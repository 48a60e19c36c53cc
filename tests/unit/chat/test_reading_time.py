"""Reading a turn takes time in proportion to its length, whatever a model repeats: meanwhile all others wait."""

import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rft.chat.control_tokens import ControlToken, ControlTokens
from rft.chat.formats import FORMATS
from rft.chat.thinking import ThoughtMarks
from rft.chat.token_places import TokenPlaces
from rft.core.messages import ToolSchema
from tests.shared.examples import examples
from tests.unit.chat.models import opened

LENGTH = 200_000
TOOLS = [ToolSchema(name="f", parameters={"type": "object", "properties": {"n": {"type": "number"}}})]
DEEPSEEK = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
PYTHONIC = "<|tool_call_start|>[f(a="
XML = "<tool_call><function=f>"
PAIR = "<arg_key>a</arg_key><arg_value>"
GEMMA = "<|tool_call>call:f"
HARMONY = "<|channel|>analysis<|message|>"
HOSTILE = [
    ("hermes", "", '<tool_call>{"a":', ""),
    ("hermes", "", '<tool_call>{"name":"f","arguments":{"a":"\\"', ""),
    ("hermes", "", "<tool_call>", "</tool_call>"),
    ("hermes", '<tool_call>{"a":"', "\\\\", ""),
    ("glm", "", "<tool_call>f<arg_key>", ""),
    ("glm", "", "<tool_call>f<arg_key>", "</arg_key><arg_value>v</arg_value>x"),
    ("glm", "", f"<tool_call>f{PAIR}", ""),
    ("glm", "<tool_call>f", PAIR, ""),
    ("glm", "<tool_call>f", f"<arg_key><tool_call>f{PAIR}v</arg_value>", "x"),
    ("qwen3_5", "", f"{XML}<parameter=a>\n", ""),
    ("qwen3_5", "", f"{XML}<parameter=a>", "</parameter>x"),
    ("qwen3_5", "", "<function=f>\n", ""),
    ("qwen3_5", "", "<function=f>\n</function></tool_call>\n", "x"),
    ("qwen3_5", "<function=f>", " \n", ""),
    ("qwen3_5", XML, f"<parameter=a>{XML}<parameter=b></parameter>", "x"),
    ("deepseek_v3", DEEPSEEK, " ", ""),
    ("deepseek_v3", f"{DEEPSEEK}f\n```json", "\n", "x"),
    ("deepseek_v3", f"{DEEPSEEK}f\n```json\n", "\n```", "x"),
    ("llama3", "```", "\n", "x"),
    ("llama3", "", "<|python_tag|>{", ""),
    ("gemma3", "```\n\n", "```\n", "x"),
    ("mistral", "", '[TOOL_CALLS][{"', ""),
    ("mistral", " [THINK]", "[/THINK", ""),
    ("gpt_oss", "", HARMONY, ""),
    ("gpt_oss", "", f"{HARMONY}x<|end|><|start|>assistant", ""),
    ("gemma4", GEMMA + "{a:[", "1 , ", "]}"),
    ("gemma4", GEMMA + "{a:", "{a:", ""),
    ("gemma4", "", GEMMA + '{a:<|"|>', ""),
    ("function_gemma", "", "<start_function_call>call:f{a:<escape>", ""),
    ("lfm2", PYTHONIC + "[", "1,", "])]"),
    ("lfm2", PYTHONIC + "[", "\n-1,", "])]"),
    ("lfm2", PYTHONIC + "'", "', ", ""),
    ("lfm2", PYTHONIC + "'", "\\'", ""),
    ("lfm2", PYTHONIC, "{1:", ""),
    ("lfm2", PYTHONIC, "'x\\', a=", "'y')]"),
    ("olmo3", "<function_calls>f(a='", "')\n", ""),
    ("olmo3", "<function_calls>", "f(a=1)\n", "x"),
    ("olmo3", "<function_calls>f(a='", "x\\', a=", "'y')"),
    ("seed_oss", "", "<seed:tool_call><function=f><parameter=a>", "</parameter>x"),
    ("seed_oss", "<seed:tool_call><function=f><parameter=a>", "[", "</parameter></function></seed:tool_call>"),
    ("llama4", "", "<|python_start|>{", ""),
    ("llama_nemotron", "", '<TOOLCALL>[{"name": "f", "arguments": {}},', ""),
    ("llama_nemotron", "<TOOLCALL>[", '{"name": "f", "arguments": {}},', ""),
    ("granite3", "", "<|tool_call|>[", ""),
    ("llama4", "", '{"name":"f","parameters":{}}<|python_end|>', "x"),
    ("gemma4", GEMMA + "{a:", '<|"|><|tool_call>call:f{a:[<|"|>,', ""),
    ("gemma4", "<|channel>", "<|channel>x<channel|>", ""),
]


@contextmanager
def soon() -> Generator[None]:
    """In processor time, as others use the machine, too. On an idle core none takes two seconds."""
    began = time.process_time()
    yield
    assert time.process_time() - began < 20


@pytest.mark.lengthy
@pytest.mark.parametrize(("name", "before", "repeated", "after"), HOSTILE)
def test_a_long_turn_is_read_soon_whatever_it_repeats(name: str, before: str, repeated: str, after: str) -> None:
    syntax, text = FORMATS[name].syntax, before + repeated * (LENGTH // len(repeated)) + after
    with soon():
        turn = syntax.read(text, TOOLS)
        if syntax.thought_marks is not None:
            syntax.thought_marks.spans(text)
    assert turn.calls or turn.content or turn.reasoning


PIECES = [
    *sorted({literal for known in FORMATS.values() for literal in known.syntax.control_literals}),
    *(
        "<function=f>",
        "<parameter=a>",
        "</parameter>",
        "</function>",
        "```",
        "```json\n",
        "[f(a=",
        "call:f{a:",
        " to=f",
    ),
    *("{", "[", "(", '"', "'", "\\", ",", ":", "=", "1", "f", " ", "\n", '{"name": "f", "arguments": {}}'),
]
FEW = st.lists(st.sampled_from(PIECES), max_size=3).map("".join)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=examples(25))
@given(before=FEW, repeated=FEW.filter(bool), after=FEW)
def test_no_repetition_of_marks_makes_reading_slow(name: str, before: str, repeated: str, after: str) -> None:
    opening = FORMATS[name].syntax.markers[0]
    with soon():
        FORMATS[name].syntax.read(opening + before + repeated * (30_000 // len(repeated)) + after, TOOLS)


def test_the_tokens_of_many_thoughts_are_counted_in_one_go() -> None:
    decoded = 0

    def decode(token_ids: object) -> str:
        nonlocal decoded
        assert isinstance(token_ids, list)
        decoded += len(token_ids)
        return "x" * len(token_ids)

    places = TokenPlaces([0] * 20_000, decode)
    assert [places.tokens_to(place) for place in range(0, 20_001, 10)] == list(range(0, 20_001, 10))
    assert decoded < 20_000 * 4 + 2_000 * 20 * 64 * 3


@pytest.mark.parametrize("name", ["qwen3", "mistral_nemo"])
@given(text=st.lists(st.sampled_from([" a", "é", "你", "😀", "\n", "12", "</think>"]), max_size=200).map("".join))
def test_tokens_to_a_place_are_the_fewest_whose_text_has_all_before_it(name: str, text: str) -> None:
    tokenizer = opened(name).chat_format.tokenizer
    token_ids = tokenizer.encode(text)
    texts = [tokenizer.decode(token_ids[:count]) for count in range(len(token_ids) + 1)]
    places = TokenPlaces(token_ids, tokenizer.decode)
    for place in range(0, len(text) + 1, 7):
        fewest = next(count for count, beginning in enumerate(texts) if beginning.startswith(text[:place]))
        assert places.tokens_to(place) == fewest


def test_thoughts_do_not_overlap() -> None:
    marks = ThoughtMarks("<", (">", "|"), ">", has_several=True)
    assert marks.spans("<a<b> <c| <d") == [(1, 4), (7, 8), (11, 12)]


def test_white_space_before_a_control_token_is_taken_in_and_costs_no_square() -> None:
    control = ControlTokens([ControlToken("<m>", 1, is_greedy_left=True), ControlToken("<n>", 2)])
    assert not control.found_in(" " * LENGTH + "x")
    assert control.found_in("a" + " " * LENGTH + "<m>")
    encoded = control.encode(
        [{"role": "user", "content": "b"}],
        [],
        render=lambda messages, tools: f"<n>  <m> {messages[0]['content']} \n <m>",
        encode=lambda text: [0],
        encode_text=lambda text: [len(text)],
    )
    assert encoded == [2, 1, len(" b"), 1]
