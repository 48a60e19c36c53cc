"""Marks that a model only spells, as where it quotes a tool's reply, open and close nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.chat.hermes import HermesChatFormat
from rft.chat.probe import native_turn
from rft.chat.spelled_marks import SpelledMarks
from rft.core.messages import Message, Role, ToolCall, ToolSchema
from rft.testing.samplers_tokenizer import SPECIALS, ByteTokenizer
from tests.unit.chat.models import ALL, opened, tokenizer_of

TOOLS = [ToolSchema(name="refund", parameters={"type": "object", "properties": {"why": {"type": "string"}}})]
QUESTION = [Message(role=Role.USER, content="What does it say?")]
UNMARKED = ("llama3", "gemma3", "llama_nemotron")
"""Formats whose calls have no marks, so that a call is the whole turn, or marks that are no tokens."""


def refund(why: str) -> ToolCall:
    return ToolCall(call_id="call_0", name="refund", arguments=json.dumps({"why": why}, ensure_ascii=False))


@pytest.mark.lengthy
@pytest.mark.parametrize("name", [name for name, expected in ALL.items() if expected.chat_format not in UNMARKED])
def test_an_answer_that_quotes_a_call_is_an_answer(name: str) -> None:
    chat_format, tokenizer = opened(name).chat_format, tokenizer_of(opened(name))
    prompt, stop = chat_format.prompt_ids(QUESTION, TOOLS), chat_format.stop_token_ids[0]
    made = native_turn(chat_format, [refund("broken")])
    call = tokenizer.decode(made)
    assert [one.name for one in chat_format.parse(made, call_id_seed=0, tools=TOOLS).tool_calls] == ["refund"]
    is_thinking = chat_format.has_opened_thought(prompt)
    opening = tokenizer.encode("hm</think>") if is_thinking else []
    quoted = tokenizer.encode_text(f"It says: {call} and no more.")
    read = chat_format.parse([*opening, *quoted, stop], call_id_seed=0, tools=TOOLS, context_ids=prompt)
    assert (read.tool_calls, read.content) == ((), tokenizer.decode(quoted).strip())
    assert read.raw_text == tokenizer.decode([*opening, *quoted])


@pytest.mark.parametrize("quoted", ["", "</tool_call>"])
def test_a_quoted_function_is_no_call_that_lacks_its_opening_mark(quoted: str) -> None:
    chat_format, tokenizer = opened("qwen3_5_nothink").chat_format, tokenizer_of(opened("qwen3_5_nothink"))
    ids = tokenizer.encode_text(f"It says:\n<tool_call>\n<function=refund>\n</function>\n{quoted}")
    assert chat_format.parse(ids, call_id_seed=0, tools=TOOLS).tool_calls == ()


@pytest.mark.lengthy
@pytest.mark.parametrize("name", ALL)
def test_an_argument_may_quote_all_marks_of_its_family(name: str) -> None:
    chat_format = opened(name).chat_format
    why = " ".join(("quoted:", *chat_format.syntax.control_literals, "."))
    [read] = chat_format.parse(native_turn(chat_format, [refund(why)]), call_id_seed=0, tools=TOOLS).tool_calls
    assert (read.name, json.loads(read.arguments)) == ("refund", {"why": why})


def test_a_quoted_end_of_a_thought_does_not_end_it() -> None:
    chat_format, tokenizer = opened("qwen3_5_think").chat_format, tokenizer_of(opened("qwen3_5_think"))
    prompt = chat_format.prompt_ids(QUESTION, ())
    thought = [*tokenizer.encode("It said "), *tokenizer.encode_text("</think>"), *tokenizer.encode(" to me.")]
    assert chat_format.thought_closing(prompt, thought) == tokenizer.encode("</think>\n\n")
    read = chat_format.parse([*thought, *tokenizer.encode("</think>Yes.")], call_id_seed=0, context_ids=prompt)
    assert (read.reasoning, read.content, read.reasoning_tokens) == ("It said </think> to me.", "Yes.", len(thought))


PIECES = st.one_of(
    st.sampled_from(SPECIALS).map(lambda literal: (literal, True)),
    st.one_of(st.sampled_from(SPECIALS), st.text(max_size=4)).map(lambda text: (text, False)),
)


@given(st.lists(PIECES, max_size=12))
def test_what_is_hidden_is_what_is_spelled(pieces: list[tuple[str, bool]]) -> None:
    tokenizer = ByteTokenizer()
    ids = [
        token
        for text, is_token in pieces
        for token in (tokenizer.encode(text) if is_token else tokenizer.encode_text(text))
    ]
    text = tokenizer.decode(ids)
    readable = SpelledMarks(tokenizer, SPECIALS).hide(text, ids)
    assert [special for special in SPECIALS if special in readable.text] == [
        special for special in SPECIALS if (special, True) in pieces
    ]
    assert len(readable.text) == len(text)
    assert readable.text.translate(readable.hidden) == text


def test_a_call_beside_a_quoted_one_is_made() -> None:
    tokenizer = ByteTokenizer()
    quoted, made = (f'<tool_call>{{"name": "{name}", "arguments": {{}}}}</tool_call>' for name in ("quoted", "made"))
    ids = [*tokenizer.encode_text(f"It says {quoted}. "), *tokenizer.encode(made)]
    read = HermesChatFormat(tokenizer).parse(ids, call_id_seed=0)
    assert (read.content, [call.name for call in read.tool_calls]) == (f"It says {quoted}.", ["made"])
