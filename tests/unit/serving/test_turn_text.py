"""What is told of a turn before it is complete is a beginning of its content, however its tokens are cut."""

import time
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rft.chat.formats import FORMATS
from rft.chat.syntax import TurnSyntax
from rft.chat.syntaxes.bare_json import BareJsonSyntax
from rft.chat.syntaxes.tagged_json import HERMES
from rft.serving.turn_text import IncrementalText, TurnText
from rft.testing.samplers_tokenizer import ByteTokenizer

SYNTAX = HERMES
BARE_JSON = BareJsonSyntax("llama3", markers=("<|start_header_id|>",))
pieces = st.sampled_from(
    ["Hi", " ", "a < b", "<", "<tool", "é", "🙂", "<think>", "hm", "</think>", "\n", "{", "END", "EN",
     '<tool_call>{"name": "f", "arguments": {}}</tool_call>', "<tool_call>{"]
)  # fmt: skip
turns = st.lists(pieces, max_size=8).map("".join)
CHANNELS = ("<|channel|>analysis<|message|>", "<|channel|>commentary<|message|>", "<|channel|>final<|message|>")
THOUGHTS = {
    "gpt_oss": (f"{CHANNELS[0]}hm<|end|><|start|>assistant{CHANNELS[2]}", CHANNELS[2]),
    "gemma4": ("<|channel>thought\nhm<channel|>", "<|channel>thought\n<channel|>"),
    "mistral": ("[THINK]hm[/THINK]", "[THINK][/THINK]"),
    "glm": ("<think>hm</think>", "<think>\n</think>"),
    "seed_oss": ("<seed:think>hm</seed:think>", "<seed:think>\n</seed:think>"),
}
"""What stands in front of answers: a thought, or that there is none."""
OWN_MARKS = {
    "gpt_oss": [
        *CHANNELS, "<|end|>", "<|start|>assistant", "<|message|>", " to=functions.f", "<|channel|>final",
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}",
    ],
    "gemma4": ["<|channel>", "thought", "<channel|>", "<|tool_call>call:f{}<tool_call|>"],
    "function_gemma": ["<escape>", "<start_function_call>call:f{}<end_function_call>", "<start_function_call>call:f"],
    "mistral": ["[THINK]", "[/THINK]", "[TOOL_CALLS]", "f[ARGS]{}", "["],
    "llama4": ["<|python_start|>", "<|python_end|>", '{"name": "f", "parameters": {}}', '{"name": "f", ', "```"],
}  # fmt: skip
json_pieces = st.sampled_from(['{"name": "f", ', '"parameters": {}}', "{", "[", "```", "json\n", ";", " ", "Hi"])


def told(
    turn: str,
    sizes: list[int],
    *,
    stop: tuple[str, ...] = (),
    is_thinking: bool = False,
    syntax: TurnSyntax = SYNTAX,
) -> TurnText:
    """After all tokens, some at a time."""
    tokenizer = ByteTokenizer()
    text, decoder = TurnText(syntax, stop, is_thinking=is_thinking), IncrementalText(tokenizer.decode)
    ids, parts = tokenizer.encode(turn), list[str]()
    while ids and not text.is_stopped:
        size = sizes[len(parts) % len(sizes)]
        parts.append(text.add(decoder.add(ids[:size])))
        ids = ids[size:]
    assert "".join(parts) == text.told
    return text


sizes = st.lists(st.integers(1, 7), min_size=1, max_size=4)


@given(turns, sizes)
def test_what_is_told_begins_the_content(turn: str, sizes: list[int]) -> None:
    content = SYNTAX.read(turn, ()).content
    text = told(turn, sizes)
    if turn.count("</think>") <= turn.lstrip().startswith("<think>"):
        assert content.startswith(text.told)
        text.end(content, turn)
        assert text.told == content
    text = told(turn, sizes)
    text.end(content, turn)
    assert text.told.endswith(content)


@given(turns, sizes)
def test_behind_a_thought_that_the_prompt_opened_too(turn: str, sizes: list[int]) -> None:
    content = SYNTAX.read(turn, (), is_thinking=True).content
    text = told(turn, sizes, is_thinking=True)
    if turn.count("</think>") <= 1:
        assert content.startswith(text.told)
        text.end(content, turn)
        assert text.told == content


def test_behind_a_thought_that_was_told_as_text_the_answer_is_told_whole() -> None:
    """Nothing had opened it: that it was one is known once it closes."""
    turn = "Let me see.</think>\n\nSeven END"
    text = told(turn, [3], stop=("\n", "END"))
    assert (text.told, text.end("Seven END", turn)) == ("Let me see.", " Seven ")
    assert (text.told, text.is_stopped) == ("Let me see. Seven ", True)
    text = told("Let me see.</think>", [3])
    assert text.end("", "Let me see.</think>") == ""


def test_plain_text_is_told_as_it_comes() -> None:
    assert told("One two three", [1]).told == "One two three"
    assert told("One <tool_call>", [1]).told == "One"
    assert told("<think>hm</think> One two", [1]).told == "One two"
    assert told("hm</think> One two", [1], is_thinking=True).told == "One two"
    assert told("hm<channel|>One two", [1], is_thinking=True, syntax=FORMATS["gemma4"].syntax).told == "One two"


stop_pieces = st.sampled_from(
    ["END", "EN", "D", ".", "#", "##", "ab", "a", "b", "-", "--", " ", "\n", "<", "Hi", "<think>", "</think>",
     '<tool_call>{"name": "f", "arguments": {}}</tool_call>', "<tool_call>{"]
)  # fmt: skip
STOPS = [
    ("END",), ("END\n",), ("END \n",), ("##",), ("aba",), ("---",), ("END", "D."), ("aba", "ba\n"), ("a", "aba"),
    ("abab", "ba"), ("<", "call>"), ("N\n", "N ", "END"), ("a\n", "a ", "ab", "a\t"),
]  # fmt: skip


@given(st.lists(stop_pieces, max_size=8).map("".join), sizes, st.sampled_from(STOPS))
@example("One\n-----\nTwo", [1], ("---",))
@example("Say END. Now", [3], ("END", "D."))
@example("baba", [9], ("baba", "ab"))
@example("EN</think>D it", [3], ("N\n", "N ", "END"))
@example("a</think>b", [1], ("a\n", "a ", "ab", "a\t"))
@example('Hi <tool_call>{"name": "f", "arguments": {}}</tool_call>', [4], ("call", "<"))
@example("ENDEND</think>END", [1], ("END\n",))
@example('ab<tool_call>{"name": "f", "arguments": {}}</tool_call>ab', [4], ("aba",))
def test_a_stop_sequence_and_what_follows_is_never_told(turn: str, sizes: list[int], stop: tuple[str, ...]) -> None:
    text = told(turn, sizes, stop=stop)
    content = SYNTAX.read(turn, ()).content
    text.end(content, turn)
    assert not any(one in text.told for one in stop)
    # Where a call stood within the content, what stands around it may make one.
    assert not text.is_stopped or any(one in turn or one in content for one in stop)
    if not any(mark in turn for mark in ("<think>", "</think>", "<tool_call>")):
        # That which ends first: whoever reads token by token sees no other.
        whole = turn.lstrip()
        ends = [(begin + len(one), begin) for one in stop if (begin := whole.find(one)) >= 0]
        assert (text.told, text.is_stopped) == (whole[: min(ends)[1]] if ends else whole.rstrip(), bool(ends))


@given(st.text("abEND#- ", max_size=9), st.sampled_from(STOPS))
def test_a_turn_is_stopped_as_soon_as_a_stop_sequence_is_there(before: str, stop: tuple[str, ...]) -> None:
    text = TurnText(SYNTAX, stop, is_thinking=False)
    text.add(f"x{before}")
    text.add(stop[0])
    assert text.is_stopped or stop[0].startswith("<")


def test_a_stop_sequence_may_end_in_the_white_space_behind_the_text() -> None:
    """Of the turn, or in front of a call; white space behind a call is none behind the text."""
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    for turn, expected in (("foo END\n", "foo "), (f"foo END\n{call}", "foo "), (f"foo END{call}\n", "foo END")):
        text = told(turn, [3], stop=("END\n",))
        text.end(SYNTAX.read(turn, ()).content, turn)
        assert (text.told, text.is_stopped) == (expected, expected == "foo ")


def test_a_stop_sequence_in_two_tokens_stops() -> None:
    text = told("One END two", [5])
    assert not text.is_stopped
    text = told("One END two", [5], stop=("END",))
    assert (text.told.strip(), text.is_stopped) == ("One", True)


@pytest.mark.parametrize("answer", ['{"a": 1}', "[1, 2]", "```json\n{}\n```"])
def test_an_answer_that_is_json_is_told_and_stopped_where_calls_have_marks(answer: str) -> None:
    text = told(f"{answer}END more", [3], stop=("END",))
    assert (text.told, text.is_stopped) == (answer, True)


@given(st.lists(json_pieces).map("".join), sizes)
def test_where_a_whole_answer_may_be_a_call_what_is_told_begins_the_content(turn: str, sizes: list[int]) -> None:
    content = BARE_JSON.read(turn, ()).content
    text = told(turn, sizes, syntax=BARE_JSON)
    assert content.startswith(text.told)
    text.end(content, turn)
    assert text.told == content


@pytest.mark.parametrize("name", THOUGHTS)
def test_behind_a_thought_text_is_told_as_it_comes_and_stopped_in_every_family(name: str) -> None:
    for before, has_thought in zip(THOUGHTS[name], (True, False), strict=True):
        text = told(f"{before}One two three", [3], syntax=FORMATS[name].syntax)
        assert (text.told, text.has_thought) == ("One two three", has_thought)
        text = told(f"{before}One END two", [3], syntax=FORMATS[name].syntax, stop=("END",))
        assert (text.told.strip(), text.is_stopped) == ("One", True)


@pytest.mark.parametrize("name", OWN_MARKS)
@given(st.data(), sizes)
def test_whatever_marks_a_turn_holds_what_is_told_begins_its_content(
    name: str, data: st.DataObject, sizes: list[int]
) -> None:
    pieces = st.sampled_from([*THOUGHTS.get(name, ()), *OWN_MARKS[name], "Hi", " ", "\n", "hm"])
    turn = data.draw(st.lists(pieces, max_size=7).map("".join))
    content, text = FORMATS[name].syntax.read(turn, ()).content, told(turn, sizes, syntax=FORMATS[name].syntax)
    assert content.startswith(text.told)
    text.end(content, turn)
    assert text.told == content


@pytest.mark.lengthy
def test_a_long_answer_is_told_without_being_searched_anew_for_every_token() -> None:
    text = TurnText(SYNTAX, ("END",), is_thinking=False)
    began = time.process_time()
    assert "".join(text.add("word ") for _ in range(40_000)) == ("word " * 40_000).rstrip()
    assert time.process_time() - began < 20


@given(st.lists(st.sampled_from([*b"a \xe2\x82\xac\xf0\x9f\x99\x82\xff\xc3\xef\xbf\xbd"]), max_size=60), sizes)
def test_of_any_bytes_what_is_told_begins_their_text(ids: list[int], sizes: list[int]) -> None:
    decoder, parts, rest = IncrementalText(as_bytes), list[str](), ids
    while rest:
        size = sizes[len(parts) % len(sizes)]
        parts.append(decoder.add(rest[:size]))
        rest = rest[size:]
    assert as_bytes(ids).startswith("".join(parts))
    assert len(as_bytes(ids)) - len("".join(parts)) <= 7


@pytest.mark.parametrize("character", [b"\xff", b"\x80", b"\xe2", b"\xef\xbf\xbd"])
def test_bytes_that_are_no_text_are_told_without_being_decoded_anew_for_every_token(character: bytes) -> None:
    sizes = list[int]()

    def decode(ids: Sequence[int]) -> str:
        sizes.append(len(ids))
        return as_bytes(ids)

    decoder, ids = IncrementalText(decode), list(character * 300)
    told = "".join(decoder.add([token]) for token in ids)
    assert len(told) > 290
    assert max(sizes) < 20


def as_bytes(ids: Sequence[int]) -> str:
    return bytes(ids).decode(errors="replace")
