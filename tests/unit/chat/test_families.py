"""Every family's native calls are read, and what follows a call is what the template writes there."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from rft.chat.check import check_model
from rft.chat.errors import ChatTemplateError
from rft.chat.opening import OpenedChat, open_chat
from rft.chat.probe import native_turn
from rft.chat.template_messages import result_message, template_message, template_tool
from rft.core.chat_spec import ChatSpec
from rft.core.messages import Message, Role, ToolCall, ToolResult, ToolSchema
from rft.engines.tokenizer import load_tokenizer, open_model_chat
from tests.unit.chat.models import ALL, REFUSED, SOME_DAY, folder_of, opened, tokenizer_of

GOLDEN = Path(__file__).parent / "golden_ids.json"
TOOLS = [
    ToolSchema(
        name="search",
        description="Finds pages.",
        parameters={"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "number"}}},
    )
]
QUESTION = Message(role=Role.USER, content="Wo liegt Zürich?")
CALLS = [
    ToolCall(call_id="call_0", name="search", arguments='{"query": "Zürich 😀", "limit": 1.0}'),
    ToolCall(call_id="call_1", name="search", arguments='{"query": "75001", "limit": 20}'),
]
RESULTS = [
    ToolResult(call_id=call.call_id, name=call.name, output=f"{number}: été\n\n  {{}}")
    for number, call in enumerate(CALLS)
]


def calls_of(chat: OpenedChat) -> list[ToolCall]:
    """As many as the family writes into one turn."""
    return CALLS[: 2 if chat.round_trip.is_parallel else 1]


@pytest.mark.parametrize("name", ALL)
def test_a_family_is_recognised_by_what_its_template_writes(name: str) -> None:
    chat, expected = opened(name), ALL[name]
    assert (chat.name, chat.is_shipped, chat.round_trip.is_parallel) == (
        expected.chat_format,
        expected.is_shipped,
        expected.is_parallel,
    )
    assert chat.round_trip.lists_tools


@pytest.mark.parametrize("name", ALL)
def test_native_calls_are_read_back_number_for_number(name: str) -> None:
    chat = opened(name)
    written = calls_of(chat)
    # As its template writes it; its probe's tools stand in the prompt, which changes nothing of the turn.
    read = chat.chat_format.parse(native_turn(chat.chat_format, written), call_id_seed=7, tools=TOOLS)
    assert [call.name for call in read.tool_calls] == ["search"] * len(written)
    assert [_exact(call.arguments) for call in read.tool_calls] == [_exact(call.arguments) for call in written]
    assert "1.0" in read.tool_calls[0].arguments
    assert read.content == ""
    assert len({call.call_id for call in read.tool_calls}) == len(written)


def _exact(arguments: str) -> object:
    return json.loads(arguments, parse_int=str, parse_float=str)


@pytest.mark.parametrize("name", ALL)
def test_prompt_turn_and_suffixes_are_the_rendered_conversation(name: str) -> None:
    """Two rounds of calls and results; all that stands before each stays as it was, token for token."""
    chat = opened(name)
    chat_format = chat.chat_format
    written = calls_of(chat)
    results = RESULTS[: len(written)]
    messages = [template_message(QUESTION, chat_format.syntax)]
    tools = [template_tool(tool) for tool in TOOLS]
    call_message = {
        "role": "assistant",
        **chat_format.style,
        "tool_calls": template_message(
            Message(role=Role.ASSISTANT, content="", tool_calls=tuple(written)), chat_format.syntax
        )["tool_calls"],
    }
    buffer = chat_format.prompt_ids([QUESTION], TOOLS)
    for _ in range(2):
        messages.append(call_message)
        called = chat_format.tokenizer.apply_template(
            messages, tools, add_generation_prompt=False, own_messages=len(messages)
        )
        messages += [result_message(result, chat_format.syntax) for result in results]
        answered = chat_format.tokenizer.apply_template(
            messages, tools, add_generation_prompt=True, own_messages=len(messages)
        )
        shared = _shared(buffer, called)
        # Where the prompt opens a thought, a thought may differ; the turn before that is the same.
        assert shared >= len(buffer) - 3
        suffix = chat_format.suffix_ids(results)
        assert answered[-len(suffix) :] == suffix
        assert answered[: len(answered) - len(suffix)][-1] in chat_format.stop_token_ids
        assert _shared(called, answered) >= len(answered) - len(suffix) - 1
        buffer = answered


@pytest.mark.parametrize("name", ["glm4moe", "gemma4", "gemma4_v5", "qwen3", "gptoss"])
def test_results_are_opened_whatever_stop_token_the_policy_took(name: str) -> None:
    """Where one of them opens results, it stands in front of them once."""
    chat_format = opened(name).chat_format
    usual, opening = chat_format.suffix_ids(RESULTS[:1]), chat_format.syntax.results_opening
    mark = [] if opening is None else chat_format.tokenizer.encode(opening)
    for stop in chat_format.stop_token_ids:
        expected = usual if [stop] == mark else [*mark, *usual]
        assert chat_format.suffix_ids(RESULTS[:1], stop) == expected


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((place for place, (first, second) in enumerate(pairs) if first != second), min(len(one), len(other)))


def golden_of(name: str) -> dict[str, object]:
    """What a change of code must not change without being seen."""
    chat = opened(name)
    written = calls_of(chat)
    prompt = chat.chat_format.prompt_ids([QUESTION], TOOLS)
    turn = native_turn(chat.chat_format, written)
    suffix = chat.chat_format.suffix_ids(RESULTS[: len(written)])
    return {
        "stop": list(chat.chat_format.stop_token_ids),
        "prompt": prompt,
        "turn": turn,
        "turn text": chat.chat_format.tokenizer.decode(turn),
        "suffix": suffix,
        "suffix text": chat.chat_format.tokenizer.decode(suffix),
    }


@pytest.mark.parametrize("name", ALL)
def test_token_ids_are_the_golden_ones(name: str) -> None:
    golden = json.loads(GOLDEN.read_text())
    assert golden_of(name) == golden[name]


@pytest.mark.parametrize("name", REFUSED)
def test_a_template_that_cannot_carry_tools_is_refused_in_words(name: str) -> None:
    with pytest.raises(ChatTemplateError, match=REFUSED[name]):
        open_chat(folder_of(name), now=SOME_DAY)


@pytest.mark.parametrize("name", ["qwen3_vl", "gptoss"])
def test_a_developers_message_that_the_template_drops_is_refused(name: str) -> None:
    first, later = (Message(role=Role.DEVELOPER, content=text) for text in ("Be brief.", "Be kind."))
    chat_format = opened(name).chat_format
    assert "Be kind." in opened("qwen3").chat_format.tokenizer.decode(
        opened("qwen3").chat_format.prompt_ids([first, later, QUESTION], TOOLS)
    )
    assert chat_format.prompt_ids([first, QUESTION], TOOLS)
    for messages in ([first, later, QUESTION], [QUESTION, later], [first, QUESTION, first]):
        with pytest.raises(ChatTemplateError, match=r"drops messages\[\d\], a developer's that is not the first"):
            chat_format.prompt_ids(messages, TOOLS)


@pytest.mark.parametrize("name", ["gptoss", "llama3_1"])
def test_a_second_call_that_the_template_has_no_place_for_is_refused(name: str) -> None:
    results = [
        Message(role=Role.TOOL, content=result.output or "", tool_call_id=result.call_id, name=result.name)
        for result in RESULTS
    ]
    called = [QUESTION, Message(role=Role.ASSISTANT, content="", tool_calls=tuple(CALLS)), *results, QUESTION]
    assert '"75001"' in opened("qwen3").chat_format.tokenizer.decode(
        opened("qwen3").chat_format.prompt_ids(called, TOOLS)
    )
    with pytest.raises(ChatTemplateError, match=r"writes one call a message, and messages\[1\] has 2"):
        opened(name).chat_format.prompt_ids(called, TOOLS)


def test_a_model_without_a_template_is_opened_with_the_one_that_its_check_found(tmp_path: Path) -> None:
    """Base models of Gemma, for example; as the trainer opens them."""
    gemma = folder_of("gemma")
    (tmp_path / "tokenizer.json").write_text(gemma.tokenizer_json)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(dict(gemma.special_tokens)))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma2"}))
    found = check_model(tmp_path, ChatSpec())
    chat = open_model_chat(str(tmp_path), load_tokenizer(str(tmp_path)))
    assert (found.problem, found.chat_format, found.is_template_shipped) == (None, "gemma3", True)
    assert (chat.name, chat.template.fingerprint) == ("gemma3", found.template_fingerprint)


CHATML = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""


@pytest.mark.parametrize(
    ("model", "model_type", "name"), [("gemma", "gemma2", "gemma3"), ("deepseekv3", "deepseek_v3", "deepseek_v3")]
)
def test_a_model_of_a_known_architecture_that_talks_otherwise_is_given_no_template(
    model: str, model_type: str, name: str
) -> None:
    """Fine-tunes of Gemma that were taught ChatML, and models of other makers with DeepSeek's architecture."""
    folder = dataclasses.replace(folder_of(model), template=CHATML, model_type=model_type)
    with pytest.raises(ChatTemplateError, match="no place for tool calls in any syntax known here"):
        open_chat(folder, now=SOME_DAY)
    assert open_chat(folder, wanted=name, now=SOME_DAY).is_shipped, "but by its name"


def test_a_template_with_the_calls_of_another_family_is_not_replaced_for_its_turns() -> None:
    """FunctionGemma's turns are Gemma's, which was taught other calls. Not even where its own cannot be read back."""
    folder = folder_of("function_gemma")
    unreadable = dataclasses.replace(folder, template=(folder.template or "").replace("call:", "cll:"))
    with pytest.raises(ChatTemplateError, match="not read back"):
        open_chat(unreadable, now=SOME_DAY)
    assert open_chat(unreadable, wanted="gemma3", now=SOME_DAY).is_shipped, "but by its name"


def test_control_tokens_are_found_whatever_their_flag() -> None:
    """Literals that the tokenizers do not mark as special, and templates emit."""
    assert {"<tool_call>", "</think>", "<|fim_prefix|>"} <= set(tokenizer_of(opened("qwen3")).control_literals)
    deepseek = set(tokenizer_of(opened("deepseek_v3")).control_literals)
    assert {"<｜User｜>", "<｜tool▁sep｜>", "<｜fim▁hole｜>"} <= deepseek
    gemma = set(tokenizer_of(opened("gemma3")).control_literals)
    assert {"<start_of_turn>", "<end_of_turn>"} <= gemma
    assert not {"\n\n", "<table>", "<b>"} & gemma


def test_a_template_that_breaks_without_tools_is_replaced_as_one_that_has_no_place_for_them() -> None:
    folder = folder_of("phi4_mini")
    broken = dataclasses.replace(folder, template=f"{{% for tool in tools %}}{{% endfor %}}{folder.template}")
    assert open_chat(broken, now=SOME_DAY).is_shipped


def test_a_template_that_writes_other_turns_than_the_shipped_one_is_not_replaced_by_it_unless_that_is_wanted() -> None:
    """DeepSeek V3.1 has the marks of V3, and another prompt and other calls."""
    folder = folder_of("deepseekv3")
    assert folder.template is not None
    other = dataclasses.replace(folder, template=folder.template.replace("<｜Assistant｜>", "<｜Assistant｜></think>"))
    with pytest.raises(ChatTemplateError, match="writes turns otherwise than the template that is shipped"):
        open_chat(other, now=SOME_DAY)
    assert open_chat(other, wanted="deepseek_v3", now=SOME_DAY).is_shipped


def test_a_template_that_shows_tools_in_its_own_way_is_not_replaced_unless_that_is_wanted() -> None:
    """A fine-tune of Gemma that was taught calls which are not known here."""
    folder = folder_of("gemma")
    shows = "{% for tool in tools %}{{ '<start_of_turn>user\\n' + (tool | tojson) + '<end_of_turn>\\n' }}{% endfor %}"
    other = dataclasses.replace(folder, template=f"{shows}{folder.template}")
    with pytest.raises(ChatTemplateError, match="shows tools otherwise than the template that is shipped"):
        open_chat(other, now=SOME_DAY)
    assert open_chat(other, wanted="gemma3", now=SOME_DAY).is_shipped
