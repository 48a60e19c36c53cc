"""What graders are shown of a sample that an item brings is what the sample says, wherever it says it."""

from typing import Any, cast

import pytest
from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.messages import Role
from rft.grader_gateway.contract import to_sample
from rft.platform.evals.given_sample import BadSample, given_trace

CALL: JsonObject = {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": "{}"}}


def told(sample: JsonObject) -> dict[str, Any]:
    return cast("dict[str, Any]", to_sample(given_trace(sample)))


def test_an_output_of_several_messages_is_told_with_its_calls_and_what_tools_answered() -> None:
    output: list[JsonObject] = [
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "7", "tool_call_id": "call_1"},
        {"role": "assistant", "content": "It is 7.", "reasoning_content": "hm"},
    ]
    sample = told(cast("JsonObject", {"input": [{"role": "user", "content": "?"}], "output": output}))
    assert (sample["output_text"], sample["output_tools"]) == ("It is 7.", [CALL])
    assert [message["role"] for message in sample["trace"]["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert sample["trace"]["prompt_messages"] == 1
    message = {"role": "assistant", "content": "It is 7.", "tool_calls": [], "reasoning_content": "hm"}
    assert sample["choices"] == [{"index": 0, "finish_reason": "stop", "message": message}]


def test_calls_that_are_given_for_the_whole_sample_are_not_those_of_its_answer() -> None:
    output: list[JsonObject] = [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "7", "tool_call_id": "call_1"},
        {"role": "assistant", "content": "It is 7."},
    ]
    sample = cast("JsonObject", {"output": output, "output_tools": [CALL]})
    assert [len(message.tool_calls) for message in given_trace(sample).messages] == [1, 0, 0]
    assert told(sample)["output_tools"] == [CALL]


def test_an_output_that_nobody_can_read_still_has_its_answer() -> None:
    output: list[JsonObject] = [{"role": "assistant", "content": 7}, {"role": "assistant", "content": "It is 7."}]
    [answer] = given_trace(cast("JsonObject", {"output": output})).messages
    assert (answer.role, answer.content) == (Role.ASSISTANT, "It is 7.")


def test_an_answer_that_stands_elsewhere_is_not_refused_for_an_output_that_ends_otherwise() -> None:
    output: list[JsonObject] = [{"role": "assistant", "content": "", "tool_calls": [CALL]}, {"role": "tool"}]
    sample = told(cast("JsonObject", {"output_text": "7", "output_tools": [CALL], "output": output}))
    assert (sample["output_text"], sample["output_tools"]) == ("7", [CALL])


def test_a_sample_ended_as_its_choice_did() -> None:
    choice: JsonObject = {"finish_reason": "length", "message": {"role": "assistant", "content": "It is"}}
    assert told({"choices": [choice]})["finish_reason"] == "length"
    assert told({"choices": [choice], "finish_reason": "stop"})["finish_reason"] == "stop"
    assert told({"choices": [{"message": {"role": "assistant", "content": "It is"}}]})["finish_reason"] == "stop"


PARTS: list[JsonValue] = [{"type": "output_text", "text": "It is "}, {"type": "text", "text": "7."}]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (PARTS, "It is 7."),
        ([{"type": "output_text", "text": "7", "annotations": []}], "7"),
        (["7"], "7"),
        ([], ""),
        ([{"type": "refusal", "refusal": "I cannot."}], ""),
    ],
)
def test_a_text_in_parts_is_one_text_wherever_it_stands(content: JsonValue, text: str) -> None:
    message: JsonObject = {"role": "assistant", "content": content}
    assert told({"choices": [{"message": message}]})["output_text"] == text
    assert told({"output": [message]})["output_text"] == text
    assert told({"output_text": "8", "output": [message]})["output_text"] == "8"


def test_a_conversation_whose_texts_are_in_parts_is_read() -> None:
    asked: JsonObject = {"role": "user", "content": [{"type": "input_text", "text": "?"}]}
    said: JsonObject = {"role": "assistant", "content": PARTS}
    messages = given_trace({"input": [asked], "output": [said, said]}).messages
    assert [message.content for message in messages] == ["?", "It is 7.", "It is 7."]


@pytest.mark.parametrize(
    "sample",
    [
        {"output": [{"role": "assistant", "content": [{"type": "output_image", "url": "x"}]}]},
        {"output": [{"role": "assistant", "content": [{"type": "output_text", "text": 7}]}]},
        {"choices": [{"message": {"role": "assistant", "content": {"type": "output_text", "text": "7"}}}]},
        {"output_text": PARTS},
    ],
)
def test_what_is_no_text_is_no_sample(sample: JsonObject) -> None:
    with pytest.raises(BadSample, match="must be a text"):
        given_trace(sample)
