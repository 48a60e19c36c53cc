"""NUL in a tool's output is what it is in a rollout; elsewhere it is refused as before."""

from typing import Any

import pytest
from pydantic import ValidationError

from rft.platform.serving.order import read_chat
from rft.platform.serving.playground.schemas import PlaygroundBody
from rft.platform.serving.responses.schemas import ResponseBody
from rft.platform.serving.schemas import ChatCompletionBody

CALL: dict[str, Any] = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def test_of_chat_completions() -> None:
    messages: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "a\x00b"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "7\x00"},
    ]
    body = ChatCompletionBody.model_validate({"model": "m", "messages": messages})
    assert [message.content for message in read_chat(body.messages)] == ["a\ufffdb", "", "7\ufffd"]


def test_of_responses() -> None:
    output: dict[str, Any] = {"type": "function_call_output", "call_id": "call_1", "output": "7\x00"}
    parts = {**output, "output": [{"type": "input_text", "text": "\x00"}]}
    body = ResponseBody.model_validate({"model": "m", "input": [output, parts]})
    assert body.input == [
        {**output, "output": "7\ufffd"},
        {**output, "output": [{"type": "input_text", "text": "\ufffd"}]},
    ]
    assert ResponseBody.model_validate({"model": "m", "input": "\x00"}).input == "\ufffd"


def test_of_the_playground() -> None:
    body = PlaygroundBody.model_validate({"messages": [{"role": "user", "content": "a\x00b"}]})
    assert body.messages == [{"role": "user", "content": "a\ufffdb"}]


@pytest.mark.parametrize("more", [{"user": "\x00"}, {"messages": [{"role": "user", "content": "\ud800"}]}])
def test_what_cannot_be_sent_back_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="NUL or half a surrogate"):
        ChatCompletionBody.model_validate({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **more})
