"""The starter's tokenizer and template: what copying needs, and one text on both paths, warm-up and rollout."""

import random
from pathlib import Path
from typing import cast

from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerFast

from rft.chat.hermes import HermesChatFormat
from rft.core.messages import Message, Role, ToolResult
from rft.engines.tokenizer import ChatTokenizer
from rft.starter.encoding import Encoder
from rft.starter.habits import Habits, play
from rft.starter.tokenizer import build_tokenizer
from rft.starter.world import ADJECTIVES, INDUSTRIES, METRICS, WARMUP_COMPANIES, YEARS, World

TOKENIZER = build_tokenizer()


def words_of(text: str, tokenizer: PreTrainedTokenizerFast) -> list[str]:
    return [str(tokenizer.decode([token])) for token in tokenizer.encode(text, add_special_tokens=False)]


@given(st.text())
def test_any_text_survives(text: str) -> None:
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    assert TOKENIZER.decode(ids) == text


def test_it_is_the_same_every_time(tokenizer: PreTrainedTokenizerFast) -> None:
    assert build_tokenizer().get_vocab() == tokenizer.get_vocab()


def test_a_word_is_one_token_wherever_it_stands(tokenizer: PreTrainedTokenizerFast) -> None:
    for word in (*ADJECTIVES, *INDUSTRIES, *METRICS, *map(str, YEARS), *map(str, range(10, 100))):
        (token,) = tokenizer.encode(word, add_special_tokens=False)
        for text in (f'{{"query": "{word}"}}', f"a {word} b", f"x/{word}/y", f"{word}: ", f"\n{word}\n"):
            assert token in tokenizer.encode(text, add_special_tokens=False)


def test_a_search_call_is_short(tokenizer: PreTrainedTokenizerFast) -> None:
    call = '<tool_call>\n{"name": "search", "arguments": {"query": "Alpine Foods 2017"}}\n</tool_call>'
    assert words_of(call, tokenizer) == [
        *("<tool_call>", '\n{"', "name", '": "', "search", '", "', "arguments", '": {"', "query", '": "'),
        *("Alpine", " ", "Foods", " ", "2017", '"}}\n', "</tool_call>"),
    ]


def test_warm_up_and_template_write_the_same_tokens(encoder: Encoder, tokenizer: PreTrainedTokenizerFast) -> None:
    """Put together from pieces, as in rollouts, or rendered at once, as a reader of the finished chat would."""
    rng = random.Random(1)
    world = World.draw(rng, WARMUP_COMPANIES[:24])
    for _ in range(50):
        question = world.question(rng)
        exchanges = play(rng, world, question, Habits())
        messages = [{"role": "user", "content": question.text}]
        for exchange in exchanges:
            messages.append({"role": "assistant", "content": exchange.text})
            if exchange.output is not None:
                messages.append({"role": "tool", "content": exchange.output})
        rendered = str(tokenizer.apply_chat_template(messages, tokenize=False))
        ids = list(encoder.example(question, exchanges).token_ids_T)
        assert [*ids, *encoder.encode("\n")] == tokenizer.encode(rendered, add_special_tokens=False)


def test_warm_up_and_rollout_loop_write_the_same_tokens(encoder: Encoder, tokenizer: PreTrainedTokenizerFast) -> None:
    chat_format = HermesChatFormat(ChatTokenizer(tokenizer, (encoder.end_id,)))
    rng = random.Random(2)
    world = World.draw(rng, WARMUP_COMPANIES[:24])
    for _ in range(20):
        question = world.question(rng)
        message = Message(role=Role.USER, content=question.text)
        assert chat_format.prompt_ids([message], []) == list(encoder.prompt(question.text))
        for exchange in play(rng, world, question, Habits())[:-1]:
            assert exchange.output is not None
            result = ToolResult(call_id="call_1", name="search", output=exchange.output)
            assert chat_format.suffix_ids([result]) == list(encoder.suffix(exchange.output))
            (call,) = chat_format.parse([*encoder.encode(exchange.text), encoder.end_id], call_id_seed=1).tool_calls
            assert call.name in ("search", "list", "cat")


def test_structured_calls_render_as_the_policy_writes_them(tokenizer: PreTrainedTokenizerFast) -> None:
    written = '<tool_call>\n{"name": "cat", "arguments": {"path": "Alpine Foods/2017/41"}}\n</tool_call>'
    arguments = {"path": "Alpine Foods/2017/41"}
    for call in (
        {"type": "function", "function": {"name": "cat", "arguments": arguments}},
        {"type": "function", "function": {"name": "cat", "arguments": '{"path": "Alpine Foods/2017/41"}'}},
        {"name": "cat", "arguments": arguments},
    ):
        message = cast(dict[str, str], {"role": "assistant", "content": "", "tool_calls": [call]})
        text = str(tokenizer.apply_chat_template([message], tokenize=False))
        assert text == f"<|im_start|>assistant\n{written}<|im_end|>\n"


def test_template_speaks_for_all_roles(tokenizer: PreTrainedTokenizerFast) -> None:
    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "calling"},
        {"role": "tool", "content": "one"},
        {"role": "tool", "content": "two"},
    ]
    assert tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True) == (
        "<|im_start|>system\nbe brief<|im_end|>\n"
        "<|im_start|>user\nhello<|im_end|>\n"
        "<|im_start|>assistant\ncalling<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_every_loader_keeps_it(tokenizer: PreTrainedTokenizerFast, untrained: LlamaForCausalLM, tmp_path: Path) -> None:
    """With the model type qwen2, AutoTokenizer would replace the pre-tokenizer without a word."""
    untrained.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    text = '<tool_call>\n{"name": "cat", "arguments": {"path": "Alpine Foods/2017/41"}}\n</tool_call>\n41 2017'
    for loader in (AutoTokenizer, PreTrainedTokenizerFast):
        loaded = loader.from_pretrained(tmp_path)
        assert loaded.encode(text) == tokenizer.encode(text)
        assert loaded.chat_template == tokenizer.chat_template
        assert loaded.eos_token == "<|im_end|>"
