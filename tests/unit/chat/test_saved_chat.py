"""What a checkpoint keeps of its chat is enough to render the same tokens from its folder alone."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from rft.chat.errors import ChatTemplateError
from rft.chat.opening import open_chat, open_saved_chat, saved_chat
from rft.chat.saved_chat import CHAT_RECORD, CHAT_TEMPLATE, read_saved_chat
from rft.chat.template_format import TemplateChatFormat
from rft.chat.thinking_switch import with_effort
from rft.core.messages import Message, Role, ToolResult, ToolSchema
from tests.unit.chat.models import FEW_TOKENS, REAL, SOME_DAY, folder_of, opened

TOOL = ToolSchema(name="search", description="Finds.", parameters={"type": "object", "properties": {}})
MESSAGES = [Message(role=Role.SYSTEM, content="Be brief."), Message(role=Role.USER, content="Zürich <|im_end|> 1.0?")]
RESULT = ToolResult(call_id="call_0", name="search", output="found <tool_call> nothing")


OTHERS = ("qwen3_5_think", "gptoss", "gemma4", "deepseek_r1_distill")


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("name", "effort"),
    [*((name, "default") for name in (*REAL, *OTHERS)), (FEW_TOKENS, "minimal"), ("gptoss", "high")],
)
def test_a_folder_with_a_saved_chat_renders_the_same_tokens(tmp_path: Path, name: str, effort: str) -> None:
    model = folder_of(name)
    chat = opened(name) if effort == "default" else open_chat(model, reasoning_effort=effort, now=SOME_DAY)
    (tmp_path / "tokenizer.json").write_text(model.tokenizer_json)
    (tmp_path / CHAT_TEMPLATE).write_text("what the tokenizer was saved with")
    saved_chat(chat).write(tmp_path)
    again, before = open_saved_chat(tmp_path), chat.chat_format
    assert again.prompt_ids(MESSAGES, [TOOL]) == before.prompt_ids(MESSAGES, [TOOL])
    assert again.suffix_ids([RESULT]) == before.suffix_ids([RESULT])
    assert (again.stop_token_ids, again.syntax.name) == (before.stop_token_ids, chat.name)


@pytest.mark.lengthy
@pytest.mark.parametrize("name", ["qwen3_8", "gptoss", "qwen3_5_think"])
@pytest.mark.parametrize(("trained", "asked"), [("minimal", "high"), ("high", "minimal"), ("low", "high")])
def test_another_effort_than_the_trained_one_is_that_of_a_chat_opened_with_it(
    tmp_path: Path, name: str, trained: str, asked: str
) -> None:
    model = folder_of(name)
    (tmp_path / "tokenizer.json").write_text(model.tokenizer_json)
    saved_chat(open_chat(model, reasoning_effort=trained, now=SOME_DAY)).write(tmp_path)
    again = open_saved_chat(tmp_path, reasoning_effort=asked)
    fresh = open_chat(model, reasoning_effort=asked, now=SOME_DAY).chat_format
    assert shown(again) == shown(fresh)


def test_what_switches_thinking_on_stays_with_another_effort(tmp_path: Path) -> None:
    """An operator's variable, for a template that thinks only where it is told to."""
    model = folder_of("qwen3_8")
    (tmp_path / "tokenizer.json").write_text(model.tokenizer_json)
    options = {"enable_thinking": True, "other": 1}
    saved_chat(open_chat(model, options=options, reasoning_effort="low", now=SOME_DAY)).write(tmp_path)
    read = read_saved_chat(tmp_path)
    assert read is not None
    switched = with_effort(read.record.chat_template_kwargs, read.template, "high")
    assert switched == {**options, "reasoning_effort": "xhigh"}


def shown(chat_format: TemplateChatFormat) -> str:
    return chat_format.tokenizer.decode(chat_format.prompt_ids(MESSAGES, [TOOL]))


@pytest.mark.lengthy
def test_a_date_in_the_prompt_stays_that_of_the_beginning(tmp_path: Path) -> None:
    model = folder_of("llama3_2")
    chat = open_chat(model, now=datetime(2026, 1, 2, tzinfo=UTC))
    (tmp_path / "tokenizer.json").write_text(model.tokenizer_json)
    saved_chat(chat).write(tmp_path)
    again = open_saved_chat(tmp_path)
    prompt = again.prompt_ids(MESSAGES, [])
    assert "02 Jan 2026" in again.tokenizer.decode(prompt)
    assert prompt == chat.chat_format.prompt_ids(MESSAGES, [])


def test_what_has_changed_is_told_by_name() -> None:
    qwen, llama = (saved_chat(open_chat(folder_of(name), now=SOME_DAY)) for name in (FEW_TOKENS, "llama3_1"))
    assert qwen.changed_since(qwen) == ()
    assert {"the chat template", "the tokenizer", "the chat format"} <= set(llama.changed_since(qwen))
    off = saved_chat(open_chat(folder_of(FEW_TOKENS), options={"enable_thinking": False}, now=SOME_DAY))
    assert "the variables of the chat template" in off.changed_since(qwen)


def test_a_folder_without_a_record_has_none_and_a_torn_one_says_so(tmp_path: Path) -> None:
    assert read_saved_chat(tmp_path) is None
    with pytest.raises(ChatTemplateError, match=r"holds no chat\.json"):
        open_saved_chat(tmp_path)
    (tmp_path / CHAT_RECORD).write_text("{")
    with pytest.raises(ChatTemplateError, match="cannot be read"):
        read_saved_chat(tmp_path)
