"""Replies and chunks as they are written: null where the contract has null, and no field of ours that is not there."""

import json
from collections.abc import Sequence
from typing import Any

from rft.core.messages import ToolCall
from rft.platform.serving.replies import Reply
from rft.serving_wire.records import Choice, Done, Event, Prompt, SampledToken, Text

PROMPT = Prompt(prompt_tokens=2, remembered_tokens=0, is_rendered_again=False, token_ids=(1, 2))
CALL = ToolCall(call_id="call_1", name="search", arguments="{}")


def choice(**more: Any) -> Choice:
    said: dict[str, Any] = {"finish_reason": "stop", "content": "7", "reasoning": "", "tool_calls": (), **more}
    return Choice(index=0, completion_tokens=1, reasoning_tokens=0, token_ids=(3,), **said)


def replied(events: Sequence[Event], **more: Any) -> tuple[Any, list[Any]]:
    """The whole reply and the chunks, as a client reads them."""
    reply = Reply(id="chatcmpl-1", created=1, model="tiny", n=1, **more)
    chunks: list[Any] = []
    for event in events:
        reply.take(event)
        chunks += [json.loads(chunk.model_dump_json()) for chunk in reply.chunks(event)]
    return json.loads(reply.completion().model_dump_json()), chunks


def test_a_reply_has_null_where_the_contract_has_it_and_nothing_else() -> None:
    whole, chunks = replied((PROMPT, Text(index=0, text="7"), choice(), Done()))
    assert whole["choices"] == [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "7", "refusal": None},
            "logprobs": None,
        }
    ]
    assert set(whole) == {"id", "object", "created", "model", "choices", "usage"}
    common = {"index": 0, "logprobs": None}
    assert [chunk["choices"] for chunk in chunks] == [
        [{**common, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}],
        [{**common, "delta": {"content": "7"}, "finish_reason": None}],
        [{**common, "delta": {}, "finish_reason": "stop"}],
    ]
    assert {frozenset(chunk) for chunk in chunks} == {frozenset({"id", "object", "created", "model", "choices"})}


def test_a_call_without_words_has_the_content_null() -> None:
    whole, chunks = replied((PROMPT, choice(content="", tool_calls=(CALL,), finish_reason="tool_calls"), Done()))
    message = whole["choices"][0]["message"]
    assert (message["content"], message["refusal"], set(message)) == (
        None, None, {"role", "content", "refusal", "tool_calls"},
    )  # fmt: skip
    assert set(chunks[1]["choices"][0]["delta"]) == {"tool_calls"}


def test_what_was_asked_for_is_there() -> None:
    half = SampledToken(text="\ufffd", logprob=-0.5, utf8=(0xF0,))
    told = choice(reasoning="hm", tokens=(half,))
    asked = {"has_logprobs": True, "has_token_ids": True, "has_usage": True}
    whole, chunks = replied((PROMPT, told, Done()), **asked)
    logprobs = {"content": [{"token": "\ufffd", "bytes": [0xF0], "logprob": -0.5, "top_logprobs": []}], "refusal": None}
    (only,) = whole["choices"]
    assert (only["logprobs"], only["token_ids"], whole["prompt_token_ids"]) == (logprobs, [3], [1, 2])
    assert only["message"]["reasoning_content"] == "hm"
    assert [chunk.get("prompt_token_ids") for chunk in chunks] == [[1, 2], None, None, None]
    assert (chunks[2]["choices"][0]["logprobs"], chunks[2]["choices"][0]["token_ids"]) == (logprobs, [3])
    assert (chunks[3]["choices"], chunks[3]["usage"]) == ([], whole["usage"])
