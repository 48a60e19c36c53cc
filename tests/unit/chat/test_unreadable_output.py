"""A model whose call cannot be read is told how its own family writes calls."""

import pytest

from rft.chat.formats import FORMATS
from rft.core.messages import UNREADABLE_CALL_OUTPUT, ToolSchema, unreadable_call_output

TOOL = ToolSchema(name="search", description="", parameters={"type": "object", "properties": {"q": {"type": "string"}}})
AS_TOLD = {
    "hermes": '<tool_call>{"name": "search", "arguments": {"q": "a"}}</tool_call>',
    "qwen3_5": "<tool_call><function=search><parameter=q>a</parameter></function></tool_call>",
    "glm": "<tool_call>search<arg_key>q</arg_key><arg_value>a</arg_value></tool_call>",
    "llama3": '{"name": "search", "parameters": {"q": "a"}}',
    "gemma3": '{"name": "search", "parameters": {"q": "a"}}',
    "gemma4": '<|tool_call>call:search{q:<|"|>a<|"|>}<tool_call|>',
    "function_gemma": "<start_function_call>call:search{q:<escape>a<escape>}<end_function_call>",
    "lfm2": '<|tool_call_start|>[search(q="a")]<|tool_call_end|>',
    "olmo3": '<function_calls>search(q="a")</function_calls>',
    "seed_oss": "<seed:tool_call><function=search><parameter=q>a</parameter></function></seed:tool_call>",
    "llama4": '{"name": "search", "parameters": {"q": "a"}}',
    "llama_nemotron": '<TOOLCALL>[{"name": "search", "arguments": {"q": "a"}}]</TOOLCALL>',
    "phi4_mini": '<|tool_call|>[{"name": "search", "arguments": {"q": "a"}}]<|/tool_call|>',
    "granite3": '<|tool_call|>[{"name": "search", "arguments": {"q": "a"}}]',
}
"""What the words describe, filled in."""
WITHOUT_JSON = ("qwen3_5", "seed_oss", "glm", "gemma4", "function_gemma", "lfm2", "olmo3")


def test_hermes_says_what_it_always_said() -> None:
    said = unreadable_call_output(FORMATS["hermes"].syntax.call_shape)
    always = "tool call could not be read. Write a JSON object with a string `name` and an object `arguments`."
    assert said == UNREADABLE_CALL_OUTPUT == f"Error: this {always}"


@pytest.mark.parametrize("name", FORMATS)
def test_only_families_with_named_json_are_told_to_write_it(name: str) -> None:
    said = unreadable_call_output(FORMATS[name].syntax.call_shape)
    assert said.startswith("Error: this tool call could not be read. Write ")
    assert ("JSON" in said) == (name not in WITHOUT_JSON)
    named = ("hermes", "llama3", "llama4", "gemma3", "llama_nemotron", "phi4_mini", "granite3")
    assert ("`name`" in said) == (name in named)


@pytest.mark.parametrize("name", AS_TOLD)
def test_what_is_told_is_read(name: str) -> None:
    (call,) = FORMATS[name].syntax.read(AS_TOLD[name], [TOOL]).calls
    assert (call.name, call.arguments.replace(" ", "")) == ("search", '{"q":"a"}')
