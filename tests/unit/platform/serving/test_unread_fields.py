"""Fields that would silently have no effect are refused by their name; what asks for nothing is accepted."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.platform.api.errors import BadRequest
from rft.platform.serving.order import to_completion_request
from rft.platform.serving.responses.order import to_response_order
from rft.platform.serving.responses.schemas import ResponseBody
from rft.platform.serving.responses.sealed_turns import TurnSeal
from rft.platform.serving.schemas import ChatCompletionBody
from rft.platform.store.secret_box import SecretBox

Ask = Callable[[JsonObject], None]
BOTH: dict[str, tuple[JsonValue, JsonValue]] = {
    "top_k": (20, -1),
    "min_p": (0.1, 0.0),
    "repetition_penalty": (1.1, 1.0),
    "chat_template_kwargs": ({"enable_thinking": False}, {}),
    "structured_outputs": ({"json": {}}, None),
    "guided_json": ({}, None),
    "min_tokens": (5, 0),
    "stop_token_ids": ([1], []),
    "ignore_eos": (True, False),
    "verbosity": ("low", "medium"),
    "enable_thinking": (False, None),
    "prompt_cache_options": ({"prewarm": True}, {"prewarm": False, "mode": "explicit"}),
}
"""A value that asks for something, and one that does not."""
OF_CHAT: dict[str, tuple[JsonValue, JsonValue]] = {
    **BOTH,
    "max_output_tokens": (5, None),
    "max_completion_token": (5, None),
    "reasoning": ({"effort": "low"}, None),
    "instructions": ("Be brief.", None),
}
OF_RESPONSES: dict[str, tuple[JsonValue, JsonValue]] = {
    **BOTH,
    "max_tokens": (5, None),
    "max_completion_tokens": (5, None),
    "stop": (["END"], []),
    "n": (2, 1),
    "frequency_penalty": (0.5, 0),
    "presence_penalty": (0.5, 0.0),
    "logit_bias": ({"7": 1}, {}),
    "logprobs": (True, False),
    "reasoning_effort": ("low", None),
    "response_format": ({"type": "json_object"}, None),
}
INSIDE: dict[str, tuple[JsonObject, JsonObject]] = {
    "text.verbosity": ({"text": {"verbosity": "low"}}, {"text": {"verbosity": "medium"}}),
    "reasoning.mode": ({"reasoning": {"mode": "pro"}}, {"reasoning": {"mode": "standard", "summary": "auto"}}),
}


def ask_chat(more: JsonObject) -> None:
    body: JsonObject = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **more}
    to_completion_request(ChatCompletionBody.model_validate(body), None)


@pytest.fixture
def ask_responses(tmp_path: Path) -> Ask:
    seal = TurnSeal(SecretBox.at(tmp_path), "local", "model")

    def ask(more: JsonObject) -> None:
        to_response_order(ResponseBody.model_validate({"model": "m", "input": "Hi", **more}), None, seal)

    return ask


@pytest.mark.parametrize("name", OF_CHAT)
def test_of_chat_completions(name: str) -> None:
    something, nothing = OF_CHAT[name]
    assert refused(ask_chat, {name: something}, {name: nothing}) in (name, f"{name}.prewarm")


@pytest.mark.parametrize("name", OF_RESPONSES)
def test_of_responses(ask_responses: Ask, name: str) -> None:
    something, nothing = OF_RESPONSES[name]
    assert refused(ask_responses, {name: something}, {name: nothing}) in (name, f"{name}.prewarm")


@pytest.mark.parametrize("name", INSIDE)
def test_of_what_a_response_is_to_be(ask_responses: Ask, name: str) -> None:
    assert refused(ask_responses, *INSIDE[name]) == name


def test_what_changes_no_answer_is_accepted(ask_responses: Ask) -> None:
    common: JsonObject = {
        "user": "u",
        "metadata": {"a": "b"},
        "service_tier": "auto",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "store": False,
        "stream": True,
        "parallel_tool_calls": True,
        "tools": [],
        "tool_choice": "auto",
        "top_p": 1,
        "anything_else": 7,
    }
    ask_chat({**common, "n": 1, "stream_options": {"include_usage": True, "include_obfuscation": False}})
    ask_responses({**common, "stream_options": {"include_obfuscation": False}, "max_tool_calls": 3, "text": {}})


def refused(ask: Ask, something: JsonObject, nothing: JsonObject) -> str | None:
    """The field that is named where something is asked for; asking for nothing is taken."""
    ask(nothing)
    with pytest.raises(BadRequest) as raised:
        ask(something)
    return raised.value.param
