"""Messages of a request for a chat completion, in the shapes that the SDK's types allow."""

import pytest
from openai.types.chat import ChatCompletionAssistantMessageParam
from pydantic import JsonValue, TypeAdapter

from rft.core.base import JsonObject
from rft.platform.api.errors import BadRequest
from rft.platform.serving.order import read_chat

ASKED: JsonObject = {"role": "user", "content": "How?"}
NO: JsonObject = {"type": "refusal", "refusal": "No."}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([NO], "No."),
        ([{"type": "text", "text": "Well. "}, NO], "Well. No."),
        ([{"type": "refusal", "refusal": ""}], ""),
    ],
)
def test_a_refusal_among_the_parts_of_an_assistant_is_what_it_said(content: JsonValue, said: str) -> None:
    message: JsonObject = {"role": "assistant", "content": content}
    TypeAdapter(ChatCompletionAssistantMessageParam).validate_python(message)
    assert [each.content for each in read_chat([ASKED, message, ASKED])] == ["How?", said, "How?"]


@pytest.mark.parametrize(
    ("role", "part"),
    [("user", NO), ("assistant", {"type": "refusal"}), ("assistant", {"type": "refusal", "refusal": 7})],
)
def test_other_refusals_are_refused_by_their_place(role: str, part: JsonObject) -> None:
    with pytest.raises(BadRequest) as refused:
        read_chat([ASKED, {"role": role, "content": [part]}])
    assert refused.value.param == "messages[1].content[0]"
