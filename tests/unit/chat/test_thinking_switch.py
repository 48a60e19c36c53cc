"""`reasoning_effort` reaches the switch that a template has, and thinking off keeps the token law."""

import pytest

from rft.chat.opening import open_chat
from rft.chat.thinking_switch import thinking_options, thinking_switch
from rft.core.messages import Message, Role
from tests.unit.chat.models import SOME_DAY, folder_of, opened, trl_template

QUESTION = [Message(role=Role.USER, content="Why?")]


@pytest.mark.parametrize(
    ("template", "switch", "minimal", "high"),
    [
        ("gptoss", "reasoning_effort", {"reasoning_effort": "low"}, {"reasoning_effort": "high"}),
        ("qwen3_8", "reasoning_effort", {"enable_thinking": False}, {"reasoning_effort": "xhigh"}),
        ("qwen3_5_think", "enable_thinking", {"enable_thinking": False}, {"enable_thinking": True}),
        ("gemma4", "enable_thinking", {"enable_thinking": False}, {"enable_thinking": True}),
        ("llama3_1", None, {}, {}),
        ("qwen2_5", None, {}, {}),
    ],
)
def test_effort_is_told_in_the_templates_own_terms(
    template: str, switch: str | None, minimal: dict[str, object], high: dict[str, object]
) -> None:
    source = trl_template(template)
    assert thinking_switch(source) == switch
    assert thinking_options(source, "minimal") == minimal
    assert thinking_options(source, "high") == high
    assert thinking_options(source, "default") == {}


@pytest.mark.lengthy
@pytest.mark.parametrize("name", ["gptoss", "qwen3_8", "qwen3_6", "nemotron_3_nano", "glm4moe", "gemma4_v5"])
@pytest.mark.parametrize("effort", ["minimal", "low", "medium", "high"])
def test_every_effort_keeps_the_token_law(name: str, effort: str) -> None:
    """Opening a chat proves it."""
    chat = open_chat(folder_of(name), reasoning_effort=effort, now=SOME_DAY)
    assert chat.name == opened(name).name
    assert not chat.is_shipped


@pytest.mark.lengthy
def test_qwen3_without_thinking_gets_the_template_that_keeps_history() -> None:
    thinks, not_at_all = opened("qwen3"), open_chat(folder_of("qwen3"), reasoning_effort="minimal", now=SOME_DAY)
    assert (thinks.is_shipped, not_at_all.is_shipped) == (False, True)
    prompt = not_at_all.chat_format.prompt_ids(QUESTION, ())
    shown = not_at_all.chat_format.tokenizer.decode(prompt)
    assert shown.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    # The same prompt as the model's own template writes, which is what it was taught.
    assert shown == thinks.chat_format.tokenizer.decode(thinks.chat_format.prompt_ids(QUESTION, ())) + (
        "<think>\n\n</think>\n\n"
    )


def test_what_an_operator_sets_outranks_the_order() -> None:
    chat = open_chat(folder_of("gptoss"), options={"reasoning_effort": "high"}, reasoning_effort="low", now=SOME_DAY)
    assert "Reasoning: high" in chat.chat_format.tokenizer.decode(chat.chat_format.prompt_ids(QUESTION, ()))
